import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// The removal of everything that a user has added, with steps of few entries.
@Suite(.timeLimit(.minutes(20))) struct ErasureTests {
  private static let entriesMax = 4
  private static let scannedMax = 3

  /// Begins the removal of everything of ada, as if the account were deleted.
  private func begin(_ blog: Blog) async throws {
    try await blog.make { try Erasure.begin(of: "ada", in: &$0) }
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
      #expect(UnfinishedWork.accountToDelete(in: blog.root) == "ada")
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
        #expect(UnfinishedWork.accountToDelete(in: blog.root) == nil)
        try await step(blog)
        #expect(blog.root == before, "\(mark)")
      }
    }
  }

  @Test func `the removal of several users goes on one after the other`() async throws {
    try await Blog.with { blog in
      for uid: Key in ["ada", "bob"] {
        _ = try await blog.post(uid)
        try await blog.make { try Erasure.begin(of: uid, in: &$0) }
      }
      #expect(UnfinishedWork.erasedUser(in: blog.root) == "ada")
      for uid: Key in ["ada", "bob"] {
        while UnfinishedWork.erasedUser(in: blog.root) == uid {
          try await blog.make { try UnfinishedWork.step(in: &$0, withoutAccount: uid) }
        }
      }
      #expect(!UnfinishedWork.exists(in: blog.root) && blog.at("posts").isAbsent)
      #expect(blog.at("users").childCount == 1)
    }
  }
}
