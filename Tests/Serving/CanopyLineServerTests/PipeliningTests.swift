import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Requests that are sent without waiting for replies.
@Suite(.timeLimit(.minutes(20))) struct PipeliningTests {
  /// Requests of all kinds, and their replies if they are carried out in order.
  private struct Script {
    var lines: [String] = []
    var replies: [String] = []

    /// Counts up at `/n` and reads it back, between requests of other kinds.
    ///
    /// - Parameter sequence: the number of the first commit.
    init(_ count: Int, sequence: Int, token: String, _ random: inout SeededGenerator) {
      var value = "null"
      var sequence = sequence
      for number in 0..<count {
        switch Int.random(in: 0..<10, using: &random) {
        case 0...3:
          add("SET /n \(number)", "+{\"seq\":\(sequence)}")
          value = "\(number)"
          sequence += 1
        case 4...6: add("GET /n", "+\(value)")
        case 7: add("PING", "+\"PONG\"")
        case 8: add("AUTH \(token)", "+{\"administrator\":true}")
        default: add("SET /n", "-BAD_REQUEST usage: SET path json")
        }
      }
    }

    private mutating func add(_ line: String, _ reply: String) {
      lines.append(line)
      replies.append(reply)
    }

    var text: String { lines.joined(separator: "\n") + "\n" }
  }

  @Test(arguments: Depth.allCases, [1, 3, 1_024])
  func `a thousand requests in one write are carried out and answered in order`(
    _ depth: Depth, _ outstanding: Int
  ) async throws {
    try await withServer(depth) {
      $0.limits.outstandingRequestsMax = outstanding
    } _: { server in
      var random = SeededGenerator(printingSeedFor: "PipeliningTests")
      let token = server.administratorToken
      let script = Script(1_000, sequence: 1, token: token, &random)
      let client = try await server.connectAsAdministrator()
      async let replies = client.readLines(script.lines.count)
      try await client.send(script.text)
      #expect(try await replies == script.replies)
      try await client.expect("PING", "+\"PONG\"")
      #expect(server.parts.journal.batchMax <= outstanding)
    }
  }

  @Test(arguments: Depth.allCases, [-1, 0, 1])
  func `a line waits for the long line before it, wherever a read ends`(
    _ depth: Depth, _ offset: Int
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      // In process, reads end at multiples of 16 KiB.
      let line = "SET /a \""
      let count = 2 * 16_384 + offset - line.utf8.count - 2
      let long = line + String(repeating: "x", count: count) + "\"\n"
      async let replies = client.readLines(4)
      try await client.send(long + "SET /a 1\n" + long + "SET /a 2\n")
      #expect(try await replies == (1...4).map { "+{\"seq\":\($0)}" })
      try await client.expect("GET /a", "+2")
    }
  }

  @Test(arguments: Depth.allCases)
  func `lines may arrive in pieces of any size`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      var random = SeededGenerator(printingSeedFor: "PipeliningTests.pieces")
      let token = server.administratorToken
      let script = Script(150, sequence: 1, token: token, &random)
      let client = try await server.connectAsAdministrator()
      async let replies = client.readLines(script.lines.count)
      var rest = Array(script.text.replacing("\n", with: "\r\n\n").utf8)[...]
      while !rest.isEmpty {
        let piece = rest.prefix(Int.random(in: 1...40, using: &random))
        rest = rest.dropFirst(piece.count)
        try await client.send(Array(piece))
      }
      #expect(try await replies == script.replies)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the requests after a login are those of its user`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      try await client.send(
        """
        POST a b
        \(TestServer.signUp("ada"))
        POST a b
        WHOAMI
        LOGOUT
        POST a b
        LOGIN ada@example.org "secret words of ada"
        POSTS me
        LOGIN ada@example.org "wrong words"
        PROFILE me

        """)
      let replies = try await client.readLines(10)
      let starts = [
        "-UNAUTHENTICATED", "+{\"uid\":", "+{\"id\":", "+{\"uid\":", "+null", "-UNAUTHENTICATED",
        "+{\"uid\":", "+[{\"id\":", "-UNAUTHENTICATED", "+{\"uid\":",
      ]
      for (reply, start) in zip(replies, starts) { #expect(reply.hasPrefix(start)) }
    }
  }

  @Test(arguments: Depth.allCases)
  func `too many outstanding requests are not read until others are answered`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.outstandingRequestsMax = 8
    } _: { server in
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      let text = (0..<500).map { "SET /n \($0)\nGET /n\n" }.joined()
      async let sent: Void = client.send(text)
      await server.parts.journal.gate.reached()
      let other = try await server.connect()
      try await other.expect("PING", "+\"PONG\"")
      #expect(client.mailbox.count == 0)
      server.parts.journal.gate.open()
      try await sent
      for number in 0..<500 {
        try await client.expectNext(to: "SET /n \(number)", hasPrefix: "+{\"seq\":")
        try await client.expectNext(to: "GET /n", "+\(number)")
      }
      #expect(server.parts.journal.batchMax <= 8)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that ends its sending side gets every reply, and then the connection closes`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.outstandingRequestsMax = 16
    } _: { server in
      var random = SeededGenerator(printingSeedFor: "PipeliningTests.half")
      let token = server.administratorToken
      let script = Script(300, sequence: 1, token: token, &random)
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      async let sent: Void = client.send(script.text + "SET /unfinished 1")
      await server.parts.journal.gate.reached()
      server.parts.journal.gate.open()
      try await sent
      try await client.shutDownSending()
      #expect(try await client.readToEnd() == script.replies)
      #expect(
        server.root.at(try Path("/unfinished")).isAbsent, "a line without an end is not a request")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that ends its sending side while a request is under way gets its reply`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      server.parts.hash.hold()
      try await client.send(TestServer.signUp("ada") + "\nPOST a b\nWHOAMI\n")
      try await server.eventually { server.parts.hash.running == 1 }
      try await client.shutDownSending()
      server.parts.hash.release()
      let replies = try await client.readToEnd()
      #expect(replies.count == 3)
      #expect(replies.last?.contains("\"username\":\"ada\"") == true)
      try await server.eventually { server.parts.operations.sessions.count == 0 }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the connection closes when a client ends without a request`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      try await client.shutDownSending()
      try await client.expectClosed()
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests after QUIT are not carried out`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let rest = (0..<2_000).map { "SET /after \($0)\n" }.joined()
      // The server does not take all of it.
      let sent = Task { try await client.send("SET /before 1\nPING\nQUIT\n" + rest) }
      #expect(try await client.readToEnd() == ["+{\"seq\":1}", "+\"PONG\"", "+\"BYE\""])
      _ = await sent.result
      #expect(server.parts.journal.count == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a slow client whose input was not all read gets the last replies`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.receiveBytes = 8_192
    } _: { server in
      let ada = try await server.connect(as: "ada")
      let id = try await ada.text("id", "POST title \(String(repeating: "x", count: 10_000))")
      let client = try await server.connect()
      if depth == .socket { try await client.pauseReading() }
      let shows = String(repeating: "SHOW \(id)\n", count: 60)
      let rest = String(repeating: "PING\n", count: 1_000_000)
      let sent = Task { try await client.send(shows + "QUIT\n" + rest) }
      // When other clients have their replies, the server has closed its sending side or is about to.
      for _ in 0..<100 { try await ada.expect("PING", "+\"PONG\"") }
      if depth == .socket { try await client.resumeReading() }
      let replies = try await client.readToEnd()
      #expect(replies.count == 61)
      #expect(replies.last == "+\"BYE\"")
      _ = await sent.result
    }
  }

  @Test(arguments: Depth.allCases)
  func `each of many connections gets its replies in order`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let token = server.administratorToken
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<16 {
          group.addTask {
            let client = try await server.connect()
            try await client.value("AUTH \(token)")
            var text = ""
            for count in 0..<60 { text += "SET /c\(number) \(count)\nGET /c\(number)\n" }
            try await client.send(text)
            for count in 0..<60 {
              let request = "SET /c\(number) \(count)"
              try await client.expectNext(to: request, hasPrefix: "+{\"seq\":")
              try await client.expectNext(to: "GET /c\(number)", "+\(count)")
            }
          }
        }
        try await group.waitForAll()
      }
      #expect(server.parts.journal.count == 16 * 60)
    }
  }

  @Test func `requests that arrive together are answered in one write`() async throws {
    try await withServer(.inProcess) { server in
      let client = try #require(try await server.connectAsAdministrator() as? ChannelClient)
      try await client.expect("SET /n 1", hasPrefix: "+{\"seq\"")
      let before = try await client.sendings()
      let asked = Array(repeating: "PING\nGET /n\nWHOAMI\n", count: 100).joined()
      async let replies = client.readLines(300)
      try await client.send(asked)
      #expect(try await replies.count == 300)
      #expect(try await client.sendings() - before == 1)
    }
  }
}
