import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// Raw writes of user names in profiles, as in the published samples. The server claims the name and changes it everywhere.
@Suite(.timeLimit(.minutes(20))) struct RawProfileTests {
  private func at(_ server: TestServer, _ path: String) throws -> Node {
    server.root.at(try Path(path))
  }

  @Test(arguments: Depth.allCases)
  func `a profile with only a name claims the name, and keeps or gets its time`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let place = "users/\(ada.uid)"
      let created = try at(server, "\(place)/createdAt")
      server.parts.clock.advance(1_000)
      try await ada.expectAllowed("SET /\(place) {\"username\":\"Lovelace\"}", server)
      #expect(try at(server, "usernames/lovelace") == Node(ada.uid))
      #expect(try at(server, "usernames/ada").isAbsent)
      #expect(try at(server, "\(place)/createdAt") == created)
      try await ada.expectAllowed("SET /\(place)/username \"lovelace\"", server)
      #expect(try at(server, "\(place)/username") == "lovelace")
      try await ada.expectAllowed("UPDATE /\(place) {\"username\":\"Ada\"}", server)
      #expect(try at(server, "usernames").childCount == 1)
      // An account without a profile, such as one of another provider.
      try await server.set("/users", "null")
      try await server.set("/usernames", "null")
      try await ada.expectAllowed("UPDATE / {\"\(place)\":{\"username\":\"Ada\"}}", server)
      #expect(try at(server, "\(place)/createdAt") == Node(server.parts.clock.now))
      #expect(try at(server, "usernames/ada") == Node(ada.uid))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a name that another user has is refused with the reason`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      _ = try await Person(server, "bob")
      for name in ["bob", "BOB"] {
        for line in [
          "SET /users/\(ada.uid) {\"username\":\"\(name)\"}",
          "SET /users/\(ada.uid)/username \"\(name)\"",
          #"UPDATE / {"users/\#(ada.uid)/username":"\#(name)","usernames/ada":null}"#,
        ] {
          let before = server.root
          let reply = try await ada.client.request(line)
          #expect(
            reply == "-PERMISSION_DENIED the user name \(name) is taken; choose another", "\(line)")
          #expect(server.root == before, "\(line)")
        }
      }
      for line in [
        "SET /users/\(ada.uid)/username \"a b\"", "SET /users/\(ada.uid)/username 7",
        "REMOVE /users/\(ada.uid)/username", "REMOVE /users/\(ada.uid)",
        "SET /users/\(ada.uid) {\"username\":\"x\",\"isAdmin\":true}", "REMOVE /usernames/ada",
        #"UPDATE / {"users/\#(ada.uid)/username":"x","usernames/y":"\#(ada.uid)"}"#,
      ] { try await ada.expectDenied(line, server) }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a new name in a profile changes all posts and comments, also those that take more commits`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let count = DerivedData.locationsMax
      for first in [0, count] {
        let posts = (first..<(first + (first == 0 ? count : 1))).map {
          #""posts/\#(RawWriteTests.id("\(1_000 + $0)"))":\#(ada.post())"#
        }
        try await ada.client.value("UPDATE / {\(posts.joined(separator: ","))}")
      }
      let post = RawWriteTests.id("1000")
      try await ada.client.value("COMMENT \(post) \"hello\"")
      try await ada.client.value("SET /users/\(ada.uid)/username \"lovelace\"")
      try await server.eventually { try at(server, "renames").isAbsent }
      #expect(SocialCheck.problems(in: server.root) == [])
      #expect(try at(server, "posts/\(RawWriteTests.id("1250"))/author") == "lovelace")
      #expect(try at(server, "posts").childCount == count + 1)
      // As with RENAME, 500 posts and comments at once, and later more.
      try await ada.client.value("RENAME ada")
      try await ada.client.expect(
        "SET /users/\(ada.uid)/username \"x\"", failsWith: "RATE_LIMITED")
      #expect(try at(server, "users/\(ada.uid)/username") == "ada")
      // The same name changes nothing, so it costs nothing.
      try await ada.client.value("SET /users/\(ada.uid)/username \"ada\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a star that is toggled in both places, one after the other, is toggled once`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      let bob = try await Person(server, "bob")
      let id = RawWriteTests.id("p")
      try await ada.write(id)
      for count in [1, 0] {
        for path in ["posts/\(id)", "user-posts/\(ada.uid)/\(id)"] {
          try await bob.toggleStar(at: "/\(path)")
          #expect(try at(server, "posts/\(id)/starCount") == Node(Int64(count)))
          #expect(SocialCheck.problems(in: server.root) == [])
        }
      }
      // The stars follow the original in every form of a write, and other fields of the copy are written.
      let copy = "user-posts/\(ada.uid)/\(id)"
      for line in [
        #"UPDATE /\#(copy) {"stars/\#(ada.uid)":true,"starCount":1}"#,
        #"UPDATE /\#(copy) {"stars":{"\#(ada.uid)":true},"starCount":1,"title":"New"}"#,
        "SET /\(copy) " + ada.post(#","starCount":1,"stars":{"\#(ada.uid)":true}"#),
      ] { try await ada.expectAllowed(line, server) }
      #expect(try at(server, "\(copy)/stars").isAbsent)
      try await ada.expectAllowed(
        #"UPDATE / {"posts/\#(id)/stars/\#(ada.uid)":true,"posts/\#(id)/starCount":1,"#
          + #""\#(copy)/title":"Newer"}"#, server)
      #expect(try at(server, "\(copy)/starCount") == 1)
      #expect(try at(server, "posts/\(id)/title") == "Newer")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a new name and the removal of an own post with comments may be one update`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      for (number, removal) in [
        #""posts/ID":null"#, #""user-posts/\#(ada.uid)/ID":null"#,
        #""posts/ID":null,"user-posts/\#(ada.uid)/ID":null"#,
      ].enumerated() {
        // A raw write needs the present name.
        try await ada.client.value("RENAME ada")
        let id = RawWriteTests.id("\(number)")
        try await ada.write(id)
        try await ada.write(RawWriteTests.id("x\(number)"))
        try await ada.client.value("COMMENT \(id) \"hello\"")
        let change = removal.replacing("ID", with: id)
        try await ada.expectAllowed(
          #"UPDATE / {"users/\#(ada.uid)/username":"n\#(number)",\#(change)}"#, server)
        #expect(try at(server, "posts/\(id)").isAbsent)
        #expect(
          try at(server, "posts/\(RawWriteTests.id("x\(number)"))/author") == Node("n\(number)"))
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `an on-disconnect write of a name claims it`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await Person(server, "ada")
      try await ada.client.value("ONDISCONNECT SET /users/\(ada.uid)/username \"gone\"")
      try await ada.client.value("QUIT")
      try await server.eventually { try !at(server, "usernames/gone").isAbsent }
      #expect(SocialCheck.problems(in: server.root) == [])
    }
  }
}
