import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// The published sample as requests to the tree: one update writes both copies of a post, and a star is a
/// transaction on a whole post. Also attempts to tamper with the data of others.
@Suite(.timeLimit(.minutes(20))) struct SampleTests {
  /// Push ids of the time of the server's clock.
  private let p1 = "-NjEtLV------------1"
  private let p2 = "-NjEtLV------------2"
  private let p9 = "-NjEtLV------------9"

  @Test(arguments: Depth.allCases)
  func `a post and stars of raw requests equal those of the blog`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      try await ada.write(p1)
      try await bob.client.expect("SHOW \(p1)", contains: "\"title\":\"Title\"")
      for person in [ada, bob] {
        try await person.toggleStar(at: "/posts/\(p1)")
      }
      for path in ["posts/\(p1)", "user-posts/\(ada.uid)/\(p1)"] {
        let post = server.root.at(try Path(path))
        #expect(post.child("starCount") == 2)
        #expect(post.child("stars").childCount == 2)
      }
      try await bob.toggleStar(at: "/posts/\(p1)")
      // The copy follows: a second transaction there does not toggle the star again.
      try await bob.toggleStar(at: "/user-posts/\(ada.uid)/\(p1)")
      #expect(server.root.at(try Path("posts/\(p1)/stars")).childCount == 1)
      // A star as an update of two fields, in one request.
      try await bob.client.value(
        "UPDATE /posts/\(p1) {\"stars/\(bob.uid)\":true,\"starCount\":{\".sv\":{\"increment\":1}}}")
      try await bob.client.expect("SHOW \(p1)", contains: "\"starCount\":2")
      // The requests of the blog work with it.
      try await ada.client.expect("STAR \(p1)", "+{\"starred\":false,\"starCount\":1}")
      try await ada.client.value("DELETE \(p1)")
      try await ada.client.expect("SHOW \(p1)", failsWith: "NOT_FOUND")
    }
  }

  @Test(arguments: Depth.allCases)
  func `reading and listening to the public data of the blog needs no login`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      try await ada.write(p1)
      let nobody = try await server.connect()
      for line in [
        "GET /posts", "GET /posts {\"orderBy\":\"starCount\",\"limitToLast\":10}", "COUNT /posts",
        "GET /user-posts/\(ada.uid)", "GET /post-comments/\(p1)", "GET /users/\(ada.uid)",
        "GET /usernames/ada", "GET /user-posts/\(ada.uid) {\"orderBy\":\"starCount\"}",
      ] { try await nobody.expectSuccess(of: line) }
      _ = try await nobody.begin("LISTEN /posts {\"limitToLast\":100}")
      try await ada.write(p2)
      #expect(try await nobody.event().brief == "added \(p2) after \(p1)")
      #expect(
        server.parts.engine.authorizationCounts == (1, 0), "public places cost commits nothing")
    }
  }

  @Test(arguments: Depth.allCases)
  func `no tampering succeeds`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      let nobody = try await server.connect()
      try await ada.write(p1)
      try await ada.toggleStar(at: "/posts/\(p1)")
      try await ada.client.value("COMMENT \(p1) \"hello\"")
      let comments = server.root.at(try Path("post-comments/\(p1)"))
      var comment = ""
      comments.forEachChild { key, _ in
        comment = key.text
        return false
      }
      func both(_ id: String, _ post: String, as uid: String) -> String {
        "UPDATE / {\"posts/\(id)\":\(post),\"user-posts/\(uid)/\(id)\":\(post)}"
      }
      let copy = "/user-posts/\(ada.uid)/\(p1)"
      var attempts = [
        // As another user, or with the name of another user.
        both(p9, ada.post(), as: ada.uid), both(p9, ada.post(), as: bob.uid),
        both(p9, bob.post().replacing("\"bob\"", with: "\"ada\""), as: bob.uid),
        both(p9, bob.post(), as: ada.uid),
        // Without a title, with unknown fields, with the stars of others, with a time in the future.
        both(p9, bob.post().replacing("\"title\":\"Title\",", with: ""), as: bob.uid),
        both(p9, bob.post().replacing("{", with: "{\"x\":1,"), as: bob.uid),
        both(p9, bob.post().replacing("{", with: "{\"starCount\":5,"), as: bob.uid),
        both(
          p9, bob.post().replacing("{", with: "{\"starCount\":1,\"stars\":{\"\(ada.uid)\":true},"),
          as: bob.uid),
        both(p9, bob.post().replacing("{", with: "{\"createdAt\":99999999999999,"), as: bob.uid),
        // Over the data of another user.
        both(p1, bob.post(), as: bob.uid), "SET /posts/\(p1) \(bob.post())",
        "SET /user-posts/\(bob.uid)/\(p1) \(bob.post())", "SET \(copy) \(bob.post())",
        "REMOVE /posts/\(p1)", "REMOVE \(copy)", "REMOVE /posts", "REMOVE /user-posts/\(ada.uid)",
        // Other people's profiles, names and comments.
        "SET /users/\(ada.uid)/username \"bob2\"", "REMOVE /users/\(ada.uid)",
        "SET /usernames/ada \"\(bob.uid)\"", "REMOVE /usernames/ada",
        "SET /usernames/free \"\(bob.uid)\"",
        "SET /post-comments/\(p1)/\(comment)/text \"changed\"",
        "REMOVE /post-comments/\(p1)/\(comment)",
        "REMOVE /post-comments/\(p1)", "SET /user-comments/\(ada.uid)/x \"p1\"",
        "SET /post-comments/\(p1)/x {\"uid\":\"\(ada.uid)\",\"author\":\"ada\",\"text\":\"x\"}",
      ]
      for post in ["/posts/\(p1)", copy] {
        attempts += [
          "SET \(post)/title \"changed\"", "SET \(post)/body \"changed\"",
          "SET \(post)/author \"bob\"", "SET \(post)/uid \"\(bob.uid)\"", "REMOVE \(post)/title",
          "SET \(post)/createdAt 1", "SET \(post)/extra 1", "SET \(post)/commentCount 7",
          "SET \(post)/.priority 1", "SET \(post)/starCount 5", "SET \(post)/starCount 0",
          "REMOVE \(post)/starCount", "SET \(post)/stars/\(bob.uid) true",
          "UPDATE \(post) {\"stars/\(bob.uid)\":true,\"starCount\":3}",
          "UPDATE \(post) {\"stars/\(bob.uid)\":1,\"starCount\":2}",
          "UPDATE \(post) {\"stars/\(ada.uid)\":null,\"starCount\":0}",
          "UPDATE \(post) {\"stars/x\":true,\"starCount\":2}", "REMOVE \(post)/stars",
          "UPDATE \(post) {\"stars\":{\"\(bob.uid)\":true},\"starCount\":1}",
          "UPDATE \(post) {\"stars/\(bob.uid)\":true,\"stars/x\":true,\"starCount\":3}",
        ]
      }
      let before = server.root
      for line in attempts {
        try await bob.client.expect(line, failsWith: "PERMISSION_DENIED")
        try await nobody.expect(line, failsWith: "PERMISSION_DENIED")
      }
      // The author may not change these values either.
      for line in attempts.filter({ $0.contains("star") }) {
        let isOwn = line.contains("stars/\(ada.uid)\":null") || line.contains("\(bob.uid)/\(p1)")
        if !isOwn { try await ada.client.expect(line, failsWith: "PERMISSION_DENIED") }
      }
      #expect(server.root == before)
    }
  }
}

