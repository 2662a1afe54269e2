import Testing

@testable import CanopyIdentity

/// The bound on the codes that wait for the store.
struct WaitingCodesTests {
  @Test func `at most countMax codes wait, and one that leaves makes room`() {
    let waiting = WaitingCodes()
    for _ in 0..<WaitingCodes.countMax { #expect(waiting.enter()) }
    #expect(!waiting.enter())
    waiting.leave()
    #expect(waiting.enter())
    #expect(!waiting.enter())
  }
}
