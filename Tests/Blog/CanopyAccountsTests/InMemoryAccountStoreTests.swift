import CanopyTesting
import Testing

@Suite struct InMemoryAccountStoreTests {
  @Test func `the store in memory keeps the contract`() async throws {
    try await verifyContract(of: InMemoryAccountStore())
  }
}
