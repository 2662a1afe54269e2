import CanopyEngine
import CanopyIdentity
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySession

/// The work of the server for the deletions of many accounts with their data.
@Suite(.timeLimit(.minutes(20))) struct ErasureCostTests {
  /// Adds posts of one user, in one commit.
  private func addPosts(_ count: Int, _ engine: Engine) async throws {
    _ = try await engine.transact { _ in
      let posts = try (0..<count).map { number in
        let fields: [(Key, Node)] = [("starCount", 0), ("title", "t"), ("uid", "bob")]
        return (try Key("p\(10_000 + number)"), Node(children: fields))
      }
      let value = Node(children: posts)
      return Decision(
        try Write([.init(try Path("posts"), value), .init(try Path("user-posts/bob"), value)]), ())
    }
  }

  @Test func `sixty deletions of accounts without data make few commits together`() async throws {
    let journal = FaultyJournal()
    var before: Int64 = 0
    try await withServer(.inProcess, { $0.journal = journal }) { server in
      let engine = server.parts.engine
      try await addPosts(3_000, engine)
      // The first commits of the deletions. The server does not go on by itself.
      for number in 0..<60 {
        let uid = try Key("u\(number)")
        _ = try await engine.transact { try Erasure.begin(of: uid, in: &$0) }
      }
      #expect(server.root.child("erasures").childCount == 60)
      before = engine.snapshot.sequence
    }
    try await withServer(.inProcess, { $0.journal = journal }) { server in
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      // The accounts are deleted; nothing is found.
      #expect(server.parts.engine.snapshot.sequence - before <= 4)
      #expect(server.root.child("posts").childCount == 3_000)
    }
  }

  @Test func `beyond the bound DELETEACCOUNT with posts is refused, and the account stays`()
    async throws
  {
    try await withServer(.inProcess, { $0.identity = IdentitySettings() }) { server in
      let ada = try await Person(server, "ada")
      // The server does not go on by itself.
      _ = try await server.parts.engine.transact { _ in
        let mark = Node(children: [("stage", "stars")] as [(Key, Node)])
        let marks = try (0..<Erasure.pendingMax).map { (try Key("u\($0)"), mark) }
        let value = Node(children: marks.sorted { $0.0 < $1.0 })
        return Decision(try Write([.init(try Path("erasures"), value)]), ())
      }
      try await ada.client.expect(
        #"DELETEACCOUNT {"posts":true}"#, failsWith: "OVERLOADED", "many users")
      try await ada.client.expect("WHOAMI", hasPrefix: "+{")
      let administrator = try await server.connectAsAdministrator()
      try await administrator.expect(
        #"DELETEUSER @ada {"posts":true}"#, #"+{"uid":"\#(ada.uid)","erasing":true}"#)
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
    }
  }
}
