import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// WATCH: the live lists of the blog.
@Suite(.timeLimit(.minutes(20))) struct WatchTests {
  @Test(arguments: Depth.allCases)
  func `an anonymous client can watch the newest posts`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let first = try await ada.text("id", "POST first body")
      let nobody = try await server.connect()
      let start = try await nobody.begin("WATCH RECENT {\"limit\":2}")
      #expect(start.events.map(\.brief) == ["added \(first)"])
      #expect(start.events.first?.data?["title"]?.string == "first")
      let second = try await ada.text("id", "POST second body")
      let third = try await ada.text("id", "POST third body")
      #expect(
        try await nobody.arrived() == [
          "added \(second) after \(first)", "removed \(first)", "added \(third) after \(second)",
        ])
      try await ada.value("STAR \(third)")
      try await ada.value("DELETE \(second)")
      #expect(
        try await nobody.arrived() == [
          "changed \(third) after \(second)", "removed \(second)", "added \(first)",
        ])
      // A star on a post outside of the list sends no event.
      let fourth = try await ada.text("id", "POST fourth body")
      _ = try await nobody.arrived()
      try await ada.value("STAR \(first)")
      #expect(try await nobody.arrived().isEmpty)
      #expect(fourth > third)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a watched TOP follows the number of stars`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let a = try await ada.text("id", "POST a body")
      let b = try await ada.text("id", "POST b body")
      let nobody = try await server.connect()
      let all = try await nobody.begin("WATCH TOP")
      let hers = try await nobody.begin("WATCH TOP @ada {\"limit\":1}")
      #expect(all.events.map(\.brief) == ["added \(a)", "added \(b) after \(a)"])
      #expect(hers.events.map(\.brief) == ["added \(b)"])
      try await ada.value("STAR \(a)")
      let (events, _) = try await nobody.events(until: "PING")
      #expect(
        events.filter { $0.sub == all.sub }.map(\.brief)
          == ["moved \(a) after \(b)", "changed \(a) after \(b)"])
      #expect(
        events.filter { $0.sub == hers.sub }.map(\.brief) == ["removed \(b)", "added \(a)"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `a post, its comments and a user's posts can be watched until they are removed`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title body")
      let posts = try await ada.begin("WATCH POSTS me")
      let post = try await ada.begin("WATCH SHOW \(id)")
      let comments = try await ada.begin("WATCH COMMENTS \(id)")
      #expect(posts.events.map(\.brief) == ["added \(id)"])
      #expect(post.events.map(\.brief) == ["value"])
      #expect(post.events.first?.data?["title"]?.string == "title")
      #expect(comments.events.isEmpty)

      let (commented, reply) = try await ada.events(until: "COMMENT \(id) \"well said\"")
      let comment = try #require(try JSONValue(json: String(reply.dropFirst()))["id"]?.string)
      #expect(
        commented.first { $0.sub == comments.sub }?.brief == "added \(comment)")
      #expect(commented.first { $0.sub == post.sub }?.data?["commentCount"]?.integer == 1)
      #expect(commented.first { $0.sub == posts.sub }?.brief == "changed \(id)")
      let (renamed, _) = try await ada.events(until: "RENAME countess")
      #expect(renamed.count == 3)
      #expect(renamed.allSatisfy { $0.data?["author"]?.string == "countess" })
      let (deleted, _) = try await ada.events(until: "DELETE \(id)")
      #expect(
        Set(deleted.map(\.brief)) == ["removed \(id)", "value", "removed \(comment)"])
      #expect(deleted.first { $0.sub == post.sub }?.data == .null)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a WATCH of an unknown subject or with wrong arguments is refused`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let client = try await server.connect()
      let refusals = [
        ("WATCH", "BAD_REQUEST"), ("WATCH NEWEST", "BAD_REQUEST"), ("WATCH SHOW", "BAD_REQUEST"),
        ("WATCH POSTS", "BAD_REQUEST"), ("WATCH RECENT me", "BAD_REQUEST"),
        ("WATCH RECENT {\"before\":\"x\"}", "BAD_REQUEST"),
        ("WATCH RECENT {\"limit\":0}", "INVALID_DATA"),
        ("WATCH RECENT {\"limit\":101}", "INVALID_DATA"),
        ("WATCH SHOW nothing {\"limit\":1}", "BAD_REQUEST"),
        ("WATCH SHOW nothing", "NOT_FOUND"), ("WATCH COMMENTS nothing", "NOT_FOUND"),
        ("WATCH POSTS @nobody", "NOT_FOUND"), ("WATCH POSTS me", "UNAUTHENTICATED"),
        ("WATCH TOP @nobody", "NOT_FOUND"),
      ]
      for (line, code) in refusals { try await client.expect(line, failsWith: code) }
      #expect(server.parts.engine.listenerCounts == (0, 0))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a thousand clients that watch the same list share one view`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      var clients: [any LineClient] = []
      for _ in 0..<100 { clients.append(try await server.connect()) }
      for client in clients {
        for _ in 0..<10 { _ = try await client.begin("WATCH RECENT") }
      }
      #expect(server.parts.engine.listenerCounts == (1_000, 1))
      let ada = try await server.connect(as: "ada")
      try await ada.value("POST title body")
      for client in clients { #expect(try await client.arrived().count == 10) }
      for client in clients { await client.disconnect() }
      try await server.eventually { server.parts.engine.listenerCounts == (0, 0) }
    }
  }
}
