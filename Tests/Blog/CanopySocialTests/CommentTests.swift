import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct CommentTests {
  @Test func `a new comment takes the next key while something is at its key`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      let other = try await blog.post()
      let first = try await blog.comment("bob", on: id)
      blog.clock.advance(-500)
      // Comments by requests on the tree: of another user on the post, and of the same user on another post.
      let taken = try successor(of: first)
      let listed = try successor(of: taken)
      for (comment, post, uid) in [(taken, id, "eve"), (listed, other, "bob")] {
        let node = json(#"{"uid":"\#(uid)","author":"\#(uid)","text":"raw"}"#)
        let count = Node(Int64(blog.at("post-comments/\(post)").childCount + 1))
        try await blog.make { _ in
          Decision(
            try Write([
              .init(try Path("post-comments/\(post)/\(comment)"), node),
              .init(try Path("user-comments/\(uid)/\(comment)"), Node(post.text)),
              .init(try Path("posts/\(post)/commentCount"), count),
              .init(try Path("user-posts/ada/\(post)/commentCount"), count),
            ]), ())
        }
      }
      let comment = try await blog.comment("bob", on: id)
      #expect(comment == (try successor(of: listed)))
      #expect(blog.at("post-comments/\(id)/\(taken)/uid") == "eve")
      #expect(blog.at("user-comments/bob/\(listed)") == Node(other.text))
    }
  }

  @Test func `a comment is stored, listed for its author, and counted in both copies of the post`()
    async throws
  {
    try await Blog.with { blog in
      let id = try await blog.post()
      blog.clock.advance(50)
      let comment = try await blog.comment("bob", on: id, "Well said")
      #expect(
        blog.at("post-comments")
          == json(
            """
            {"\(id)":{"\(comment)":{"uid":"bob","author":"bob","text":"Well said","createdAt":1050}}}
            """))
      #expect(blog.at("user-comments") == json(#"{"bob":{"\#(comment)":"\#(id)"}}"#))
      #expect(blog.at("posts/\(id)/commentCount") == 1)
      #expect(blog.at("user-posts/ada/\(id)/commentCount") == 1)
      _ = try await blog.comment("ada", on: id)
      #expect(blog.at("posts/\(id)/commentCount") == 2)
    }
  }

  @Test func `a deleted comment leaves no data`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      let plain = blog.root
      let first = try await blog.comment("bob", on: id)
      let one = blog.root
      let second = try await blog.comment("bob", on: id)
      try await blog.make { try Comments.delete(second, on: id, by: "bob", in: &$0) }
      #expect(blog.root == one)
      try await blog.make { try Comments.delete(first, on: id, by: "bob", in: &$0) }
      #expect(blog.root == plain, "and there is no count of 0")
    }
  }

  @Test func `only the author of a comment and the author of the post may delete the comment`()
    async throws
  {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      for remover in ["bob", "ada"] as [Key] {
        let comment = try await blog.comment("bob", on: id)
        let error = await blog.refusal { try Comments.delete(comment, on: id, by: "eve", in: &$0) }
        if case .permissionDenied = error {} else { Issue.record("\(String(describing: error))") }
        try await blog.make { try Comments.delete(comment, on: id, by: remover, in: &$0) }
      }
    }
  }

  @Test func `a comment belongs to one post only`() async throws {
    try await Blog.with { blog in
      let one = try await blog.post()
      let two = try await blog.post()
      let comment = try await blog.comment("bob", on: one)
      for (comment, id) in [(comment, two), ("none", one), (one, one)] {
        let error = await blog.refusal { try Comments.delete(comment, on: id, by: "bob", in: &$0) }
        if case .notFound = error {} else { Issue.record("\(String(describing: error))") }
      }
    }
  }

  @Test func `a caller without a profile cannot comment`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post()
      let error = await blog.refusal {
        try Comments.create(on: id, by: "nobody", text: "t", in: &$0)
      }
      #expect(error?.sentence.contains("no user name") == true)
    }
  }
}
