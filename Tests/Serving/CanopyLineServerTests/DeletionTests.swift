import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopySocial
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The deletion of accounts with and without the data of their users, and the export before it.
@Suite(.timeLimit(.minutes(20))) struct DeletionTests {
  private func withIdentity(
    _ depth: Depth, journal: FaultyJournal<InMemoryJournal> = FaultyJournal(),
    _ body: (TestServer) async throws -> Void
  ) async throws {
    try await withServer(
      depth,
      {
        $0.identity = IdentitySettings()
        $0.journal = journal
      }, body)
  }

  /// Has a user write, comment and star, beside another user. Returns the id of the other user's post.
  private func populate(_ ada: Person, _ bob: Person, posts: Int = 3) async throws -> String {
    let others = try await bob.client.text("id", "POST theirs body")
    for _ in 0..<posts {
      let id = try await ada.client.text("id", "POST mine body")
      try await bob.client.value("COMMENT \(id) nice")
      try await ada.client.value("COMMENT \(others) mine")
    }
    try await ada.client.value("STAR \(others)")
    return others
  }

  /// Expects that nothing of a user is left, and that the name is free.
  private func expectErased(_ ada: Person, _ others: String, _ server: TestServer) async throws {
    try await server.eventually { !UnfinishedWork.exists(in: server.root) }
    #expect(SocialCheck.problems(in: server.root) == [])
    for place in ["users", "user-posts", "user-comments"] {
      #expect(server.root.at(try Path("\(place)/\(ada.uid)")).isAbsent, "\(place)")
    }
    #expect(server.root.child("posts").childCount == 1)
    let post = server.root.at(try Path("posts/\(others)"))
    #expect(post.child("starCount") == 0 && post.child("commentCount").isAbsent)
    try await server.eventually {
      server.parts.log.lines.contains {
        $0.contains("everything that a deleted user had added is removed") && $0.contains(ada.uid)
      }
    }
    _ = try await server.connect(as: "ada")
  }

  @Test(arguments: Depth.allCases)
  func `DELETEUSER deletes an account at once, and its posts and name stay`(
    _ depth: Depth
  ) async throws {
    try await withIdentity(depth) { server in
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      let others = try await populate(ada, bob)
      let token = try await ada.client.text("token", "IDTOKEN")
      let before = server.root
      let client = try await server.connectAsAdministrator()
      try await bob.client.expect("DELETEUSER @ada", failsWith: "PERMISSION_DENIED")
      try await client.expect(
        "DELETEUSER @ada", #"+{"uid":"\#(ada.uid)","erasing":false}"#)
      try await ada.client.expect("WHOAMI", "+null")
      try await ada.client.expect("POST a b", failsWith: "UNAUTHENTICATED")
      try await ada.client.expect("AUTH \(token)", failsWith: "UNAUTHENTICATED")
      try await client.expect("USER \(ada.uid)", failsWith: "NOT_FOUND")
      try await client.expect("DELETEUSER \(ada.uid)", failsWith: "NOT_FOUND")
      #expect(server.root == before)
      // The address is free, and the name is not.
      try await ada.client.expect(TestServer.signUp("ada"), failsWith: "CONFLICT")
      let line = try #require(
        server.parts.log.lines.first { $0.contains("administrator has deleted an account") })
      #expect(line.contains(ada.uid) && line.contains("client") && line.contains("@ada"))
      // The remaining data can be removed later, although the account is gone.
      try await client.expect(
        #"DELETEUSER @ada {"posts":true}"#, #"+{"uid":"\#(ada.uid)","erasing":true}"#)
      try await expectErased(ada, others, server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `DELETEACCOUNT with posts removes everything of its user`(_ depth: Depth) async throws {
    try await withIdentity(depth) { server in
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      let others = try await populate(ada, bob)
      server.parts.clock.advance(6 * 60 * 1_000)
      try await ada.client.expect(
        #"DELETEACCOUNT {"posts":true}"#, failsWith: "PERMISSION_DENIED", "recent login")
      #expect(!UnfinishedWork.exists(in: server.root))
      try await ada.client.value(
        "CONFIRM \(TestServer.email("ada")) \"\(TestServer.password("ada"))\"")
      try await ada.client.expect(#"DELETEACCOUNT {"posts":true}"#, "+null")
      try await ada.client.expect("WHOAMI", "+null")
      try await expectErased(ada, others, server)
      #expect(
        server.parts.log.lines.contains { $0.contains("deleted their own account") })
    }
  }

  @Test func `a deletion that was noted is completed, although the store failed in between`()
    async throws
  {
    try await withIdentity(.inProcess) { server in
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      let others = try await populate(ada, bob)
      let client = try await server.connectAsAdministrator()
      await server.parts.accountStore.fail(with: PlannedFailure())
      try await client.expect(#"DELETEUSER \#(ada.uid) {"posts":true}"#, failsWith: "UNAVAILABLE")
      // The reference was looked up first, so nothing is noted yet.
      #expect(!UnfinishedWork.exists(in: server.root))
      await server.parts.accountStore.fail(with: nil)
      await server.parts.accountStore.failAfterNextChange(with: PlannedFailure())
      try await client.expect(#"DELETEUSER \#(ada.uid) {"posts":true}"#, failsWith: "UNAVAILABLE")
      try await ada.client.expect("WHOAMI", "+null")
      try await server.eventually {
        server.parts.waits.advance(by: .seconds(1))
        return !UnfinishedWork.exists(in: server.root)
      }
      try await expectErased(ada, others, server)
    }
  }

  @Test func `a deletion that a crash interrupts is completed at the next start, with the account`()
    async throws
  {
    let journal = FaultyJournal()
    var uid = ""
    try await withIdentity(.inProcess, journal: journal) { server in
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      _ = try await populate(ada, bob)
      uid = ada.uid
      // The first commit of a deletion. The server does not go on by itself.
      _ = try await server.parts.engine.transact { [uid = ada.uid] in
        try Erasure.begin(of: Key(uid), in: &$0)
      }
      #expect(UnfinishedWork.exists(in: server.root))
    }
    try await withIdentity(.inProcess, journal: journal) { server in
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      #expect(SocialCheck.problems(in: server.root) == [])
      #expect(server.root.at(try Path("users/\(uid)")).isAbsent)
      #expect(server.root.child("posts").childCount == 1)
    }
  }

  @Test func `the next start deletes an account whose deletion was noted`() async throws {
    try await withIdentity(.inProcess) { server in
      let ada = try await Person(server, "ada")
      _ = try await server.parts.engine.transact { try Erasure.begin(of: Key(ada.uid), in: &$0) }
      // Any write has the server look for unfinished work, as a start does.
      try await server.set("/notes", "1")
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      try await ada.client.expect("WHOAMI", "+null")
      await #expect(throws: AccountError.notFound) {
        try await server.parts.accounts.account(.uid(ada.uid))
      }
    }
  }

  @Test func `under other rules posts are not removed, and the account stays`() async throws {
    try await withIdentity(.inProcess) { server in
      let ada = try await Person(server, "ada")
      try await server.set(rules: #"{"rules":{".read":true}}"#)
      let before = server.root
      let client = try await server.connectAsAdministrator()
      for (person, line) in [
        (ada.client, #"DELETEACCOUNT {"posts":true}"#),
        (client, #"DELETEUSER @ada {"posts":true}"#),
      ] { try await person.expect(line, failsWith: "BAD_REQUEST", "built-in rules") }
      #expect(server.root == before)
      try await ada.client.expect("WHOAMI", hasPrefix: "+{")
      try await client.expectSuccess(of: "DELETEUSER @ada")
    }
  }

  @Test(arguments: Depth.allCases)
  func `EXPORT has the account and everything of its user, in pages`(_ depth: Depth) async throws {
    try await withIdentity(depth) { server in
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      let others = try await populate(ada, bob)
      let whole = try await ada.client.value("EXPORT")
      #expect(whole.names == ["account", "posts", "comments", "stars", "after"])
      let account = try #require(whole["account"])
      #expect(
        account.names == [
          "uid", "username", "email", "provider", "verified", "displayName", "photoURL", "claims",
          "createdAt", "lastLoginAt", "sessions",
        ])
      #expect(account["email"]?.string == TestServer.email("ada"))
      #expect(account["sessions"]?.elements?.count == 1)
      #expect(whole["posts"]?.elements?.count == 3 && whole["after"] == .null)
      let post = try #require(whole["posts"]?.elements?.first)
      #expect(
        post.names == [
          "id", "author", "body", "commentCount", "createdAt", "starCount", "title", "uid",
        ])
      #expect(whole["comments"]?.elements?.map { $0["post"]?.string } == [others, others, others])
      #expect(whole["stars"]?.elements?.map(\.string) == [others])
      var page = try await ada.client.value(#"EXPORT {"limit":2}"#)
      var count = 0
      var pages = 1
      while true {
        for part in ["posts", "comments", "stars"] { count += page[part]?.elements?.count ?? 0 }
        guard let after = page["after"]?.string else { break }
        page = try await ada.client.value("EXPORT {\"limit\":2,\"after\":\(quoted(after))}")
        #expect(page["account"] == nil)
        pages += 1
      }
      #expect(count == 7 && pages == 4)
      try await ada.client.expect(#"EXPORT {"after":"x"}"#, failsWith: "BAD_REQUEST")
      try await server.connect().expect("EXPORT", failsWith: "UNAUTHENTICATED")
      let admin = try await server.connectAsAdministrator()
      try await admin.expect("EXPORT", failsWith: "UNAUTHENTICATED", "EXPORT user")
      try await admin.expect("DELETEACCOUNT", failsWith: "UNAUTHENTICATED", "DELETEUSER user")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the administrator exports the data of a user, as that user sees it`(_ depth: Depth)
    async throws
  {
    try await withIdentity(depth) { server in
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      _ = try await populate(ada, bob)
      let own = try await ada.client.value("EXPORT")
      let administrator = try await server.connectAsAdministrator()
      let uid = try #require(own["account"]?["uid"]?.string)
      for name in ["@ada", uid, TestServer.email("ada")] {
        #expect(try await administrator.value("EXPORT \(quoted(name))") == own, "\(name)")
      }
      let first = try await administrator.value(#"EXPORT @ada {"limit":2}"#)
      #expect(first == (try await ada.client.value(#"EXPORT {"limit":2}"#)))
      let after = quoted(try #require(first["after"]?.string))
      let second = try await administrator.value("EXPORT @ada {\"limit\":2,\"after\":\(after)}")
      #expect(second == (try await ada.client.value("EXPORT {\"limit\":2,\"after\":\(after)}")))
      try await administrator.expect("EXPORT @nobody", failsWith: "NOT_FOUND")
      try await administrator.expect(#"EXPORT @ada {"after":"x"}"#, failsWith: "BAD_REQUEST")
      for name in ["@ada", "@bob"] {
        try await bob.client.expect("EXPORT \(name)", failsWith: "PERMISSION_DENIED")
        try await server.connect().expect("EXPORT \(name)", failsWith: "PERMISSION_DENIED")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `EXPORT waits for its turn, and has the posts at its turn`(_ depth: Depth) async throws {
    try await withIdentity(depth) { server async throws in
      let ada = try await Person(server, "ada")
      let other = try await server.connect()
      try await other.value(
        "LOGIN \(TestServer.email("ada")) \(quoted(TestServer.password("ada")))")
      let turns = server.parts.operations.longWork
      let gate = Gate()
      async let held: Void = turns.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      try await ada.client.send("EXPORT\n")
      try await server.eventually { turns.waiting == 1 }
      try await other.value("POST title body")
      gate.open()
      try await held
      let page = try JSONValue(json: String(try await ada.client.readLine().dropFirst()))
      #expect(page["posts"]?.elements?.count == 1)
    }
  }
}
