import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct RateLimiterTests {
  private var limiter = RateLimiter<String>(
    attemptsMax: 60, windowMilliseconds: 60_000, keysMax: 100)

  @Test mutating func `sixty attempts at once are admitted, and one more each second`() {
    for _ in 0..<60 { #expect(limiter.take("a", now: 0) == nil) }
    #expect(limiter.take("a", now: 0) == 1_000)
    #expect(limiter.take("b", now: 0) == nil, "another key has its own")
    #expect(limiter.take("a", now: 999) == 1)
    #expect(limiter.take("a", now: 1_000) == nil)
    #expect(limiter.take("a", now: 1_000) == 1_000)
    #expect(limiter.take("a", now: 3_000) == nil)
    #expect(limiter.take("a", now: 3_000) == nil)
    #expect(limiter.take("a", now: 3_000) == 1_000)
    for _ in 0..<60 { #expect(limiter.take("a", now: 63_000) == nil, "full again") }
    #expect(limiter.take("a", now: 63_000) == 1_000)
  }

  @Test mutating func `an attempt may count as several, even as more than the size of the bucket`()
  {
    #expect(limiter.take("a", cost: 59, now: 0) == nil)
    #expect(limiter.take("a", cost: 100, now: 0) == nil)
    #expect(limiter.take("a", now: 0) == 100_000)
    #expect(limiter.take("a", now: 99_999) == 1)
    #expect(limiter.take("a", cost: 0, now: 100_000) == nil)
    #expect(limiter.take("a", cost: .max, now: 101_000) == nil)
    #expect(limiter.take("a", now: 101_000) == 1_000_000_000_000)
  }

  @Test func `the returned wait suffices, and one millisecond less does not`() {
    var generator = SeededGenerator(printingSeedFor: "RateLimiterTests")
    for _ in 0..<50 {
      let attempts = Int.random(in: 1...100, using: &generator)
      let window = Int64.random(in: 1...100_000, using: &generator)
      var limiter = RateLimiter<Int>(
        attemptsMax: attempts, windowMilliseconds: window, keysMax: 1)
      var now: Int64 = 0
      for _ in 0..<200 {
        now += Int64.random(in: 0...(2 * window / Int64(attempts)), using: &generator)
        guard let wait = limiter.take(0, now: now) else { continue }
        #expect((1...window).contains(wait))
        var (early, late) = (limiter, limiter)
        #expect(early.take(0, now: now + wait - 1) == 1)
        #expect(late.take(0, now: now + wait) == nil)
      }
    }
  }

  @Test func `the number of keys is bounded, and the least recently used one is forgotten`() {
    var limiter = RateLimiter<String>(attemptsMax: 1, windowMilliseconds: 1_000, keysMax: 2)
    for key in ["a", "b", "c"] { #expect(limiter.take(key, now: 0) == nil) }
    #expect(limiter.count == 2)
    #expect(limiter.take("c", now: 0) == 1_000)
    #expect(limiter.take("a", now: 0) == nil)
  }

  @Test mutating func `a clock that was set back does not extend the wait`() {
    for _ in 0..<60 { #expect(limiter.take("a", now: 1_000_000) == nil) }
    #expect(limiter.take("a", now: 0) == 1_000)
    #expect(limiter.take("a", now: 1_000) == nil)
  }

  @Test func `extreme settings and times do not overflow`() {
    for (attempts, window) in [(Int.max, Int64.max), (.min, .min), (0, .max), (.max, 0)] {
      var limiter = RateLimiter<Int>(
        attemptsMax: attempts, windowMilliseconds: window, keysMax: .min)
      for now in [Int64.max, .min, 0, .max, -1] {
        for _ in 0..<3 { _ = limiter.take(0, now: now) }
      }
      #expect(limiter.count == 1)
    }
  }
}
