import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine
@testable import CanopyLineServer
@testable import CanopySession
@testable import CanopySocial

/// The budget of renamings. A refused one does not use it up.
@Suite(.timeLimit(.minutes(20))) struct RenameBudgetTests {
  @Test func `a new name in a raw write that is refused for another reason is not counted`()
    async throws
  {
    let parts = try await LineParts()
    let before = try Node(json: #"{"users":{"a":{"username":"ann","createdAt":1}}}"#)
    func derive(_ changes: [(String, Node)]) throws -> [Assignment]? {
      var after = before
      var assignments: [Assignment] = []
      for (path, value) in changes {
        after.set(value, at: try Path(path))
        assignments.append(Assignment(try Location(path), value))
      }
      return try parts.operations.derive(
        ProposedWrite(
          assignments: assignments, before: before, after: after, time: parts.clock.now))
    }
    for number in 0..<500 {
      // The other profile would have no name.
      #expect(throws: EngineError.denied) {
        try derive([("users/a/username", Node("ann\(number)")), ("users/b/createdAt", 1)])
      }
    }
    for number in 0..<500 {
      #expect(try derive([("users/a/username", Node("ann\(number)"))]) != nil)
    }
    #expect(throws: SocialError.self) { try derive([("users/a/username", "bea")]) }
  }

  @Test(arguments: Depth.allCases)
  func `a renaming counts a post or comment once for each started 4 KiB of its text`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let text = { (count: Int) in String(repeating: "x", count: count) }
      // With its title of one character: 4 KiB, which count once, and a byte more, which count twice.
      let id = try await ada.client.text("id", "POST t \"\(text(4_095))\"")
      _ = try await ada.client.text("id", "POST t \"\(text(4_096))\"")
      // 2 KiB, and a comment that counts three times.
      _ = try await ada.client.text("id", "POST t \"\(text(2_047))\"")
      _ = try await ada.client.text("id", "COMMENT \(id) \"\(text(9_999))\"")
      let uid = try Key(ada.uid)
      #expect(Renaming.entries(of: uid, in: server.root) == 7)
      // Each of them counts 48 times.
      for _ in 0..<20 {
        _ = try await ada.client.text("id", "POST t \"\(String(repeating: "中", count: 65_000))\"")
      }
      #expect(Renaming.entries(of: uid, in: server.root) == 967)
      try await ada.client.value("RENAME countess")
      try await ada.client.expect("RENAME lady", failsWith: "RATE_LIMITED")
    }
  }

  @Test func `a renaming looks at the texts of a bounded number of posts`() throws {
    let uid: Key = "ada"
    let post = Node(children: [("body", Node(String(repeating: "x", count: 4_097)))])
    for (count, entries) in [
      (Renaming.measuredMax, 2 * Renaming.measuredMax),
      (Renaming.measuredMax + 1, 2 * Renaming.measuredMax + 1),
    ] {
      let posts = (0..<count).map { (Key(index: Int32($0)), post) }
      let root = Node(children: [(Layout.userPosts, Node(children: [(uid, Node(children: posts))]))]
      )
      #expect(Renaming.entries(of: uid, in: root) == entries)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a RENAME that other rules do not allow is refused for that, however often it is sent`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let posts = (0..<251).map { #""p\#($0)":{"uid":"\#(ada.uid)","author":"ada"}"# }
      try await server.set("/user-posts/\(ada.uid)", "{\(posts.joined(separator: ","))}")
      try await server.set(rules: #"{"rules":{".read":true}}"#)
      for _ in 0..<4 {
        try await ada.client.expect("RENAME countess", failsWith: "BAD_REQUEST", "more than 250")
      }
    }
  }
}
