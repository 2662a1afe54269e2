import CanopyTesting
import Testing

@testable import CanopySession

/// The token buckets of writes and bytes.
struct QuotaBucketsTests {
  private typealias Buckets = QuotaBuckets<String>

  /// Two writes and 100 bytes in a second, and twice as many at once.
  private func buckets(ownersMax: Int = 10) -> Buckets {
    Buckets(.init(writes: 2, bytes: 100, burstSeconds: 2), ownersMax: ownersMax)
  }

  @Test func `a burst is admitted, and one write more after the time that a write takes`() {
    var buckets = buckets()
    for _ in 0..<4 {
      #expect(buckets.wait("a", now: 0) == nil)
      buckets.charge("a", bytes: 1, now: 0)
    }
    #expect(buckets.wait("a", now: 0) == 500)
    #expect(buckets.wait("a", now: 499) == 1)
    #expect(buckets.wait("a", now: 500) == nil)
    #expect(buckets.wait("b", now: 0) == nil)
    // A full bucket does not grow.
    buckets.charge("a", bytes: 1, now: 1_000_000)
    for _ in 0..<3 { buckets.charge("a", bytes: 1, now: 1_000_000) }
    #expect(buckets.wait("a", now: 1_000_000) == 500)
  }

  @Test func `the bytes of a write may exceed the room, and are a debt then`() {
    var buckets = buckets()
    buckets.charge("a", bytes: 199, now: 0)
    #expect(buckets.wait("a", now: 0) == nil)
    buckets.charge("a", bytes: 1_000, now: 0)
    // 1,000 of 1,199 bytes are a debt to 200, at 100 in a second.
    #expect(buckets.wait("a", now: 0) == 10_000)
    #expect(buckets.wait("a", now: 9_999) == 1)
    #expect(buckets.wait("a", now: 10_000) == nil)
  }

  @Test func `a refusal holds for the shortest time, and further ones do not extend it`() {
    var buckets = buckets()
    #expect(buckets.refuse("a", waitMin: 1_000, now: 0) == nil)
    for _ in 0..<4 { buckets.charge("a", bytes: 1, now: 0) }
    #expect(buckets.refuse("a", waitMin: 1_000, now: 0) == 1_000)
    #expect(buckets.refuse("a", waitMin: 1_000, now: 600) == 400)
    #expect(buckets.refuse("a", waitMin: 1_000, now: 999) == 1)
    #expect(buckets.refuse("a", waitMin: 1_000, now: 1_000) == nil)
  }

  @Test func `a clock that was set back restores nothing, and does not extend a wait`() {
    var buckets = buckets()
    for _ in 0..<4 { buckets.charge("a", bytes: 1, now: 10_000) }
    #expect(buckets.refuse("a", waitMin: 1_000, now: 10_000) == 1_000)
    #expect(buckets.wait("a", now: 0) == 1_000)
    #expect(buckets.refuse("a", waitMin: 1_000, now: 0) == 1_000)
    #expect(buckets.refuse("a", waitMin: 1_000, now: 999) == 1)
    #expect(buckets.refuse("a", waitMin: 1_000, now: 1_000) == nil)
    for time: Int64 in [.min, .max, .min] { _ = buckets.refuse("a", waitMin: 1_000, now: time) }
    #expect(buckets.wait("a", now: .max) == nil)
  }

  @Test func `extreme settings and costs do not overflow`() {
    for extreme in [Int.min, 0, 1, .max] {
      var buckets = Buckets(
        .init(writes: extreme, bytes: extreme, burstSeconds: extreme), ownersMax: 1)
      for _ in 0..<10 { buckets.charge("a", bytes: .max, now: 0) }
      let wait = buckets.wait("a", now: 0)
      #expect((wait ?? 1) > 0)
      #expect(buckets.wait("a", now: .max) == nil)
    }
  }

  @Test func `the memory is bounded, and an owner that is forgotten gains nothing`() {
    var buckets = buckets(ownersMax: 3)
    for name in ["a", "b", "c"] {
      for _ in 0..<4 { buckets.charge(name, bytes: 1, now: 0) }
    }
    // No bucket is full, so all further owners share one.
    for name in ["d", "e", "f", "g"] {
      #expect(buckets.wait(name, now: 0) == nil)
      buckets.charge(name, bytes: 1, now: 0)
    }
    #expect(buckets.count == 3)
    #expect(buckets.wait("h", now: 0) == 500)
    #expect(buckets.wait("a", now: 0) == 500)
    // After two seconds the buckets are full, and owners are forgotten for others.
    #expect(buckets.wait("h", now: 1_999) == nil)
    buckets.charge("h", bytes: 1, now: 2_000)
    #expect(buckets.count == 3)
    for _ in 0..<3 { buckets.charge("h", bytes: 1, now: 2_000) }
    #expect(buckets.wait("h", now: 2_000) == 500)
    #expect(buckets.wait("a", now: 2_000) == nil)
  }

  @Test func `many owners with a small table never make more writes than their buckets hold`() {
    var random = SeededGenerator(printingSeedFor: "quota buckets")
    var buckets = buckets(ownersMax: 5)
    var now: Int64 = 0
    var writes: [String: [Int64]] = [:]
    for _ in 0..<20_000 {
      now += Int64(random.next() % 100)
      let name = "owner \(random.next() % 12)"
      guard buckets.wait(name, now: now) == nil else { continue }
      buckets.charge(name, bytes: 1, now: now)
      writes[name, default: []].append(now)
    }
    #expect(writes.count == 12)
    for (name, times) in writes {
      // A burst of four, and two in each second of the time between any two of its writes.
      for first in times.indices {
        for last in times.indices.dropFirst(first).prefix(40) {
          let made = Int64(last - first + 1)
          #expect(made * 1_000 <= 4_000 + 2 * (times[last] - times[first]) + 1_000, "\(name)")
        }
      }
    }
  }
}
