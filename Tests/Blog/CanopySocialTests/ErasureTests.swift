import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySocial

/// The removal of everything that a user has added, with steps of few entries.
@Suite(.timeLimit(.minutes(20))) struct ErasureTests {
  private static let entriesMax = 4
  private static let scannedMax = 3

  /// Begins the removal of everything of ada, as if the account were deleted.
  private func begin(_ blog: Blog) async throws {
    try await blog.make { try Erasure.begin(of: "ada", in: &$0) }
  }

  /// Returns the user whose account is to be deleted before the next step.
  private func accountToDelete(_ blog: Blog) -> Key? {
    var turns = UnfinishedWork.Turns()
    return turns.next(in: blog.root)?.accountToDelete
  }

  /// Runs one step, and checks that it changes no more than it may.
  private func step(_ blog: Blog) async throws {
    try await blog.make {
      try UnfinishedWork.step(
        in: &$0, entriesMax: Self.entriesMax, scannedMax: Self.scannedMax, withoutAccount: "ada")
    }
    let commit = try #require(blog.journal.commits.last)
    // A post has two copies and a reservation, and two old reservations go with it. Then there is the mark.
    #expect(commit.assignments.count <= 4 * Self.entriesMax + 1)
  }

  /// Runs all steps. Returns their number.
  @discardableResult
  private func finish(_ blog: Blog) async throws -> Int {
    var count = 0
    while UnfinishedWork.exists(in: blog.root) {
      try await step(blog)
      count += 1
    }
    return count
  }

  /// Expects that nothing names ada, and that the others have kept their profiles.
  private func expectErased(_ blog: Blog, at location: SourceLocation = #_sourceLocation) {
    for place in [
      "users/ada", "usernames/ada", "user-posts/ada", "user-comments/ada", "renames", "erasures",
      "deletions",
    ] { #expect(blog.at(place).isAbsent, "\(place)", sourceLocation: location) }
    var kept = blog.root
    // The ids of removed posts stay reserved for a while.
    kept.set(.absent, at: Path.root.child("removed-posts"))
    #expect(!kept.json().contains("ada"), sourceLocation: location)
    #expect(!blog.at("users/bob").isAbsent, sourceLocation: location)
  }

  @Test(arguments: 0...7)
  func `all posts, comments and stars of a user go, whatever their number`(
    _ count: Int
  ) async throws {
    try await Blog.with { blog in
      let others = try await blog.post("bob")
      let starred = try await blog.post("eve")
      _ = try await blog.comment("eve", on: others)
      try await blog.star("eve", starred)
      for number in 0..<count {
        let own = try await blog.post("ada")
        for _ in 0..<number { _ = try await blog.comment("bob", on: own) }
        try await blog.star("ada", own)
        try await blog.star("bob", own)
        _ = try await blog.comment("ada", on: others)
        try await blog.star("ada", try await blog.post("bob"))
      }
      if count > 0 { try await blog.star("ada", starred) }
      let posts = blog.at("posts").childCount
      try await begin(blog)
      #expect(accountToDelete(blog) == "ada")
      try await finish(blog)
      expectErased(blog)
      #expect(blog.at("posts").childCount == posts - count)
      #expect(blog.at("posts/\(others)/commentCount") == 1)
      #expect(blog.at("posts/\(starred)/starCount") == 1)
      #expect(blog.at("user-posts/eve/\(starred)/starCount") == 1)
    }
  }

  @Test func `nothing is removed before the account is deleted`() async throws {
    try await Blog.with { blog in
      _ = try await blog.post("ada")
      try await begin(blog)
      let before = blog.root
      let step = try await blog.engine.transact { proposal in
        let decision = try UnfinishedWork.step(in: &proposal, withoutAccount: "bob")
        return Decision(nil, decision.write == nil)
      }
      #expect(step.result && blog.root == before)
      // A second request changes nothing.
      let again = try await blog.engine.transact { proposal in
        let decision = try Erasure.begin(of: "ada", in: &proposal)
        return Decision(nil, decision.write == nil)
      }
      #expect(again.result)
      try await finish(blog)
      expectErased(blog)
    }
  }

  @Test func `the name stays taken until the last step`() async throws {
    try await Blog.with { blog in
      for _ in 0..<6 { _ = try await blog.post("ada") }
      try await begin(blog)
      while UnfinishedWork.exists(in: blog.root) {
        await blog.refusal { try Users.claim("ADA", for: "new", in: &$0) }
        try await step(blog)
      }
      try await blog.join("Ada", uid: "new")
    }
  }

  @Test func `a removal continues after a restart between any two steps`() async throws {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      for name in ["ada", "bob"] {
        _ = try await engine.transact { try Users.claim(name, for: Key(name), in: &$0) }
      }
      for number in 0..<6 {
        let author: Key = number % 2 == 0 ? "ada" : "bob"
        let id = try await engine.transact {
          try Posts.create(by: author, title: "t", body: "b", in: &$0)
        }.result
        _ = try await engine.transact { try Posts.toggleStar(id, by: "ada", in: &$0) }
        _ = try await engine.transact {
          try Comments.create(on: id, by: "ada", text: "t", in: &$0)
        }
      }
      _ = try await engine.transact { try Erasure.begin(of: "ada", in: &$0) }
    }
    var isUnfinished = true
    var steps = 0
    while isUnfinished, steps < 40 {
      steps += 1
      isUnfinished = try await withEngine(journal) { engine in
        guard UnfinishedWork.exists(in: engine.root) else { return false }
        _ = try await engine.transact {
          try UnfinishedWork.step(
            in: &$0, entriesMax: 2, scannedMax: 2, withoutAccount: "ada")
        }
        #expect(SocialCheck.problems(in: engine.root) == [])
        return true
      }
    }
    try await withEngine(journal) { engine in
      #expect(!UnfinishedWork.exists(in: engine.root))
      #expect(engine.root.child("posts").childCount == 3)
      #expect(engine.root.child("users").childCount == 1)
      #expect(engine.root.child("user-comments").isAbsent)
      engine.root.child("posts").forEachChild { _, post in
        #expect(post.child("starCount") == 0 && post.child("stars").isAbsent)
        return true
      }
    }
  }

  @Test func `other requests run between the steps, also on posts that will be removed`()
    async throws
  {
    try await Blog.with { blog in
      let others = try await blog.post("bob")
      var own: [Key] = []
      for _ in 0..<6 {
        own.append(try await blog.post("ada"))
        _ = try await blog.comment("ada", on: others)
      }
      try await begin(blog)
      try await step(blog)
      try await blog.star("bob", own[5])
      _ = try await blog.comment("bob", on: own[5])
      try await blog.make { [id = own[4]] in try Posts.delete(id, by: "ada", in: &$0) }
      let late = try await blog.post("bob")
      try await blog.star("eve", late)
      try await finish(blog)
      expectErased(blog)
      #expect(blog.at("posts").childCount == 2 && blog.at("posts/\(late)/starCount") == 1)
      #expect(blog.at("post-comments").isAbsent)
    }
  }

  @Test func `a post that a new account with the uid adds meanwhile goes too`() async throws {
    try await Blog.with { blog in
      for _ in 0..<3 { _ = try await blog.post("ada") }
      try await begin(blog)
      for _ in 0..<3 { try await step(blog) }
      _ = try await blog.post("ada", "late")
      try await finish(blog)
      expectErased(blog)
    }
  }

  @Test func `a mark of another shape is removed, and nothing else`() async throws {
    try await Blog.with { blog in
      _ = try await blog.post("ada")
      for mark in ["true", "7", #"{"x":1}"#, #"{"stage":"all"}"#] {
        let before = blog.root
        let value = json(mark)
        try await blog.make { _ in
          Decision(try Write([.init(Path.root.child("erasures").child("ada"), value)]), ())
        }
        #expect(accountToDelete(blog) == nil)
        try await step(blog)
        #expect(blog.root == before, "\(mark)")
      }
    }
  }

  /// Runs the step of the next turn. Returns its user.
  private func step(_ blog: Blog, _ turns: inout UnfinishedWork.Turns) async throws -> Key {
    let next = turns.next(in: blog.root)
    let mark = try #require(next)
    try await blog.make {
      try UnfinishedWork.step(
        of: mark, in: &$0, entriesMax: Self.entriesMax, scannedMax: Self.scannedMax,
        withoutAccount: mark.accountToDelete)
    }
    return try #require(mark.erasedUser)
  }

  @Test(arguments: 1...6)
  func `each deleted user gets a step within as many steps as there are users`(
    _ count: Int
  ) async throws {
    try await Blog.with { blog in
      let uids = try (0..<count).map { try Key("u\($0)") }
      for _ in 0..<20 { _ = try await blog.post("bob") }
      for uid in uids { try await blog.make { try Erasure.begin(of: uid, in: &$0) } }
      var turns = UnfinishedWork.Turns()
      // The stages of posts and comments, and then seven searches in 20 posts for each user.
      for round in 0..<9 {
        var served: [Key] = []
        for _ in uids { served.append(try await step(blog, &turns)) }
        #expect(Set(served) == Set(uids), "round \(round): \(served)")
      }
      let end = turns.next(in: blog.root)
      #expect(end == nil && !UnfinishedWork.exists(in: blog.root))
    }
  }

  @Test func `posts and comments of all deleted users go before any search for stars`() async throws
  {
    try await Blog.with { blog in
      let others = try await blog.post("bob")
      for _ in 0..<20 { _ = try await blog.post("bob") }
      // The search for the stars of the first users has begun when the last one is deleted.
      let early = try (0..<3).map { try Key("a\($0)") }
      for uid in early { try await blog.make { try Erasure.begin(of: uid, in: &$0) } }
      var turns = UnfinishedWork.Turns()
      for _ in 0..<(3 * early.count) { _ = try await step(blog, &turns) }
      for _ in 0..<6 {
        _ = try await blog.post("eve")
        _ = try await blog.comment("eve", on: others)
      }
      try await blog.make { try Erasure.begin(of: "eve", in: &$0) }
      let before = early.map { blog.at("erasures/\($0)") }
      #expect(before.allSatisfy { $0.child("stage") == "stars" })
      while !blog.at("user-posts/eve").isAbsent || !blog.at("user-comments/eve").isAbsent {
        #expect(try await step(blog, &turns) == "eve")
      }
      #expect(early.map { blog.at("erasures/\($0)") } == before)
      #expect(blog.at("posts").childCount == 21 && blog.at("post-comments").isAbsent)
      while UnfinishedWork.exists(in: blog.root) { _ = try await step(blog, &turns) }
      #expect(blog.at("users/eve").isAbsent)
    }
  }

  @Test(arguments: [0, 1]) func `the search among many marks goes on with the next step`(
    _ further: Int
  ) async throws {
    try await Blog.with { blog in
      let count = UnfinishedWork.Turns.examinedMax + further
      let stars = Node(children: [("stage", "stars")] as [(Key, Node)])
      let marks = try (0..<count - 1).map { (try Key("a\(10_000 + $0)"), stars) }
      let last: (Key, Node) = ("z", Node(children: [("stage", "posts")] as [(Key, Node)]))
      try await blog.make { _ in
        let value = Node(children: marks + [last])
        return Decision(try Write([.init(Path.root.child("erasures"), value)]), ())
      }
      var turns = UnfinishedWork.Turns()
      var found: [Key?] = []
      for _ in 0...further { found.append(turns.next(in: blog.root)?.erasedUser) }
      #expect(found == (further == 0 ? ["z"] : ["a10000", "z"]))
    }
  }

  @Test func `a mark that is gone or has changed before its step is left alone`() async throws {
    try await Blog.with { blog in
      try await begin(blog)
      var turns = UnfinishedWork.Turns()
      let next = turns.next(in: blog.root)
      let mark = try #require(next)
      try await finish(blog)
      let before = blog.root
      let step = try await blog.engine.transact { proposal in
        let decision = try UnfinishedWork.step(of: mark, in: &proposal, withoutAccount: "ada")
        return Decision(nil, decision.write == nil)
      }
      #expect(step.result && blog.root == before)
    }
  }
}
