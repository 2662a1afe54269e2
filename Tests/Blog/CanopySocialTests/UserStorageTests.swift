import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySocial

/// The bytes that users have stored: after each commit they are those of the tree.
@Suite(.timeLimit(.minutes(20))) struct UserStorageTests {
  /// Returns the bytes of each user, counted from the start.
  private func expected(in root: Node) -> [Key: Int] {
    var bytes: [Key: Int] = [:]
    func add(_ node: Node, _ texts: [Key]) {
      guard let uid = node.child("uid").stringValue.flatMap({ try? Key($0) }) else { return }
      bytes[uid, default: 0] +=
        256 + texts.reduce(0) { $0 + (node.child($1).stringValue?.utf8.count ?? 0) }
    }
    root.child("posts").forEachChild { _, post in
      add(post, ["title", "body"])
      return true
    }
    root.child("post-comments").forEachChild { _, comments in
      comments.forEachChild { _, comment in
        add(comment, ["text"])
        return true
      }
      return true
    }
    root.child("removed-posts").forEachChild { _, uid in
      if let uid = uid.stringValue.flatMap({ try? Key($0) }) { bytes[uid, default: 0] += 256 }
      return true
    }
    return bytes
  }

  private func check(
    _ storage: UserStorage, _ root: Node, at location: SourceLocation = #_sourceLocation
  ) {
    let expected = expected(in: root)
    for uid: Key in ["ada", "bob", "eve"] {
      #expect(storage.bytes(of: uid) == expected[uid] ?? 0, sourceLocation: location)
    }
  }

  @Test func `the bytes are those of the tree after posts, comments, removals and raw writes`()
    async throws
  {
    try await Blog.with { blog in
      let storage = UserStorage(of: blog.engine, bytesMax: .max)
      var random = SeededGenerator(printingSeedFor: "stored bytes")
      var posts: [(Key, Key)] = []
      for _ in 0..<300 {
        let uid: Key = ["ada", "bob", "eve"][Int(random.next() % 3)]
        let text = String(repeating: "é", count: Int(random.next() % 50) + 1)
        switch random.next() % 6 {
        case 0, 1:
          let id = try await blog.engine.transact {
            try Posts.create(by: uid, title: text, body: text, in: &$0)
          }.result
          posts.append((id, uid))
        case 2:
          guard let (id, author) = posts.randomElement(using: &random) else { break }
          _ = try await blog.engine.transact {
            try Posts.edit(id, by: author, title: "t", body: text, in: &$0)
          }
        case 3:
          guard let (id, _) = posts.randomElement(using: &random) else { break }
          _ = try await blog.engine.transact { try Posts.toggleStar(id, by: uid, in: &$0) }
        case 4:
          guard let (id, _) = posts.randomElement(using: &random) else { break }
          _ = try await blog.engine.transact {
            try Comments.create(on: id, by: uid, text: text, in: &$0)
          }
        default:
          guard let (id, author) = posts.popLast() else { break }
          _ = try await blog.engine.transact { try Posts.delete(id, by: author, in: &$0) }
        }
        if random.next() % 4 == 0 { check(storage, blog.root) }
      }
      check(storage, blog.root)
      // The administrator writes any data.
      for (path, value) in [
        ("posts/x", json(#"{"uid":"ada","title":"1234","body":5}"#)),
        ("posts/x/.priority", Node("p")),
        ("posts/y", json(#""text""#)),
        ("post-comments/z", json(#"{"c":{"uid":"eve","text":"1"}}"#)),
        ("posts/x", .absent), ("post-comments", .absent), ("posts", .absent),
      ] {
        let write = try Write.set(Location(path), WriteValue(value))
        _ = try await blog.engine.transact { _ in Decision(write, ()) }
        check(storage, blog.root)
      }
      // A server that starts counts the same.
      check(UserStorage(of: blog.engine, bytesMax: .max), blog.root)
    }
  }

  @Test func `the bytes are the same, counted in any number of parts`() throws {
    var root = Node.absent
    var random = SeededGenerator(printingSeedFor: "stored bytes in parts")
    for number in 0..<500 {
      let uid = ["ada", "bob", "eve"][Int(random.next() % 3)]
      let text = String(repeating: "t", count: Int(random.next() % 50))
      root.set(
        json(#"{"uid":"\#(uid)","title":"t","body":"\#(text)"}"#),
        at: try Path("posts/k\(number)"))
      root.set(
        json(#"{"uid":"\#(uid)","text":"\#(text)"}"#),
        at: try Path("post-comments/k\(number % 40)/c\(number)"))
      if number % 9 == 0 { root.set(Node(uid), at: try Path("removed-posts/r\(number)")) }
    }
    for parts in [0, 1, 2, 4, 1_000] {
      #expect(StorageCount.bytes(in: root, parts: parts) == expected(in: root))
    }
    #expect(StorageCount.bytes(in: root) == expected(in: root))
  }

  @Test func `a tree with so many posts that several threads count them counts the same`() throws {
    for posts in [StorageCount.sharedFrom - 1, StorageCount.sharedFrom] {
      let post = json(#"{"uid":"ada","title":"t","body":"b"}"#)
      var root = Node.absent
      root.set(
        Node(children: (0..<posts).map { (Key(index: Int32($0)), post) }), at: try Path("posts"))
      #expect(StorageCount.bytes(in: root) == ["ada": 258 * posts])
    }
  }

  @Test func `writes that are not stored yet count as well`() async throws {
    try await Blog.with { blog in
      let storage = UserStorage(of: blog.engine, bytesMax: 600)
      let post = json(#"{"uid":"ada","title":"1234","body":"5678901234"}"#)
      func admit(_ id: String) throws {
        try storage.admit(
          [Assignment(try Location("posts/\(id)"), post)], over: blog.root)
      }
      try admit("a")
      try admit("b")
      #expect(throws: SocialError.self) { try admit("c") }
      #expect(storage.refused == 1)
      // Neither was made, so there is room after the next commit.
      _ = try await blog.engine.transact {
        try Posts.create(by: "bob", title: "t", body: "b", in: &$0)
      }
      try admit("c")
    }
  }

  @Test func `a star touches no node of the tree, and a post only its own path`() async throws {
    try await Blog.with { blog in
      var id: Key = "none"
      for number in 0..<500 {
        id = try await blog.engine.transact {
          try Posts.create(by: "ada", title: "\(number)", body: "b", in: &$0)
        }.result
      }
      let storage = UserStorage(of: blog.engine, bytesMax: .max)
      let before = blog.root
      let star = try Assignment(Location("posts/\(id)/stars/bob"), true)
      let title = try Assignment(Location("posts/\(id)/title"), Node("longer"))
      var after = before
      after.set(title.value, at: title.location.path)
      func touched(by assignments: [Assignment]) -> Int {
        let commit = Commit(sequence: 1, time: 1, assignments: assignments)
        return WorkCounter.nodesTouched { storage.committed([commit], from: before, to: after) }
      }
      #expect(touched(by: [star]) == 0)
      let count = touched(by: [star, title])
      #expect((1...16).contains(count), "\(count)")
      #expect(storage.bytes(of: "ada") == expected(in: after)["ada"])
    }
  }
}
