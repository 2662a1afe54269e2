import CanopyTesting
import Testing

@testable import CanopyAccounts

@Suite struct SignUpThrottleTests {
  private var throttle = SignUpThrottle(settings: AccountSettings())

  @Test mutating func `sixty sign-ups in a minute are admitted, and the next one is refused`() {
    for number in Int64(0)..<60 { #expect(throttle.admit(.ipv4(1), now: number * 100) == nil) }
    #expect(throttle.admit(.ipv4(1), now: 6_000) == 54_000)
    #expect(throttle.admit(.ipv4(2), now: 6_000) == nil, "another remote address has its own")
    #expect(throttle.admit(.ipv4(1), now: 59_999) == 1)
    #expect(throttle.admit(.ipv4(1), now: 60_000) == nil, "the first is a minute old")
    #expect(throttle.admit(.ipv4(1), now: 60_000) == 100)
  }

  @Test mutating func `no minute has more than sixty sign-ups`() {
    var generator = SeededGenerator(printingSeedFor: "SignUpThrottleTests")
    var now: Int64 = 0
    var admitted: [Int64] = []
    for _ in 0..<3_000 {
      now += Int64.random(in: 0...1_500, using: &generator)
      switch throttle.admit(.ipv4(1), now: now) {
      case nil:
        admitted.append(now)
        #expect(admitted.count { now - $0 < 60_000 } <= 60)
      case let wait?:
        #expect((1...60_000).contains(wait))
        var later = throttle
        #expect(later.admit(.ipv4(1), now: now + wait) == nil, "the returned wait suffices")
      }
    }
  }

  @Test func `the number of remote networks is bounded`() {
    var settings = AccountSettings()
    settings.remoteNetworksMax = 2
    settings.signUpsMax = 1
    var throttle = SignUpThrottle(settings: settings)
    #expect(throttle.admit(.ipv4(1), now: 0) == nil)
    #expect(throttle.admit(.ipv4(2), now: 0) == nil)
    #expect(throttle.admit(.ipv4(1), now: 0) == 60_000)
    #expect(throttle.admit(.ipv4(3), now: 0) == nil)
    #expect(throttle.count == 2)
    #expect(throttle.admit(.ipv4(1), now: 0) == 60_000)
    #expect(throttle.admit(.ipv4(2), now: 0) == nil)
  }

  @Test mutating func `a clock that was set back does not extend the wait`() {
    for _ in 0..<60 { #expect(throttle.admit(.ipv4(1), now: 1_000_000) == nil) }
    #expect(throttle.admit(.ipv4(1), now: 0) == 60_000)
    #expect(throttle.admit(.ipv4(1), now: 60_000) == nil)
  }

  @Test mutating func `extreme times do not overflow`() {
    for now in [Int64.max, .min, 0, .max, -1] {
      for _ in 0..<60 { _ = throttle.admit(.ipv4(1), now: now) }
      #expect(throttle.admit(.ipv4(1), now: now) == 60_000)
    }
  }
}
