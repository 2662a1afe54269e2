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

  @Test func `the tokens of an account have those with the latest ends first`() async throws {
    let folder = try Folder()
    try await folder.withStore { store async throws in
      for uid in ["u1", "u2"] {
        #expect(
          try await store.insert(
            Account(
              uid: uid, email: "\(uid)@x", emailNormalized: "\(uid)@x", username: uid,
              passwordHash: "h", createdAt: 5)))
      }
      for (byte, uid, end, claims) in [
        (1, "u1", 7, nil), (2, "u1", 9, "{}"), (3, "u2", 8, nil), (4, "u1", 8, nil),
      ] as [(UInt8, String, Int64, String?)] {
        let digest = TokenDigest(bytes: Array(repeating: byte, count: 32))
        let token = TokenRecord(digest: digest, uid: uid, expiresAt: end, customClaims: claims)
        #expect(try await store.insertToken(token, ifPasswordHash: "h"))
      }
      let tokens = try await store.tokens(uid: "u1", limit: 3)
      #expect(tokens.map(\.expiresAt) == [9, 8, 7])
      #expect(tokens.map(\.customClaims) == ["{}", nil, nil])
      #expect(tokens.first?.digest.bytes == Array(repeating: 2, count: 32))
      #expect(try await store.tokens(uid: "u1", limit: 2).map(\.expiresAt) == [9, 8])
      #expect(try await store.tokens(uid: "u3", limit: 3).isEmpty)
    }
  }
}
