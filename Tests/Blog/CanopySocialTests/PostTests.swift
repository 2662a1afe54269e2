import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct PostTests {
  @Test func `a post has two equal copies`() async throws {
    try await Blog.with { blog in
      blog.clock.advance(234)
      let id = try await blog.post("ada", "Title", "Body")
      let post = json(
        #"{"uid":"ada","author":"ada","title":"Title","body":"Body","createdAt":1234,"starCount":0}"#
      )
      #expect(blog.at("posts") == Node(children: [(id, post)]))
      #expect(
        blog.at("user-posts") == Node(children: [("ada" as Key, Node(children: [(id, post)]))]))
      #expect(id.text.count == 20)
      #expect(blog.root.childCount == 4, "users, usernames, posts, user-posts and nothing else")
    }
  }

  @Test func `a new post takes the next key while something is at its key`() async throws {
    try await Blog.with { blog in
      let first = try await blog.post()
      // The clock has stepped back, so that the keys can be predicted.
      blog.clock.advance(-500)
      let taken = try successor(of: first)
      try await blog.write(taken, by: "bob")
      let reserved = try successor(of: taken)
      try await blog.make { _ in
        Decision(try Write([.init(try Path("removed-posts/\(reserved)"), "bob")]), ())
      }
      let removed = try successor(of: reserved)
      try await blog.make { _ in
        Decision(try Write([.init(try Path("deletions/\(removed)"), true)]), ())
      }
      let id = try await blog.post()
      #expect(id == (try successor(of: removed)))
      #expect(blog.at("posts/\(taken)/uid") == "bob")
      #expect(blog.at("user-posts/ada").childCount == 2)
    }
  }

  @Test func `editing changes only the title and the body, in both copies`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      try await blog.star("bob", id)
      _ = try await blog.comment("eve", on: id)
      let before = blog.root
      blog.clock.advance(99)
      try await blog.make { try Posts.edit(id, by: "ada", title: "New", body: "Other", in: &$0) }
      var expected = before
      for copy in ["posts/\(id)", "user-posts/ada/\(id)"] {
        expected.set("New", at: try Path(copy + "/title"))
        expected.set("Other", at: try Path(copy + "/body"))
      }
      #expect(blog.root == expected)
    }
  }

  @Test func `deleting a post removes its stars and its comments`() async throws {
    try await Blog.with { blog in
      let kept = try await blog.post("bob")
      let keptComment = try await blog.comment("eve", on: kept)
      let before = blog.root
      let id = try await blog.post()
      try await blog.star("bob", id)
      for uid in ["bob", "eve", "ada", "eve"] as [Key] { _ = try await blog.comment(uid, on: id) }
      try await blog.make { try Posts.delete(id, by: "ada", in: &$0) }
      var expected = before
      expected.set("ada", at: try Path("removed-posts/\(id)"))
      #expect(blog.root == expected)
      #expect(blog.at("user-comments") == json(#"{"eve":{"\#(keptComment)":"\#(kept)"}}"#))
    }
  }

  @Test func `deleting all posts and comments keeps the users`() async throws {
    try await Blog.with { blog in
      let before = blog.root
      let id = try await blog.post()
      _ = try await blog.comment("bob", on: id)
      try await blog.make { try Posts.delete(id, by: "ada", in: &$0) }
      var expected = before
      expected.set("ada", at: try Path("removed-posts/\(id)"))
      #expect(blog.root == expected)
    }
  }

  @Test func `a star is added or removed, and the count is the number of stars`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      let plain = blog.root
      #expect(try await star("bob", id, on: blog) == [true, 1])
      #expect(try await star("ada", id, on: blog) == [true, 2])
      for copy in ["posts/\(id)", "user-posts/ada/\(id)"] {
        #expect(blog.at(copy + "/stars") == json(#"{"ada":true,"bob":true}"#))
        #expect(blog.at(copy + "/starCount") == 2)
      }
      #expect(try await star("bob", id, on: blog) == [false, 1])
      #expect(try await star("ada", id, on: blog) == [false, 0])
      #expect(blog.root == plain)
    }
  }

  private func star(_ uid: Key, _ id: Key, on blog: Blog) async throws -> [Node] {
    let state = try await blog.star(uid, id)
    return [Node(state.isStarred), Node(state.starCount)]
  }

  @Test func `simultaneous stars of many users are each counted once`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<50 {
          group.addTask {
            for _ in 0...number % 2 {
              _ = try await blog.engine.transact {
                try Posts.toggleStar(id, by: Key(index: Int32(number)), in: &$0)
              }
            }
          }
        }
        try await group.waitForAll()
      }
      #expect(blog.at("posts/\(id)/starCount") == 25)
      #expect(SocialCheck.problems(in: blog.root) == [])
    }
  }

  @Test func `only the author of a post may change or delete it`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      for transaction in [
        { try Posts.edit(id, by: "bob", title: "t", body: "b", in: &$0) },
        { try Posts.delete(id, by: "bob", in: &$0) },
      ] as [BlogTransaction<Void>] {
        let error = await blog.refusal(of: transaction)
        if case .permissionDenied = error {} else { Issue.record("\(String(describing: error))") }
      }
    }
  }

  @Test func `a post or comment that does not exist cannot be changed`() async throws {
    try await Blog.with { blog in
      let gone = try await blog.post()
      try await blog.make { try Posts.delete(gone, by: "ada", in: &$0) }
      for id in [gone, "nothing"] {
        #expect(
          await blog.refusal { try Posts.delete(id, by: "ada", in: &$0) }
            == .notFound(
              "there is no such post, or it is gone"))
        #expect(await blog.refusal { try Posts.toggleStar(id, by: "ada", in: &$0) } != nil)
        #expect(
          await blog.refusal { try Posts.edit(id, by: "ada", title: "t", body: "b", in: &$0) }
            != nil)
        #expect(
          await blog.refusal { try Comments.create(on: id, by: "ada", text: "t", in: &$0) } != nil)
        #expect(await blog.refusal { try Comments.delete("c", on: id, by: "ada", in: &$0) } != nil)
        #expect(throws: SocialError.self) { try Posts.find(id, in: blog.root) }
        #expect(throws: SocialError.self) {
          try Feeds.comments(on: id, Feeds.Page(), in: blog.root)
        }
      }
      let error = await blog.refusal {
        try Posts.create(by: "nobody", title: "t", body: "b", in: &$0)
      }
      #expect(error?.sentence.contains("no user name") == true)
    }
  }
}
