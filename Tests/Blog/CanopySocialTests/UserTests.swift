import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct UserTests {
  @Test func `a user has a profile, and the key of the name is in lower case`() async throws {
    try await Blog.with { blog in
      blog.clock.advance(5)
      try await blog.join("Grace_H", uid: "u9")
      #expect(blog.at("users/u9") == json(#"{"username":"Grace_H","createdAt":1005}"#))
      #expect(blog.at("usernames/grace_h") == "u9")
      #expect(blog.at("usernames").childCount == 4)
    }
  }

  @Test func `a name is taken in any case`() async throws {
    try await Blog.with { blog in
      for name in ["ada", "ADA", "aDa"] {
        for transaction in [
          { try Users.claim(name, for: "u9", in: &$0) },
          { try Users.rename("bob", to: name, in: &$0) },
        ] as [BlogTransaction<Void>] {
          let error = await blog.refusal(of: transaction)
          if case .conflict(let sentence) = error {
            #expect(sentence.contains(name) && sentence.contains("another"))
          } else {
            Issue.record("\(String(describing: error))")
          }
        }
      }
    }
  }

  @Test func `a name that only looks like another name is not found`() async throws {
    try await Blog.with { blog in
      try await blog.join("kay", uid: "u9")
      let root = blog.root
      #expect(try Users.find(username: "KAY", in: root) == "u9")
      // The Kelvin sign, whose lower case in Unicode is the letter k.
      #expect(throws: SocialError.self) { try Users.find(username: "\u{212A}ay", in: root) }
    }
  }

  @Test func `a search finds the names that begin with a text, up to the limit`() async throws {
    try await Blog.with { blog in
      let names: [(String, Key)] = [
        ("Kay", "u1"), ("kay-2", "u2"), ("KAYA", "u3"), ("ka", "u4"), ("kb", "u5"), ("77", "u6"),
        ("777", "u7"), ("77a", "u8"),
      ]
      for (name, uid) in names { try await blog.join(name, uid: uid) }
      func found(_ prefix: String, limit: Int = 10) -> [String] {
        Users.search(prefix: prefix, limit: limit, in: blog.root).map(\.text)
      }
      #expect(found("kay") == ["u1", "u2", "u3"] && found("KAY") == ["u1", "u2", "u3"])
      #expect(found("ka") == ["u4", "u1", "u2", "u3"] && found("kay-2") == ["u2"])
      #expect(found("kay", limit: 3).count == 3 && found("kay", limit: 2) == ["u1", "u2"])
      // Another number is not found by its beginning.
      #expect(found("77") == ["u6", "u8"] && found("777") == ["u7"])
      #expect(found("x").isEmpty && found("").isEmpty && found("a/b").isEmpty)
    }
  }

  @Test func `one of many simultaneous claims of a name succeeds`() async throws {
    try await Blog.with { blog in
      let winners = try await withThrowingTaskGroup(of: Bool.self) { group in
        for number in 0..<20 {
          group.addTask {
            let name = number % 2 == 0 ? "Zoe" : "zOE"
            let claimed = try? await blog.engine.transact {
              try Users.claim(name, for: Key(index: Int32(number)), in: &$0)
            }
            return claimed != nil
          }
        }
        return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
      }
      #expect(winners == 1)
      #expect(SocialCheck.problems(in: blog.root) == [])
    }
  }

  @Test func `renaming changes the profile, both copies of every post, and every comment`()
    async throws
  {
    try await Blog.with { blog in
      let own = try await blog.post("ada")
      let second = try await blog.post("ada")
      let others = try await blog.post("bob")
      try await blog.star("ada", others)
      let comments = [
        (own, try await blog.comment("ada", on: own)),
        (others, try await blog.comment("ada", on: others)),
      ]
      _ = try await blog.comment("bob", on: own)
      var expected = blog.root
      for place in [
        "users/ada/username", "posts/\(own)/author", "posts/\(second)/author",
        "user-posts/ada/\(own)/author", "user-posts/ada/\(second)/author",
      ] + comments.map({ "post-comments/\($0)/\($1)/author" }) {
        expected.set("Countess", at: try Path(place))
      }
      expected.set(.absent, at: try Path("usernames/ada"))
      expected.set("ada", at: try Path("usernames/countess"))
      try await blog.make { try Users.rename("ada", to: "Countess", in: &$0) }
      #expect(blog.root == expected)

      try await blog.join("ada", uid: "u9")
      #expect(try Users.find(username: "ADA", in: blog.root) == "u9", "the old name is free")
    }
  }

  @Test func `a renaming may change only the case, or nothing`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      for name in ["ADA", "Ada", "Ada"] {
        try await blog.make { try Users.rename("ada", to: name, in: &$0) }
        #expect(blog.at("users/ada/username") == Node(name))
        #expect(blog.at("posts/\(id)/author") == Node(name))
        #expect(blog.at("usernames") == json(#"{"ada":"ada","bob":"bob","eve":"eve"}"#))
      }
    }
  }

  @Test func `a user without a profile gets a new one by renaming`() async throws {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      _ = try await blog.engine.transact { _ in
        Decision(
          try Write([
            .init(try Path("users/ada"), .absent), .init(try Path("usernames/ada"), .absent),
          ]), ())
      }
      let error = await blog.refusal { try Posts.create(by: "ada", title: "t", body: "b", in: &$0) }
      #expect(error?.sentence.contains("RENAME") == true)
      #expect(
        await blog.refusal { try Users.rename("ada", to: "Bob", in: &$0) } != nil,
        "a name of another")
      try await blog.make { try Users.rename("ada", to: "Ada2", in: &$0) }
      #expect(blog.at("users/ada/username") == "Ada2")
      #expect(blog.at("usernames/ada2") == "ada")
      #expect(blog.at("posts/\(id)/author") == "Ada2")
      #expect(SocialCheck.problems(in: blog.root) == [])
    }
  }

  @Test func `a write does not partly restore a copy that the administrator removed`() async throws
  {
    try await Blog.with { blog in
      let id = try await blog.post("ada")
      let comment = try await blog.engine.transact {
        try Comments.create(on: id, by: "ada", text: "t", in: &$0)
      }.result
      let kept = try await blog.post("ada")
      for place in ["posts/\(id)", "post-comments/\(id)/\(comment)", "user-posts/ada/\(kept)"] {
        _ = try await blog.engine.transact { _ in
          Decision(try Write([.init(try Path(place), .absent)]), ())
        }
      }
      _ = try await blog.engine.transact { try Users.rename("ada", to: "Ada2", in: &$0) }
      _ = try await blog.engine.transact { try Posts.toggleStar(kept, by: "bob", in: &$0) }
      #expect(blog.at("posts/\(id)") == .absent)
      #expect(blog.at("post-comments/\(id)") == .absent)
      #expect(blog.at("user-posts/ada/\(kept)") == .absent)
      #expect(blog.at("posts/\(kept)/starCount") == 1)
      // `SocialCheck` would report the remaining copy, so the administrator removes it as well.
      _ = try await blog.engine.transact { _ in
        let places = ["posts", "user-posts", "post-comments", "user-comments"]
        return Decision(try Write(places.map { .init(try Path($0), .absent) }), ())
      }
    }
  }

  @Test func `a user with a profile cannot create another by a second sign-up`() async throws {
    try await Blog.with { blog in
      let error = await blog.refusal { try Users.claim("Second", for: "ada", in: &$0) }
      if case .conflict = error {} else { Issue.record("\(String(describing: error))") }
    }
  }

  @Test func `a user is found by the exact uid, and by the name in any case`() async throws {
    try await Blog.with { blog in
      try await blog.join("Grace", uid: "U9")
      let root = blog.root
      #expect(try Users.find(uid: "U9", in: root) == "U9")
      #expect(try Users.find(username: "gRACE", in: root) == "U9")
      #expect(Users.username(of: "U9", in: root) == "Grace")
      #expect(Users.username(of: "u9", in: root) == nil)
      for uid in ["u9", "Grace", "", "a/b", "users"] {
        #expect(throws: SocialError.notFound("there is no such user"), "\(uid)") {
          try Users.find(uid: uid, in: root)
        }
      }
      for name in ["U9", "", "a.b", "grac"] {
        #expect(throws: SocialError.notFound("there is no such user"), "\(name)") {
          try Users.find(username: name, in: root)
        }
      }
    }
  }
}
