import CanopyTesting
import Testing

@testable import CanopyEngine

/// Amounts of time that halve in each second.
struct UsedTimeTests {
  @Test func `an amount halves in each second`() {
    let used = UsedTime(.milliseconds(8), at: 100)
    #expect((100..<104).map { used.nanoseconds(at: $0) } == [8e6, 4e6, 2e6, 1e6])
    #expect(used.adding(.milliseconds(1), at: 102).nanoseconds(at: 102) == 3e6)
    #expect(used.nanoseconds(at: 100_000) == 0 && UsedTime.zero.nanoseconds(at: 0) == 0)
    #expect(used.adding(.milliseconds(1), at: 100_000).nanoseconds(at: 100_000) == 1e6)
  }

  @Test func `amounts compare in the same way at any later moment`() {
    var random = SeededGenerator(printingSeedFor: "UsedTimeTests")
    for _ in 0..<1_000 {
      let (first, second) = (
        Int.random(in: 0...9, using: &random), Int.random(in: 0...9, using: &random)
      )
      let a = UsedTime(.microseconds(Int.random(in: 0...9_000, using: &random)), at: first)
      let b = UsedTime(.microseconds(Int.random(in: 0...9_000, using: &random)), at: second)
      #expect((a < b) == (a.nanoseconds(at: 9) < b.nanoseconds(at: 9)))
      #expect((a == b) == (a.nanoseconds(at: 9) == b.nanoseconds(at: 9)))
    }
    #expect(
      UsedTime(.seconds(-1), at: 5) == .zero && UsedTime.zero < UsedTime(.nanoseconds(1), at: 0))
  }

  @Test func `amounts stay exact after years`() {
    let second = 1_000_000_000
    let used = UsedTime(.milliseconds(3), at: second)
    #expect(used.nanoseconds(at: second) == 3e6 && used.nanoseconds(at: second + 1) == 1.5e6)
    #expect(UsedTime(.seconds(1_000), at: 0) < used)
  }
}