extension Person {
  /// The sample's transaction: reads the whole post, puts the star on or takes it off, and writes the
  /// whole post back. Expects that the write is committed.
  func toggleStar(
    at path: String, location: SourceLocation = #_sourceLocation
  ) async throws {
    let read = try await client.value("GET \(path) {\"etag\":true}")
    let etag = try #require(read["etag"]?.string)
    var post = try #require(try WriteValue(json: Self.text(read["data"])).node as Node?)
    let star = try Path("stars/\(uid)")
    let isStarred = !post.at(star).isAbsent
    let count = post.child("starCount").integerValue ?? 0
    post.set(isStarred ? .absent : true, at: star)
    post.set(Node(count + (isStarred ? -1 : 1)), at: try Path("starCount"))
    var output = JSONOutput()
    output.append(post)
    try await client.expect(
      "CAS \(path) \(etag) \(output.text)", hasPrefix: "+{\"committed\":true", at: location)
  }

  private static func text(_ value: JSONValue?) throws -> String {
    func write(_ value: JSONValue, _ output: inout JSONOutput) {
      switch value {
      case .null: output.append("null")
      case .leaf(let node): output.append(node)
      case .array: output.append("null")
      case .object(let members):
        output.append("{")
        for (i, (name, value)) in members.enumerated() {
          if i > 0 { output.append(",") }
          output.append(string: name)
          output.append(":")
          write(value, &output)
        }
        output.append("}")
      }
    }
    var output = JSONOutput()
    write(value ?? .null, &output)
    return output.text
  }
}
