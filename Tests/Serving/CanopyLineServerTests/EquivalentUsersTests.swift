import CanopyAccounts
import CanopyEngine
import CanopyRules
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySession

/// Two users whose uids are canonically equivalent and have different bytes. They have nothing in common.
@Suite(.timeLimit(.minutes(20))) struct EquivalentUsersTests {
  private static let uids = ["usr\u{E9}", "usre\u{301}"]
  private static let rules = #"{"rules":{".read":true,".write":"auth != null"}}"#

  private func email(_ index: Int) -> String { "usr\(index)@example.org" }

  /// Creates both accounts.
  private func createAccounts(_ server: TestServer) async throws {
    for (index, uid) in Self.uids.enumerated() {
      var draft = AccountDraft()
      draft.uid = uid
      draft.email = email(index)
      draft.password = TestServer.password("usr")
      _ = try await server.parts.accounts.createAccount(draft, from: nil)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write of one with the client name and number of the other is made`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await createAccounts(server)
      try await server.set(rules: Self.rules)
      for index in 0..<2 {
        let client = try await server.connect()
        try await client.value(
          "LOGIN \(email(index)) \(quoted(TestServer.password("usr")))")
        for _ in 0..<2 {
          try await client.value("ONCE k 1 0 SET /n/\(index) {\".sv\":{\"increment\":1}}")
        }
        // A late copy of the one does not concern the other.
        try await client.value("ONCE k \(index + 5) \(index + 4) SET /m/\(index) true")
      }
      #expect(
        server.root
          == (try WriteValue(json: #"{"m":{"0":true,"1":true},"n":{"0":1,"1":1}}"#).node))
    }
  }

  @Test(arguments: [0, 1])
  func `after a crash only the writes of the one with an account are made`(
    _ index: Int
  ) async throws {
    try await withServer(.inProcess) { server in
      try await createAccounts(server)
      try await server.set(rules: Self.rules)
      try await server.parts.accounts.setDisabled(true, .uid(Self.uids[index]))
      for (number, uid) in Self.uids.enumerated() {
        let caller = RuleCaller(auth: RuleCaller.auth(uid: uid), now: 0)
        _ = try await server.parts.journal.changeDisconnectWrites(
          adding: (KeptCaller(caller, session: nil).text, "SET /w/\(number) \(number)"),
          exceptions: [:], removing: [])
      }
      try await server.parts.operations.carryOutAbandoned()
      let other = 1 - index
      #expect(server.root == (try WriteValue(json: "{\"w\":{\"\(other)\":\(other)}}").node))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a search of the administrator finds both`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      try await createAccounts(server)
      let client = try await server.connectAsAdministrator()
      let found = try await client.value(#"USERS {"find":"usr"}"#)["users"]?.elements ?? []
      #expect(
        Set(found.compactMap { $0["uid"]?.string.map { ByteString($0) } })
          == Set(Self.uids.map { ByteString($0) }))
    }
  }
}
