import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// Attacks on the blog by ordinary accounts with raw writes. After each of them all parts of the tree agree.
@Suite(.timeLimit(.minutes(20))) struct RawWriteTests {
  /// Returns a push id of a time. `suffix` distinguishes it from others.
  static func id(_ suffix: String, at milliseconds: Int64 = 1_700_000_000_000) -> String {
    let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
    var rest = milliseconds
    var text = ""
    for _ in 0..<8 {
      text = String(alphabet[Int(rest % 64)]) + text
      rest /= 64
    }
    return text + String(repeating: "-", count: 12 - suffix.count) + suffix
  }

  private let p = RawWriteTests.id("p")
  private let c = RawWriteTests.id("c")

  private func at(_ server: TestServer, _ path: String) throws -> Node {
    server.root.at(try Path(path))
  }

  @Test(arguments: Depth.allCases)
  func `feeds cannot be captured by keys that sort last`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let eve = try await Person(server, "eve")
      let now = server.parts.clock.now
      let day: Int64 = 24 * 3_600 * 1_000
      for id in [
        "zzz", "zzzzzzzzzzzzzzzzzzzz", "zzzzzzzzzzzzzzzzzzzzz", "7", "ÿ",
        Self.id("a", at: now + 60_001), Self.id("a", at: now - 7 * day - 1),
      ] {
        let copy = "user-posts/\(eve.uid)/\(id)"
        try await eve.expectDenied("SET /posts/\(id) \(eve.post())", server)
        try await eve.expectDenied("SET /\(copy) \(eve.post())", server)
        try await eve.expectDenied(
          #"UPDATE / {"posts/\#(id)":\#(eve.post()),"\#(copy)":\#(eve.post())}"#, server)
      }
      for time in [now + 60_000, now - 7 * day] {
        try await eve.expectAllowed("SET /posts/\(Self.id("a", at: time)) \(eve.post())", server)
      }
      server.parts.clock.advance(60_001)
      try await eve.client.value("POST new text")
      let recent = try await eve.client.request(#"RECENT {"limit":1}"#)
      #expect(recent.contains(#""title":"new""#))
      try await eve.expectAllowed("PUSH /posts \(eve.post())", server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `one write may set 250 locations of posts and comments, and the administrator more`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let now = server.parts.clock.now
      func update(_ count: Int, at first: Int64) -> String {
        let posts = (0..<count).map { number in
          #""posts/\#(Self.id("\(1_000 + number)", at: now - first))":\#(ada.post())"#
        }
        return "UPDATE / {" + posts.joined(separator: ",") + "}"
      }
      let sentence = "-TOO_LARGE one write may set at most 250 locations of posts and comments"
      for line in [
        update(251, at: 1), "ONDISCONNECT " + update(251, at: 1),
        "ONCE k 1 0 " + update(251, at: 1),
      ] {
        let reply = try await ada.client.request(line)
        #expect(reply.hasPrefix(sentence), "\(reply.prefix(200))")
      }
      #expect(DerivedData.locationsMax == 250)
      try await ada.client.value(update(250, at: 1))
      #expect(try at(server, "posts").childCount == 250)
      #expect(try at(server, "user-posts/\(ada.uid)").childCount == 250)
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value(update(251, at: 2))
      #expect(try at(server, "posts").childCount == 501)
    }
  }

  @Test func `a conditional update of too many posts is refused before its value is compared`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let ada = try await server.parts.operations.account(
        .signUp(email: "ada@canopy.example", password: "correct-horse", username: "ada"),
        as: .anonymous, from: "192.0.2.1")
      let identity = try #require(ada.identity)
      let now = server.parts.clock.now
      let changes = try (0...DerivedData.locationsMax).map { number in
        Request.Update(
          location: try Location("posts/\(Self.id("\(1_000 + number)", at: now))"),
          value: WriteValue(Node(1)))
      }
      let reply = await withCheckedContinuation { continuation in
        server.parts.operations.update(
          .root, changes, ifMatch: "of another value", as: identity, from: "192.0.2.1"
        ) { continuation.resume(returning: $0) }
      }
      guard case .failure(let error) = reply else {
        Issue.record("the reply is \(reply)")
        return
      }
      #expect(error.code == .tooLarge, "\(error)")
      #expect(try at(server, "posts").isAbsent)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write to one copy of a post changes the other copy too`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      let q = Self.id("q")
      let (post, copy) = ("/posts/\(p)", "/user-posts/\(ada.uid)/\(p)")
      try await ada.expectAllowed("SET \(post) \(ada.post())", server)
      try await ada.expectAllowed("SET /user-posts/\(ada.uid)/\(q) \(ada.post())", server)
      try await ada.expectAllowed("SET \(copy)/title \"Other\"", server)
      try await ada.expectAllowed("SET \(post)/body \"Other\"", server)
      try await bob.expectAllowed(
        #"UPDATE \#(post) {"stars/\#(bob.uid)":true,"starCount":{".sv":{"increment":1}}}"#, server)
      #expect(try at(server, copy).childCount == 6)
      #expect(try at(server, copy).isIdentical(to: at(server, post)), "one in memory")
      try await ada.expectDenied(
        #"UPDATE / {"\#(post)/title":"One","\#(copy)/title":"Two"}"#, server)
      try await ada.expectDenied(#"UPDATE / {"\#(post)":null,"\#(copy)/title":"Two"}"#, server)
      // The stars of the original stay in force.
      try await bob.expectAllowed(
        #"UPDATE \#(copy) {"stars/\#(bob.uid)":null,"starCount":0}"#, server)
      #expect(try at(server, "\(copy)/starCount") == 1)
      for field in ["uid", "author", "title", "body"] {
        try await ada.expectDenied("REMOVE \(post)/\(field)", server)
        try await ada.expectDenied("REMOVE \(copy)/\(field)", server)
      }
      try await ada.expectDenied(
        #"UPDATE / {"posts/\#(Self.id("x"))":\#(ada.post()),"#
          + #""user-posts/\#(ada.uid)/\#(Self.id("x"))":\#(ada.post(#","starCount":0"#))}"#, server)
      try await ada.expectAllowed("REMOVE \(copy)", server)
      #expect(try at(server, post).isAbsent)
      try await ada.expectAllowed("REMOVE /posts/\(q)", server)
      #expect(try at(server, "user-posts").isAbsent)
    }
  }

  @Test(arguments: Depth.allCases)
  func `comments are counted and listed after every kind of write`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      let place = "/post-comments/\(p)/\(c)"
      let counts = ["posts/\(p)/commentCount", "user-posts/\(ada.uid)/\(p)/commentCount"]
      func expectCount(_ count: Node) throws {
        for path in counts { #expect(try at(server, path) == count) }
      }
      try await ada.write(p)
      try await ada.write(Self.id("q"))
      try await bob.expectAllowed("SET \(place) \(bob.comment())", server)
      try expectCount(1)
      #expect(try at(server, "user-comments/\(bob.uid)/\(c)") == Node(p))
      try await bob.expectAllowed("PUSH /post-comments/\(p) \(bob.comment())", server)
      try expectCount(2)
      // Like the published samples: all four locations, or one of them wrong.
      let d = Self.id("d")
      try await bob.expectAllowed(
        #"UPDATE / {"post-comments/\#(p)/\#(d)":\#(bob.comment()),"user-comments/\#(bob.uid)/\#(d)":"\#(p)","#
          + #""\#(counts[0])":3,"\#(counts[1])":{".sv":{"increment":1}}}"#, server)
      for line in [
        "REMOVE /user-comments/\(bob.uid)/\(c)", "SET /user-comments/\(bob.uid)/\(c) \"x\"",
        "SET /user-comments/\(bob.uid)/\(c) \"\(Self.id("q"))\"", "SET /\(counts[0]) 7",
        "REMOVE /\(counts[1])", "SET /\(counts[0]) 2",
        #"UPDATE / {"\#(place)":null,"\#(counts[0])":3}"#,
        #"UPDATE / {"\#(place)":null,"user-comments/\#(bob.uid)/\#(c)":"\#(p)"}"#,
        // The same id on another post.
        "SET /post-comments/\(Self.id("q"))/\(c) \(bob.comment())",
        #"UPDATE / {"post-comments/\#(Self.id("q"))/\#(c)":\#(bob.comment()),"\#(place)":null}"#,
        #"UPDATE / {"post-comments/\#(p)/\#(Self.id("e"))":\#(bob.comment()),"#
          + #""post-comments/\#(Self.id("q"))/\#(Self.id("e"))":\#(bob.comment())}"#,
      ] { try await bob.expectDenied(line, server) }
      try await bob.expectAllowed("SET \(place)/text \"Changed\"", server)
      try await bob.expectAllowed("REMOVE \(place)", server)
      try expectCount(2)
      #expect(try at(server, "user-comments/\(bob.uid)").childCount == 2)
      try await bob.expectAllowed("ONCE bobs 1 0 REMOVE /post-comments/\(p)/\(d)", server)
      try expectCount(1)
      // A post and its first comment in one write.
      let (r, f) = (Self.id("r"), Self.id("f"))
      try await ada.expectAllowed(
        #"UPDATE / {"posts/\#(r)":\#(ada.post(#","commentCount":1"#)),"#
          + #""post-comments/\#(r)/\#(f)":\#(ada.comment())}"#, server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `no client adds or removes a count alone, which would move a post in TOP`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      try await ada.write(p)
      let counted = try await ada.client.text("id", "POST t b")
      let copies = { (id: String) in ["/posts/\(id)", "/user-posts/\(ada.uid)/\(id)"] }
      for person in [ada, bob] {
        for copy in copies(counted) {
          try await person.expectDenied("REMOVE \(copy)/starCount", server)
          try await person.expectDenied("SET \(copy)/starCount null", server)
          try await person.expectDenied("SET \(copy)/commentCount 0", server)
        }
        for copy in copies(p) {
          try await person.expectDenied("SET \(copy)/starCount 0", server)
          try await person.expectDenied("SET \(copy)/commentCount 0", server)
        }
      }
      let star = #"UPDATE /posts/\#(p) {"stars/\#(bob.uid)":true,"starCount":1}"#
      try await bob.expectAllowed(star, server)
      try await bob.expectDenied(
        #"UPDATE /posts/\#(p) {"stars/\#(bob.uid)":null,"starCount":null}"#, server)
      try await bob.expectAllowed(
        #"UPDATE /posts/\#(p) {"stars/\#(bob.uid)":null,"starCount":0}"#, server)
      try await bob.expectDenied("REMOVE /posts/\(p)/starCount", server)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the comments of a removed post are removed, and no other user gets its id`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let eve = try await Person(server, "eve")
      try await ada.write(p)
      try await eve.expectAllowed("SET /post-comments/\(p)/\(c) \(eve.comment())", server)
      try await ada.expectDenied(
        #"UPDATE / {"user-posts/\#(ada.uid)/\#(p)":null,"#
          + #""post-comments/\#(p)/\#(Self.id("d"))":\#(ada.comment())}"#, server)
      try await ada.expectAllowed("REMOVE /posts/\(p)", server)
      for place in ["post-comments", "user-comments"] { #expect(try at(server, place).isAbsent) }
      try await eve.expectDenied("SET /posts/\(p) \(eve.post())", server)
      try await eve.expectDenied("SET /user-posts/\(eve.uid)/\(p) \(eve.post())", server)
      for line in ["REMOVE /removed-posts/\(p)", "SET /removed-posts/\(p) \"\(eve.uid)\""] {
        try await eve.expectDenied(line, server)
      }
      try await eve.client.expect("GET /removed-posts/\(p)", failsWith: "PERMISSION_DENIED")
      // A client that was offline may send its own post again.
      try await ada.expectAllowed("SET /posts/\(p) \(ada.post())", server)
      try await ada.expectAllowed("DELETE \(p)", server)
      try await eve.expectDenied("SET /posts/\(p) \(eve.post())", server)
      // This is possible as long as the age of the id allows; then the reservation is dropped.
      server.parts.clock.advance(Limits.pushIDAgeMax + 1)
      try await eve.expectDenied("SET /posts/\(p) \(eve.post())", server)
      let id = try await eve.client.text("id", "POST t b")
      try await eve.expectAllowed("DELETE \(id)", server)
      let reserved = try at(server, "removed-posts")
      #expect(reserved.childCount == 1)
      #expect(try reserved.child(Key(id)) == Node(eve.uid))
    }
  }

  @Test(arguments: Depth.allCases)
  func `an on-disconnect write and CAS keep the copies equal`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      try await ada.write(p)
      let etag = try await bob.client.text("etag", #"GET /posts/\#(p) {"etag":true}"#)
      let starred = ada.post(#","starCount":1,"stars":{"\#(bob.uid)":true}"#)
      try await bob.expectAllowed("CAS /posts/\(p) \(etag) \(starred)", server)
      try await bob.client.value("ONDISCONNECT SET /post-comments/\(p)/\(c) \(bob.comment())")
      try await bob.client.value("QUIT")
      try await server.eventually { try !at(server, "post-comments").isAbsent }
      #expect(try at(server, "posts/\(p)/commentCount") == 1)
      #expect(SocialCheck.problems(in: server.root) == [])
      try await ada.client.value("ONDISCONNECT REMOVE /posts/\(p)")
      try await ada.client.value("QUIT")
      try await server.eventually { try at(server, "posts").isAbsent }
      #expect(SocialCheck.problems(in: server.root) == [])
      #expect(try at(server, "post-comments").isAbsent)
    }
  }

  @Test func `posts of earlier data, whose ids clients cannot create, stay usable`()
    async throws
  {
    try await withServer(.inProcess) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      let post = ada.post(#","starCount":0,"createdAt":5"#)
      try await server.set("/posts/zzz", post)
      try await server.set("/user-posts/\(ada.uid)/zzz", post)
      try await ada.expectAllowed("SET /posts/zzz/title \"New\"", server)
      try await bob.expectAllowed(
        #"UPDATE /posts/zzz {"stars/\#(bob.uid)":true,"starCount":1}"#, server)
      try await bob.expectAllowed("STAR zzz", server)
      try await bob.expectAllowed("PUSH /post-comments/zzz \(bob.comment())", server)
      try await ada.expectAllowed("REMOVE /posts/zzz", server)
      try await ada.expectDenied("SET /posts/zzz \(post)", server)
      #expect(try at(server, "removed-posts").isAbsent, "no client can make that id")
    }
  }

  @Test func `under other rules no copies are derived`() async throws {
    try await withServer(.inProcess) { server in
      try await server.set(rules: #"{"rules":{".read":true,".write":"auth != null"}}"#)
      let ada = try await Person(server, "ada")
      try await ada.client.value("SET /posts/p {\"x\":1}")
      try await ada.client.value("SET /user-posts/a/p {\"y\":2}")
      try await ada.client.value("REMOVE /posts")
      #expect(try at(server, "user-posts/a/p/y") == 2)
    }
  }
}
