import CanopyTesting
import Testing

/// The journal in memory, with which the tests of several engines run, satisfies the requirements of a shared journal.
@Suite(.timeLimit(.minutes(20))) struct SharedJournalContractTests {
  @Test(arguments: SharedJournalContract<MemoryNodes>.checks)
  func `the journal of several nodes satisfies the contract`(
    check: SharedCheck<MemoryNodes>
  ) async throws {
    try await check.run()
  }
}
