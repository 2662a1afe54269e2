import CanopyTesting
import CanopyTree
import Testing

/// The Blog table of the protocol's page.
@Suite(.timeLimit(.minutes(5))) struct BlogTests {
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
      #expect(
        try await reader.request("SHOW \(id)") == """
          +{"id":"\(id)","author":"ada","body":"Two\\nlines, é","createdAt":\(now),"starCount":0,\
          "title":"A title","uid":"\(uid)"}
          """)
      #expect(try await ada.request("EDIT \(id) New \"\\\"body\\\"\"") == "+null")
      let shown = try await reader.value("SHOW \(id)")
      #expect(shown["title"]?.string == "New" && shown["body"]?.string == "\"body\"")
      #expect(try await ada.request("DELETE \(id)") == "+null")
      for line in ["SHOW \(id)", "COMMENTS \(id)"] {
        #expect(try await reader.code(line) == "NOT_FOUND")
      }
      for line in [
        "DELETE \(id)", "EDIT \(id) a b", "STAR \(id)", "COMMENT \(id) text", "UNCOMMENT \(id) x",
      ] {
        #expect(try await ada.code(line) == "NOT_FOUND")
      }
      #expect(try await reader.request("RECENT") == "+[]")
      #expect(try await reader.request("POSTS @ada") == "+[]")
    }
  }

  @Test(arguments: Depth.allCases)
  func `lists come newest first, in pages`(_ depth: Depth) async throws {
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
        #expect(try await eve.request("PROFILE \(user)") == profile)
      }
      #expect(try await ada.request("PROFILE me") == profile)
      for limit in ["0", "101", "-1", "9223372036854775807"] {
        for line in ["RECENT", "POSTS @ada", "TOP", "COMMENTS \(posts[0])"] {
          #expect(try await ada.code("\(line) {\"limit\":\(limit)}") == "INVALID_DATA")
        }
      }
      for line in [
        "POSTS @nobody", "PROFILE nobody", "TOP @nobody", "PROFILE \"\"", "POSTS \"a/b\"",
      ] {
        #expect(try await ada.code(line) == "NOT_FOUND")
      }
      let stranger = try await server.connect()
      for line in ["POSTS me", "PROFILE me", "TOP me"] {
        #expect(try await stranger.code(line) == "UNAUTHENTICATED")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a star goes on and off, and the most starred come first`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let first = try await ada.text("id", "POST first body")
      let second = try await eve.text("id", "POST second body")
      let third = try await ada.text("id", "POST third body")
      #expect(try await ada.request("STAR \(first)") == "+{\"starred\":true,\"starCount\":1}")
      #expect(try await eve.request("STAR \(first)") == "+{\"starred\":true,\"starCount\":2}")
      #expect(try await eve.request("STAR \(second)") == "+{\"starred\":true,\"starCount\":1}")
      #expect(try await ids(ada, "TOP") == [first, second, third])
      #expect(try await ids(ada, "TOP {\"limit\":1}") == [first])
      #expect(try await ids(eve, "TOP @ada") == [first, third])
      #expect(try await ids(ada, "TOP me {\"limit\":1}") == [first])
      let uid = try await ada.text("uid", "WHOAMI")
      #expect(try await eve.value("SHOW \(first)")["stars"]?.names?.contains(uid) == true)
      #expect(try await ada.request("STAR \(first)") == "+{\"starred\":false,\"starCount\":1}")
      #expect(try await eve.value("SHOW \(first)")["stars"]?.names?.contains(uid) == false)
    }
  }

  @Test(arguments: Depth.allCases)
  func `comments are written, listed and deleted by those who may`(_ depth: Depth) async throws {
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
      #expect(
        try await bob.request("COMMENTS \(post) {\"limit\":1}") == """
          +[{"id":"\(comments[3])","author":"eve","createdAt":\(now),"text":"text 3","uid":"\(uid)"}]
          """)
      let page = "{\"before\":\"\(comments[2])\"}"
      #expect(try await ids(bob, "COMMENTS \(post) \(page)") == [comments[1], comments[0]])
      #expect(try await bob.value("SHOW \(post)")["commentCount"]?.integer == 4)
      #expect(try await bob.code("UNCOMMENT \(post) \(comments[0])") == "PERMISSION_DENIED")
      #expect(try await eve.request("UNCOMMENT \(post) \(comments[0])") == "+null")
      #expect(try await ada.request("UNCOMMENT \(post) \(comments[1])") == "+null")
      #expect(try await ada.code("UNCOMMENT \(post) \(comments[1])") == "NOT_FOUND")
      #expect(try await bob.value("SHOW \(post)")["commentCount"]?.integer == 2)
      try await ada.value("DELETE \(post)")
      #expect(try await bob.code("COMMENTS \(post)") == "NOT_FOUND")
    }
  }

  @Test(arguments: Depth.allCases)
  func `writing needs a login, and another's post is another's`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let stranger = try await server.connect()
      let id = try await ada.text("id", "POST title body")
      let before = server.root
      for line in [
        "POST a b", "EDIT \(id) a b", "DELETE \(id)", "STAR \(id)", "COMMENT \(id) a",
        "UNCOMMENT \(id) a", "RENAME a", "PASSWORD a b",
      ] {
        #expect(try await stranger.code(line) == "UNAUTHENTICATED")
      }
      for line in ["EDIT \(id) a b", "DELETE \(id)"] {
        #expect(try await eve.code(line) == "PERMISSION_DENIED")
      }
      #expect(server.root == before)
      #expect(try await ada.request("SHOW \(id)").contains("\"title\":\"title\""))
    }
  }

  @Test(arguments: Depth.allCases)
  func `texts are held to their bounds`(_ depth: Depth) async throws {
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
        #expect(try await ada.code(line) == "INVALID_DATA")
      }
      #expect(server.root == before)
    }
  }
}
