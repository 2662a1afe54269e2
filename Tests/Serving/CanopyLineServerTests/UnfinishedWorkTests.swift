import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// Long renamings and removals, as clients observe them.
@Suite(.timeLimit(.minutes(20))) struct UnfinishedWorkTests {
  /// Imports posts of a user, and comments of the user on the first post, as the administrator.
  private func importing(
    _ server: TestServer, posts: Int, comments: Int, of uid: String, _ name: String
  ) async throws -> Key {
    let post = try Node(
      json: #"{"uid":"\#(uid)","author":"\#(name)","title":"t","body":"b","starCount":0}"#)
    let comment = try Node(json: #"{"uid":"\#(uid)","author":"\#(name)","text":"t"}"#)
    var ids: [Key] = []
    var texts: [(Key, Node)] = []
    for index in 0..<max(posts, 1) { ids.append(try Key("post\(100_000 + index)")) }
    for index in 0..<comments { texts.append((try Key("comment\(100_000 + index)"), comment)) }
    var all = Node(children: ids.map { ($0, post) })
    if comments > 0 {
      all.set(Node(Int64(comments)), at: Path.root.child(ids[0]).child("commentCount"))
    }
    let owner = Path.root.child("user-posts").child(try Key(uid))
    let listed = Path.root.child("user-comments").child(try Key(uid))
    let write = try Write([
      .init(Path.root.child("posts"), all), .init(owner, all),
      .init(
        Path.root.child("post-comments").child(ids[0]), Node(children: texts)),
      .init(listed, Node(children: texts.map { ($0.0, Node(ids[0].text)) })),
    ])
    _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
    #expect(SocialCheck.problems(in: server.root) == [])
    return ids[0]
  }

  @Test(arguments: Depth.allCases)
  func `a renaming of many posts is done in small steps`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      _ = try await importing(server, posts: 1_300, comments: 700, of: ada.uid, "ada")
      let first = server.parts.engine.snapshot.sequence
      try await ada.client.expect("RENAME Countess", "+null")
      try await ada.client.expect("PROFILE me", contains: "\"username\":\"Countess\"")
      try await ada.client.expect(
        "RENAME Other", failsWith: "RATE_LIMITED", "try again in 31 seconds")
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      #expect(SocialCheck.problems(in: server.root) == [])
      let commits = server.parts.engine.snapshot.sequence - first
      #expect(commits == 2_000 / Int64(UnfinishedWork.entriesMax) + 1)
      server.parts.clock.advance(31_000)
      try await ada.client.expect("RENAME Other", "+null")
    }
  }

  @Test(arguments: Depth.allCases)
  func `comments of a removed post can be neither read nor written while they are removed`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      let id = try await importing(server, posts: 1, comments: 1_200, of: ada.uid, "ada")
      let place = "/post-comments/\(id)"
      // The state after the first step of a removal. The server goes on at the next raw write.
      let write = try Write([
        .init(Path.root.child("posts").child(id), .absent),
        .init(Path.root.child("user-posts"), .absent),
        .init(Path.root.child("deletions").child(id), true),
      ])
      _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
      #expect(SocialCheck.problems(in: server.root) == [])
      let comment = RawWriteTests.id("c")
      for line in [
        "GET \(place)", "GET \(place)/comment100000", "LISTEN \(place)", "COUNT \(place)",
        "GET /post-comments", "SET \(place)/\(comment) \(bob.comment())",
        "REMOVE /deletions/\(id)", "GET /deletions",
      ] { try await bob.client.expect(line, failsWith: "PERMISSION_DENIED") }
      try await bob.client.expect("COMMENT \(id) text", failsWith: "NOT_FOUND")
      try await bob.client.expect("COMMENTS \(id)", failsWith: "NOT_FOUND")
      try await server.set("/notes", "1")
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      #expect(SocialCheck.problems(in: server.root) == [])
      #expect(server.root.child("post-comments").isAbsent)
      #expect(server.root.child("user-comments").isAbsent)
    }
  }
}

extension UnfinishedWorkTests {
  @Test(arguments: ["DELETE ", "REMOVE /posts/"])
  func `a post with many comments is removed in steps, by each kind of request`(
    _ verb: String
  ) async throws {
    try await withServer(.inProcess) { server in
      let ada = try await Person(server, "ada")
      let id = try await importing(server, posts: 1, comments: 1_200, of: ada.uid, "ada")
      let first = server.parts.engine.snapshot.sequence
      try await ada.client.expectSuccess(of: "\(verb)\(id)")
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      let steps = (1_200 + UnfinishedWork.entriesMax - 1) / UnfinishedWork.entriesMax
      #expect(server.parts.engine.snapshot.sequence - first == Int64(1 + steps))
      #expect(SocialCheck.problems(in: server.root) == [])
      #expect(server.root.child("user-comments").isAbsent)
    }
  }

  @Test func `a server completes the unfinished work of the last one at its start`() async throws {
    let journal = FaultyJournal()
    try await withServer(.inProcess, { $0.journal = journal }) { server in
      let ada = try await Person(server, "ada")
      _ = try await importing(server, posts: 1_200, comments: 0, of: ada.uid, "ada")
      // The first commit of a renaming. The server does not go on by itself.
      _ = try await server.parts.engine.transact {
        try Users.rename(Key(ada.uid), to: "Countess", in: &$0)
      }
      #expect(UnfinishedWork.exists(in: server.root))
    }
    try await withServer(.inProcess, { $0.journal = journal }) { server in
      try await server.eventually { !UnfinishedWork.exists(in: server.root) }
      #expect(SocialCheck.problems(in: server.root) == [])
    }
  }

  @Test func `a step that the journal refuses is tried again`() async throws {
    let journal = FaultyJournal()
    try await withServer(.inProcess, { $0.journal = journal }) { server in
      let ada = try await Person(server, "ada")
      _ = try await importing(server, posts: 1_200, comments: 0, of: ada.uid, "ada")
      _ = try await server.parts.engine.transact {
        try Users.rename(Key(ada.uid), to: "Countess", in: &$0)
      }
    }
    journal.fail(true)
    try await withServer(.inProcess, { $0.journal = journal }) { server in
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("it is tried again") }
      }
      #expect(UnfinishedWork.exists(in: server.root))
      journal.fail(false)
      try await server.eventually {
        server.parts.waits.advance(by: .seconds(1))
        return !UnfinishedWork.exists(in: server.root)
      }
      #expect(SocialCheck.problems(in: server.root) == [])
    }
  }
}
