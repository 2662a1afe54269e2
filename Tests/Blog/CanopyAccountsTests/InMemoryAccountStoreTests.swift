import CanopyTesting
import Testing

@Suite struct InMemoryAccountStoreTests {
  @Test func `the store in memory satisfies the contract`() async throws {
    try await verifyContract(of: InMemoryAccountStore())
  }
}
