import CanopyAccounts
import CanopySQLite
import CanopyTesting
import Testing

struct AccountStoreTests {
  @Test func `the store satisfies the contract of account stores`() async throws {
    let folder = try Folder()
    try await folder.withStore { try await verifyContract(of: $0) }
  }

  @Test func `accounts and tokens survive a restart`() async throws {
    let folder = try Folder()
    let account = Account(
      uid: "u1", email: "Ada@x", emailNormalized: "ada@x", username: "ada", passwordHash: "h",
      createdAt: 5, isPending: false)
    let digest = TokenDigest(bytes: (0..<32).map { $0 })
    try await folder.withStore { store async throws in
      #expect(try await store.insert(account))
      let token = TokenRecord(digest: digest, uid: "u1", expiresAt: 9)
      #expect(try await store.insertToken(token, ifPasswordHash: "h"))
    }
    try await folder.withStore { store async throws in
      #expect(try await store.account(uid: "u1") == account)
      #expect(try await store.token(digest)?.token.expiresAt == 9)
    }
  }
}
