import CanopyTesting
import Testing

@testable import CanopyEngine

/// Amounts of time that halve in each second.
struct UsedTimeTests {
  private static let second = UsedTime.ticksPerSecond

  @Test func `an amount halves in each second`() {
    let second = Self.second
    let used = UsedTime(.milliseconds(8), at: 100 * second)
    #expect((100..<104).map { used.nanoseconds(at: $0 * second) } == [8e6, 4e6, 2e6, 1e6])
    let more = used.adding(.milliseconds(1), at: 102 * second)
    #expect(more.nanoseconds(at: 102 * second) == 3e6)
    let end = 100_000 * second
    #expect(used.nanoseconds(at: end) == 0 && UsedTime.zero.nanoseconds(at: 0) == 0)
    #expect(used.adding(.milliseconds(1), at: end).nanoseconds(at: end) == 1e6)
  }

  @Test func `an amount decreases with each tick, by the same factor`() {
    let used = UsedTime(.milliseconds(8), at: -3)
    let factor = 0.5.squareRoot().squareRoot().squareRoot().squareRoot().squareRoot().squareRoot()
    for tick in -3..<200 {
      let (now, next) = (used.nanoseconds(at: tick), used.nanoseconds(at: tick + 1))
      #expect(abs(next / now - factor) < 1e-12, "tick \(tick)")
    }
    // Time that is used a moment before a second begins counts as much as time that is used a moment later.
    let (before, after) = (
      UsedTime(.milliseconds(8), at: 63).nanoseconds(at: 64),
      UsedTime(.milliseconds(8), at: 64).nanoseconds(at: 64)
    )
    #expect(before < after && before > 0.98 * after)
  }

  @Test func `amounts compare in the same way at any later moment`() {
    var random = SeededGenerator(printingSeedFor: "UsedTimeTests")
    let end = 9 * Self.second
    for _ in 0..<1_000 {
      let (first, second) = (
        Self.second * Int.random(in: 0...9, using: &random),
        Self.second * Int.random(in: 0...9, using: &random)
      )
      let a = UsedTime(.microseconds(Int.random(in: 0...9_000, using: &random)), at: first)
      let b = UsedTime(.microseconds(Int.random(in: 0...9_000, using: &random)), at: second)
      #expect((a < b) == (a.nanoseconds(at: end) < b.nanoseconds(at: end)))
      #expect((a == b) == (a.nanoseconds(at: end) == b.nanoseconds(at: end)))
    }
    #expect(
      UsedTime(.seconds(-1), at: 5) == .zero && UsedTime.zero < UsedTime(.nanoseconds(1), at: 0))
  }

  @Test func `amounts stay exact after years`() {
    let time = 1_000_000_000 * Self.second
    let used = UsedTime(.milliseconds(3), at: time)
    #expect(used.nanoseconds(at: time) == 3e6 && used.nanoseconds(at: time + Self.second) == 1.5e6)
    #expect(UsedTime(.seconds(1_000), at: 0) < used)
  }
}
