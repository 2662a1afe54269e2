import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// Renamings and removals that need more than one commit, with steps of few entries.
@Suite(.timeLimit(.minutes(20))) struct UnfinishedWorkTests {
  private static let entriesMax = 3

  /// Runs one step, and checks that it changes at most the allowed number of entries.
  private func step(_ blog: Blog) async throws {
    try await blog.make { try UnfinishedWork.step(in: &$0, entriesMax: Self.entriesMax) }
    let commit = try #require(blog.journal.commits.last)
    #expect(commit.assignments.count <= 2 * Self.entriesMax + 1)
  }

  /// Runs all steps. Returns their number.
  private func finish(_ blog: Blog) async throws -> Int {
    var count = 0
    while UnfinishedWork.exists(in: blog.root) {
      try await step(blog)
      count += 1
    }
    let sequence = blog.engine.snapshot.sequence
    _ = try await blog.engine.transact { try UnfinishedWork.step(in: &$0) }
    #expect(blog.engine.snapshot.sequence == sequence, "a step without work writes nothing")
    return count
  }

  private func names(_ blog: Blog, of uid: String) -> Set<String> {
    var names: Set<String> = []
    func add(_ node: Node) {
      node.forEachChild { _, entry in
        if entry.child("uid") == Node(uid) { names.insert(entry.child("author").stringValue ?? "") }
        return true
      }
    }
    add(blog.at("posts"))
    add(blog.at("user-posts/\(uid)"))
    blog.at("post-comments").forEachChild { _, comments in
      add(comments)
      return true
    }
    return names
  }

  private func rename(_ blog: Blog, to name: String) async throws {
    try await blog.make { try Users.rename("ada", to: name, entriesMax: Self.entriesMax, in: &$0) }
  }

  @Test(arguments: 0...7)
  func `a renaming changes all posts and comments, whatever their number`(
    _ count: Int
  ) async throws {
    try await Blog.with { blog in
      let others = try await blog.post("bob")
      for _ in 0..<count {
        _ = try await blog.post("ada")
        _ = try await blog.comment("ada", on: others)
      }
      try await rename(blog, to: "Countess")
      #expect(UnfinishedWork.exists(in: blog.root) == (2 * count >= Self.entriesMax))
      #expect(blog.at("users/ada/username") == "Countess")
      #expect(blog.at("usernames/countess") == "ada" && blog.at("usernames/ada").isAbsent)
      let steps = try await finish(blog)
      #expect(steps == 2 * count / Self.entriesMax)
      #expect(names(blog, of: "ada") == (count > 0 ? ["Countess"] : []))
      #expect(names(blog, of: "bob") == ["bob"])
      #expect(blog.at("renames").isAbsent)
    }
  }

  @Test func `a second renaming restarts the work, and other requests run in between`() async throws
  {
    try await Blog.with { blog in
      var ids: [Key] = []
      for _ in 0..<8 { ids.append(try await blog.post("ada")) }
      try await rename(blog, to: "One")
      try await step(blog)
      #expect(names(blog, of: "ada") == ["One", "ada"])
      try await blog.star("bob", ids[7])
      try await blog.make { [id = ids[4]] in try Posts.delete(id, by: "ada", in: &$0) }
      let new = try await blog.post("ada")
      #expect(blog.at("posts/\(new)/author") == "One")
      try await rename(blog, to: "Two")
      #expect(names(blog, of: "ada") == ["Two", "One", "ada"])
      _ = try await finish(blog)
      #expect(names(blog, of: "ada") == ["Two"])
    }
  }

  @Test func `a renaming continues after a restart between any two steps`() async throws {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      _ = try await engine.transact { try Users.claim("ada", for: "ada", in: &$0) }
      for _ in 0..<10 {
        _ = try await engine.transact {
          try Posts.create(by: "ada", title: "t", body: "b", in: &$0)
        }
      }
      _ = try await engine.transact {
        try Users.rename("ada", to: "Countess", entriesMax: 3, in: &$0)
      }
    }
    var isUnfinished = true
    for _ in 0..<20 where isUnfinished {
      isUnfinished = try await withEngine(journal) { engine in
        guard UnfinishedWork.exists(in: engine.root) else { return false }
        _ = try await engine.transact { try UnfinishedWork.step(in: &$0, entriesMax: 3) }
        #expect(SocialCheck.problems(in: engine.root) == [])
        return true
      }
    }
    try await withEngine(journal) { engine in
      #expect(!UnfinishedWork.exists(in: engine.root))
      engine.root.child("posts").forEachChild { _, post in
        #expect(post.child("author") == "Countess")
        return true
      }
    }
  }

  @Test(arguments: 0...7)
  func `the removal of a post removes all comments, whatever their number`(
    _ count: Int
  ) async throws {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      let kept = try await blog.post("ada")
      _ = try await blog.comment("eve", on: kept)
      for number in 0..<count {
        _ = try await blog.comment(number % 2 == 0 ? "bob" : "eve", on: id)
      }
      try await blog.make { try Posts.delete(id, by: "ada", commentsMax: Self.entriesMax, in: &$0) }
      #expect(blog.at("posts/\(id)").isAbsent && blog.at("user-posts/ada/\(id)").isAbsent)
      #expect(UnfinishedWork.exists(in: blog.root) == (count > Self.entriesMax))
      let page = try Feeds.Page()
      #expect(throws: SocialError.self) { try Feeds.comments(on: id, page, in: blog.root) }
      await blog.refusal { try Comments.create(on: id, by: "bob", text: "t", in: &$0) }
      let steps = try await finish(blog)
      #expect(steps == (count > Self.entriesMax ? (count + 2) / Self.entriesMax : 0))
      #expect(blog.at("post-comments").childCount == 1)
      #expect(blog.at("user-comments/bob").isAbsent)
      #expect(blog.at("user-comments/eve").childCount == 1)
      #expect(blog.at("deletions").isAbsent)
    }
  }

  @Test func `a post cannot be written again by raw writes while its comments are being removed`()
    async throws
  {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      for _ in 0...Self.entriesMax { _ = try await blog.comment("bob", on: id) }
      let comments = blog.at("post-comments/\(id)")
      try await blog.make { try Posts.delete(id, by: "ada", commentsMax: Self.entriesMax, in: &$0) }
      // Bob removes his comments, and the mark stays.
      let write = try Write(
        comments.children(after: nil, limit: 10).map {
          Write.Item(try Path("post-comments/\(id)/\($0.key)"), .absent)
        })
      try await blog.make { _ in
        Decision(write, (), policy: DerivingPolicy())
      }
      #expect(blog.at("post-comments").isAbsent && !blog.at("deletions/\(id)").isAbsent)
      let post = json(#"{"uid":"ada","author":"ada","title":"again","body":"b"}"#)
      for place in ["posts/\(id)", "user-posts/ada/\(id)"] {
        let again = try Write([.init(try Path(place), post)])
        await #expect(throws: EngineError.denied) {
          try await blog.make { _ in
            Decision(again, (), policy: DerivingPolicy())
          }
        }
      }
      #expect(try await finish(blog) == 1)
      try await blog.make { _ in
        Decision(
          try Write([.init(try Path("posts/\(id)"), post)]), (),
          policy: DerivingPolicy())
      }
    }
  }

  @Test func `a removal that has not ended leaves the comments of a restored post`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      _ = try await blog.comment("bob", on: id)
      try await blog.make { _ in
        Decision(try Write([.init(try Path("deletions/\(id)"), true)]), ())
      }
      let comments = blog.at("post-comments")
      #expect(try await finish(blog) == 1)
      #expect(blog.at("post-comments") == comments)
      #expect(blog.at("deletions").isAbsent)
    }
  }

  @Test func `a user who renames too often must wait, and the error has the time`() async throws {
    try await Blog.with { blog in
      _ = try await blog.post("ada")
      let error = await blog.refusal {
        try Users.rename("ada", to: "Countess", in: &$0) { entries, now in
          #expect(entries() == 1 && now == blog.clock.now)
          return 1_001
        }
      }
      #expect(error == .rateLimited(milliseconds: 1_001))
      #expect(error?.sentence.hasSuffix("try again in 2 seconds") == true)
      // A name that is taken does not count.
      await blog.refusal {
        try Users.rename("ada", to: "bob", in: &$0) { _, _ in
          Issue.record("asked")
          return nil
        }
      }
    }
  }

  @Test func `ids of removed posts stay reserved while clients can generate them`() async throws {
    try await Blog.with(clock: ManualClock(1_700_000_000_000)) { blog in
      var ids: [Key] = []
      for _ in 0..<5 {
        ids.append(try await blog.post("ada"))
        blog.clock.advance(1_000)
      }
      for id in ids[..<3] { try await blog.make { try Posts.delete(id, by: "ada", in: &$0) } }
      #expect(blog.at("removed-posts").childCount == 3)
      #expect(blog.at("removed-posts/\(ids[0])") == "ada")
      blog.clock.advance(Limits.pushIDAgeMax)
      // Too old for a client to generate.
      try await blog.make { [id = ids[3]] in try Posts.delete(id, by: "ada", in: &$0) }
      #expect(blog.at("removed-posts").childCount == 1, "two of the three are dropped")
      let new = try await blog.post("ada")
      try await blog.make { try Posts.delete(new, by: "ada", in: &$0) }
      #expect(blog.at("removed-posts").childCount == 1)
      #expect(blog.at("removed-posts/\(new)") == "ada")
    }
  }
}

/// Allows all writes, and adds the values that follow from them.
private struct DerivingPolicy: WritePolicy {
  func allows(_ write: ProposedWrite) -> Bool { true }

  func derive(_ write: ProposedWrite) throws -> [Assignment]? {
    try DerivedData.assignments(following: write)
  }
}
