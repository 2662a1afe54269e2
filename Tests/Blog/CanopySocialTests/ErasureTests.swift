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

  /// Returns the users whose accounts are to be deleted before the next step.
  private func accountsToDelete(_ blog: Blog) -> [Key] {
    var turns = UnfinishedWork.Turns()
    return turns.nextMark(in: blog.root)?.accountsToDelete ?? []
  }

  /// The turns of a test, with what they did.
  private struct Work {
    var turns = UnfinishedWork.Turns()
    /// The number of looks at posts.
    var looks = 0
    /// The number of commits.
    var commits = 0
    /// The users of the marks that had a step, and nil for each step of a search.
    var served: [Key?] = []
    /// Whether the tree is checked after each turn.
    var isChecked = true
  }

  /// Carries out the next turn, and checks that it changes no more than it may. Returns whether there was one.
  @discardableResult
  private func turn(
    _ blog: Blog, _ work: inout Work, scannedMax: Int = ErasureTests.scannedMax
  ) async throws -> Bool {
    let before = blog.journal.commits.count
    let entriesMax = Self.entriesMax
    switch work.turns.next(in: blog.root) {
    case nil: return false
    case .step(let mark):
      work.served.append(mark.key)
      _ = try await blog.engine.transact {
        try UnfinishedWork.step(
          of: mark, in: &$0, entriesMax: entriesMax, withoutAccounts: mark.accountsToDelete)
      }
    case .look(var search):
      work.served.append(nil)
      work.looks += 1
      search.look(in: blog.root, scannedMax: scannedMax)
      work.turns.note(search)
    case .write(var search):
      work.served.append(nil)
      _ = try await blog.engine.transact { [search] in
        try search.write(in: &$0, entriesMax: entriesMax)
      }
      search.noteWritten(entriesMax: entriesMax)
      work.turns.note(search)
    }
    let commits = blog.journal.commits.dropFirst(before)
    work.commits += commits.count
    #expect(commits.count <= 1)
    // A post has two copies and a reservation, and two old reservations go with it. Then there is the mark.
    // A commit that notes deleted accounts has their marks alone.
    #expect(
      commits.allSatisfy { commit in
        commit.assignments.count <= 4 * entriesMax + 1
          || commit.assignments.count <= Erasure.accountsMax
            && commit.assignments.allSatisfy {
              $0.location.path.hasPrefix(Path.root.child(Layout.erasures))
            }
      })
    #expect(!work.isChecked || SocialCheck.problems(in: blog.root) == [])
    return true
  }

  /// Carries out all turns.
  @discardableResult
  private func finish(_ blog: Blog, _ work: Work = Work()) async throws -> Work {
    var work = work
    while try await turn(blog, &work) {}
    #expect(!UnfinishedWork.exists(in: blog.root))
    return work
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
      #expect(accountsToDelete(blog) == ["ada"])
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
        let decision = try UnfinishedWork.step(in: &proposal, withoutAccounts: ["bob"])
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
      var work = Work()
      while UnfinishedWork.exists(in: blog.root) {
        await blog.refusal { try Users.claim("ADA", for: "new", in: &$0) }
        try await turn(blog, &work)
      }
      try await blog.join("Ada", uid: "new")
    }
  }

  @Test func `a removal continues after a restart after any number of steps`() async throws {
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
      isUnfinished = try await withEngine(journal) { [steps] engine in
        // A search begins again, so each start makes one step more.
        var turns = UnfinishedWork.Turns()
        for _ in 0..<steps {
          switch turns.next(in: engine.root) {
          case nil: return false
          case .step(let mark):
            _ = try await engine.transact {
              try UnfinishedWork.step(
                of: mark, in: &$0, entriesMax: 2, withoutAccounts: mark.accountsToDelete)
            }
          case .look(var search):
            search.look(in: engine.root, scannedMax: 2)
            turns.note(search)
          case .write(var search):
            _ = try await engine.transact { [search] in try search.write(in: &$0, entriesMax: 2) }
            search.noteWritten(entriesMax: 2)
            turns.note(search)
          }
          #expect(SocialCheck.problems(in: engine.root) == [])
        }
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
      var work = Work()
      for _ in 0..<2 { try await turn(blog, &work) }
      try await blog.star("bob", own[5])
      _ = try await blog.comment("bob", on: own[5])
      try await blog.make { [id = own[4]] in try Posts.delete(id, by: "ada", in: &$0) }
      let late = try await blog.post("bob")
      try await blog.star("eve", late)
      try await finish(blog, work)
      expectErased(blog)
      #expect(blog.at("posts").childCount == 2 && blog.at("posts/\(late)/starCount") == 1)
      #expect(blog.at("post-comments").isAbsent)
    }
  }

  @Test func `a post that a new account with the uid adds meanwhile goes too`() async throws {
    try await Blog.with { blog in
      for _ in 0..<3 { _ = try await blog.post("ada") }
      try await begin(blog)
      var work = Work()
      for _ in 0..<4 { try await turn(blog, &work) }
      _ = try await blog.post("ada", "late")
      try await finish(blog, work)
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
        #expect(accountsToDelete(blog) == [])
        try await finish(blog)
        #expect(blog.root == before, "\(mark)")
      }
    }
  }

  @Test(arguments: 1...6)
  func `each deleted user gets a step within as many steps as there are users`(
    _ count: Int
  ) async throws {
    try await Blog.with { blog in
      let uids = try (0..<count).map { try Key("u\($0)") }
      for uid in uids {
        try await blog.join(uid.text)
        for _ in 0..<5 { _ = try await blog.post(uid) }
        try await blog.make { try Erasure.begin(of: uid, in: &$0) }
      }
      var work = Work()
      try await turn(blog, &work)
      // Three steps remove five posts.
      for round in 0..<3 {
        work.served = []
        for _ in uids { try await turn(blog, &work) }
        #expect(Set(work.served) == Set(uids), "round \(round): \(work.served)")
      }
      try await finish(blog, work)
    }
  }

  @Test(arguments: [1, 60])
  func `one search finds the stars of all deleted users, in few commits`(
    _ count: Int
  ) async throws {
    try await Blog.with { blog in
      for _ in 0..<20 { _ = try await blog.post("bob") }
      for number in 0..<count {
        let uid = try Key("u\(number)")
        try await blog.make { try Erasure.begin(of: uid, in: &$0) }
      }
      let work = try await finish(blog)
      // Twenty posts are seven looks. The accounts are one commit, and each profile is one with steps of few entries.
      #expect(work.looks == 7)
      #expect(work.commits == 1 + count)
    }
  }

  @Test func `a deletion that comes during a search waits for two searches, with others behind it`()
    async throws
  {
    try await Blog.with { blog in
      var posts: [Key] = []
      for _ in 0..<20 { posts.append(try await blog.post("bob")) }
      try await blog.star("ada", posts[0])
      try await blog.star("eve", posts[0])
      try await blog.make { try Erasure.begin(of: "early", in: &$0) }
      var work = Work()
      while work.looks < 3 { try await turn(blog, &work) }
      try await begin(blog)
      var others = 0
      while !blog.at("users/ada").isAbsent {
        // Users without data are deleted all the time.
        let uid = try Key("u\(others)")
        others += 1
        try await blog.make { try Erasure.begin(of: uid, in: &$0) }
        try await turn(blog, &work)
      }
      #expect(work.looks <= 14)
      #expect(blog.at("posts/\(posts[0])/starCount") == 1)
      try await finish(blog, work)
    }
  }

  @Test func `a search takes turns with the removal of posts`() async throws {
    try await Blog.with { blog in
      for _ in 0..<20 { _ = try await blog.post("bob") }
      for _ in 0..<20 { _ = try await blog.post("eve") }
      for uid in ["ada", "eve"] as [Key] {
        try await blog.make { try Erasure.begin(of: uid, in: &$0) }
      }
      var work = Work()
      for _ in 0..<9 { try await turn(blog, &work) }
      #expect(work.served.dropFirst() == [nil, "eve", nil, "eve", nil, "eve", nil, "eve"])
      try await finish(blog, work)
    }
  }

  @Test func `many stars of many deleted users go, with those of others kept`() async throws {
    try await Blog.with { blog in
      let posts = [try await blog.post("bob"), try await blog.post("eve")]
      let uids = try (0..<9).map { try Key("u\($0)") }
      for uid in uids {
        for post in posts { try await blog.star(uid, post) }
        try await blog.make { try Erasure.begin(of: uid, in: &$0) }
      }
      // One post has fewer stars than there are users, and the other one has more.
      let few = try await blog.post("bob")
      for uid in [uids[3], "bob"] { try await blog.star(uid, few) }
      for uid in ["x0", "x1", "x2"] as [Key] { try await blog.star(uid, posts[1]) }
      try await finish(blog)
      #expect(blog.at("posts/\(posts[0])/stars").isAbsent)
      #expect(blog.at("posts/\(posts[1])/starCount") == 3)
      #expect(blog.at("user-posts/bob/\(few)/stars").json() == #"{"bob":true}"#)
    }
  }

  @Test func `a post that the list of its author lacks is removed too`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      _ = try await blog.engine.transact { _ in
        Decision(try Write([.init(Path.root.child("user-posts"), .absent)]), ())
      }
      _ = try await blog.engine.transact { try Erasure.begin(of: "ada", in: &$0) }
      try await finish(blog, Work(isChecked: false))
      #expect(blog.at("posts/\(id)").isAbsent && blog.at("users/ada").isAbsent)
    }
  }

  @Test func `a new deletion of the same user is not done with the search of the first`()
    async throws
  {
    try await Blog.with { blog in
      var posts: [Key] = []
      for _ in 0..<8 { posts.append(try await blog.post("bob")) }
      try await begin(blog)
      var work = Work()
      while work.looks < 2 { try await turn(blog, &work) }
      // The search has passed this post.
      try await blog.star("ada", posts[0])
      try await begin(blog)
      try await finish(blog, work)
      expectErased(blog)
      #expect(blog.at("posts/\(posts[0])/starCount") == 0)
    }
  }

  @Test func `the number of deleted users whose data is left is bounded`() async throws {
    try await Blog.with { blog in
      for uid in ["u1", "u2"] as [Key] {
        try await blog.make { try Erasure.begin(of: uid, pendingMax: 2, in: &$0) }
      }
      let error = await blog.refusal { try Erasure.begin(of: "u3", pendingMax: 2, in: &$0) }
      #expect(error == .tooManyErasures)
      // A user whose removal has begun, and the administrator, are not refused.
      let again = try await blog.engine.transact {
        Decision(nil, try Erasure.begin(of: "u1", pendingMax: 2, in: &$0).write == nil)
      }
      #expect(again.result)
      try await blog.make { try Erasure.begin(of: "u3", in: &$0) }
      try await finish(blog)
      try await blog.make { try Erasure.begin(of: "u4", pendingMax: 2, in: &$0) }
      try await finish(blog)
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
      for _ in 0...further { found.append(turns.nextMark(in: blog.root)?.key) }
      #expect(found == (further == 0 ? ["z"] : [nil, "z"]))
    }
  }

  @Test func `a mark that is gone or has changed before its step is left alone`() async throws {
    try await Blog.with { blog in
      try await begin(blog)
      var turns = UnfinishedWork.Turns()
      let next = turns.nextMark(in: blog.root)
      let mark = try #require(next)
      try await finish(blog)
      let before = blog.root
      let step = try await blog.engine.transact { proposal in
        let decision = try UnfinishedWork.step(of: mark, in: &proposal, withoutAccounts: ["ada"])
        return Decision(nil, decision.write == nil)
      }
      #expect(step.result && blog.root == before)
    }
  }
}
