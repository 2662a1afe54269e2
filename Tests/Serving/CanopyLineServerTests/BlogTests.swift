import CanopyTesting
import CanopyTree
import Testing

/// The verbs of the blog.
@Suite(.timeLimit(.minutes(20))) struct BlogTests {
  private func ids(_ client: any LineClient, _ line: String) async throws -> [String] {
    try await client.value(line).elements?.compactMap { $0["id"]?.string } ?? []
  }

  @Test(arguments: Depth.allCases)
  func `a post is written, shown, changed and deleted`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let reader = try await server.connect()
      let uid = try await ada.text("uid", "WHOAMI")
      let posted = try await ada.value("POST \"A title\" \"Two\\nlines, é\"")
      #expect(posted.names == ["id"])
      let id = try #require(posted["id"]?.string)
      #expect(id.utf8.count == 20)
      let now = server.parts.clock.now
      try await reader.expect(
        "SHOW \(id)",
        """
        +{"id":"\(id)","author":"ada","body":"Two\\nlines, é","createdAt":\(now),"starCount":0,\
        "title":"A title","uid":"\(uid)"}
        """)
      try await ada.expect("EDIT \(id) New \"\\\"body\\\"\"", "+null")
      let shown = try await reader.value("SHOW \(id)")
      #expect(shown["title"]?.string == "New" && shown["body"]?.string == "\"body\"")
      try await ada.expect("DELETE \(id)", "+null")
      for line in ["SHOW \(id)", "COMMENTS \(id)"] {
        try await reader.expect(line, failsWith: "NOT_FOUND")
      }
      for line in [
        "DELETE \(id)", "EDIT \(id) a b", "STAR \(id)", "COMMENT \(id) text", "UNCOMMENT \(id) x",
      ] {
        try await ada.expect(line, failsWith: "NOT_FOUND")
      }
      try await reader.expect("RECENT", "+[]")
      try await reader.expect("POSTS @ada", "+[]")
    }
  }

  @Test(arguments: Depth.allCases)
  func `lists have the newest entries first, in pages`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let uid = try await ada.text("uid", "WHOAMI")
      var posts: [String] = []
      for number in 0..<25 {
        posts.append(try await (number < 22 ? ada : eve).text("id", "POST title \(number)"))
      }
      let newest = Array(posts.reversed())
      #expect(try await ids(ada, "RECENT") == Array(newest.prefix(20)))
      #expect(try await ids(ada, "RECENT {\"limit\":100}") == newest)
      let page = "{\"limit\":3,\"before\":\"\(newest[4])\"}"
      #expect(try await ids(ada, "RECENT \(page)") == Array(newest[5..<8]))
      #expect(try await ids(ada, "RECENT {\"before\":\"\(posts[0])\"}") == [])
      for user in ["me", "@ada", "@ADA", uid] {
        #expect(try await ids(ada, "POSTS \(user) {\"limit\":2}") == [posts[21], posts[20]])
      }
      #expect(try await ids(eve, "POSTS me") == Array(newest.prefix(3)))
      let profile = "+{\"uid\":\"\(uid)\",\"username\":\"ada\"}"
      for user in ["@ada", uid] {
        try await eve.expect("PROFILE \(user)", profile)
      }
      try await ada.expect("PROFILE me", profile)
      for limit in ["0", "101", "-1", "9223372036854775807"] {
        for line in ["RECENT", "POSTS @ada", "TOP", "COMMENTS \(posts[0])"] {
          try await ada.expect("\(line) {\"limit\":\(limit)}", failsWith: "INVALID_DATA")
        }
      }
      for line in [
        "POSTS @nobody", "PROFILE nobody", "TOP @nobody", "PROFILE \"\"", "POSTS \"a/b\"",
      ] {
        try await ada.expect(line, failsWith: "NOT_FOUND")
      }
      let stranger = try await server.connect()
      for line in ["POSTS me", "PROFILE me", "TOP me"] {
        try await stranger.expect(line, failsWith: "UNAUTHENTICATED")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `STAR adds and removes a star, and TOP has the posts with the most stars first`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let first = try await ada.text("id", "POST first body")
      let second = try await eve.text("id", "POST second body")
      let third = try await ada.text("id", "POST third body")
      try await ada.expect("STAR \(first)", "+{\"starred\":true,\"starCount\":1}")
      try await eve.expect("STAR \(first)", "+{\"starred\":true,\"starCount\":2}")
      try await eve.expect("STAR \(second)", "+{\"starred\":true,\"starCount\":1}")
      #expect(try await ids(ada, "TOP") == [first, second, third])
      #expect(try await ids(ada, "TOP {\"limit\":1}") == [first])
      #expect(try await ids(eve, "TOP @ada") == [first, third])
      #expect(try await ids(ada, "TOP me {\"limit\":1}") == [first])
      let uid = try await ada.text("uid", "WHOAMI")
      try await eve.expect("SHOW \(first)", contains: "\"\(uid)\":true")
      try await ada.expect("STAR \(first)", "+{\"starred\":false,\"starCount\":1}")
      #expect(try await eve.value("SHOW \(first)")["stars"]?.names?.contains(uid) == false)
    }
  }

  @Test(arguments: Depth.allCases)
  func `comments are written, listed, and deleted by their author or the author of the post`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let eve = try await server.connect(as: "eve")
      let bob = try await server.connect(as: "bob")
      let post = try await ada.text("id", "POST title body")
      var comments: [String] = []
      for number in 0..<4 {
        comments.append(try await eve.text("id", "COMMENT \(post) \"text \(number)\""))
      }
      let uid = try await eve.text("uid", "WHOAMI")
      let now = server.parts.clock.now
      try await bob.expect(
        "COMMENTS \(post) {\"limit\":1}",
        """
        +[{"id":"\(comments[3])","author":"eve","createdAt":\(now),"text":"text 3","uid":"\(uid)"}]
        """)
      let page = "{\"before\":\"\(comments[2])\"}"
      #expect(try await ids(bob, "COMMENTS \(post) \(page)") == [comments[1], comments[0]])
      try await bob.expect("SHOW \(post)", contains: "\"commentCount\":4")
      try await bob.expect("UNCOMMENT \(post) \(comments[0])", failsWith: "PERMISSION_DENIED")
      try await eve.expect("UNCOMMENT \(post) \(comments[0])", "+null")
      try await ada.expect("UNCOMMENT \(post) \(comments[1])", "+null")
      try await ada.expect("UNCOMMENT \(post) \(comments[1])", failsWith: "NOT_FOUND")
      try await bob.expect("SHOW \(post)", contains: "\"commentCount\":2")
      try await ada.value("DELETE \(post)")
      try await bob.expect("COMMENTS \(post)", failsWith: "NOT_FOUND")
    }
  }

  @Test(arguments: Depth.allCases)
  func `writing needs a login, and only its author changes a post`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let stranger = try await server.connect()
      let id = try await ada.text("id", "POST title body")
      let before = server.root
      for line in [
        "POST a b", "EDIT \(id) a b", "DELETE \(id)", "STAR \(id)", "COMMENT \(id) a",
        "UNCOMMENT \(id) a", "RENAME a", "PASSWORD a b",
      ] {
        try await stranger.expect(line, failsWith: "UNAUTHENTICATED")
      }
      for line in ["EDIT \(id) a b", "DELETE \(id)"] {
        try await eve.expect(line, failsWith: "PERMISSION_DENIED")
      }
      #expect(server.root == before)
      try await ada.expect("SHOW \(id)", contains: "\"title\":\"title\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a text of the longest length is accepted, and a longer one is refused`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      func text(_ count: Int) -> String { "\"" + String(repeating: "é", count: count) + "\"" }
      let id = try await ada.text("id", "POST \(text(200)) \(text(65_536))")
      try await ada.value("COMMENT \(id) \(text(10_000))")
      let before = server.root
      for line in [
        "POST \(text(201)) body", "POST title \(text(65_537))", "POST \"\" body",
        "POST title \" \"",
        "POST \"two\\nlines\" body", "EDIT \(id) \(text(201)) body", "EDIT \(id) title \"\"",
        "COMMENT \(id) \(text(10_001))", "COMMENT \(id) \"\"",
      ] {
        try await ada.expect(line, failsWith: "INVALID_DATA")
      }
      #expect(server.root == before)
    }
  }
}
