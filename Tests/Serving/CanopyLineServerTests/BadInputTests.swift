import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// Invalid input: the client gets a clear error, nothing changes, and the connection goes on.
@Suite(.timeLimit(.minutes(20))) struct BadInputTests {
  private static let deep = String(repeating: "/a", count: 32)

  @Test(arguments: Depth.allCases)
  func `an invalid request is refused with a code and changes nothing`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.stringBytesMax = 1_000
    } _: { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /a {\"b\":1}")
      let before = server.root
      let nested = String(repeating: "{\"a\":", count: 33) + "1" + String(repeating: "}", count: 33)
      let cases: [(String, String)] = [
        ("HELO", "UNKNOWN_VERB"), ("  ", "UNKNOWN_VERB"), ("{\"a\":1}", "UNKNOWN_VERB"),
        ("GET / HTTP", "BAD_REQUEST"), ("Accept: */*", "UNKNOWN_VERB"),
        ("SET /a", "BAD_REQUEST"), ("SET /a 1 2", "BAD_REQUEST"), ("PING 1", "BAD_REQUEST"),
        ("SET /a {\"b\":}", "INVALID_DATA"), ("SET /a tru", "INVALID_DATA"),
        ("SET /a hello", "INVALID_DATA"), ("SET /a 01", "INVALID_DATA"),
        ("SET /a 1e999", "INVALID_DATA"), ("SET /a NaN", "INVALID_DATA"),
        ("SET /a {\"b\":1,}", "INVALID_DATA"), ("SET /a \"\\ud800\"", "INVALID_DATA"),
        ("SET /a {\"x.y\":1}", "INVALID_DATA"), ("SET /a {\"\":1}", "INVALID_DATA"),
        ("SET /a {\".sv\":\"clock\"}", "INVALID_DATA"), ("SET /a#b 1", "INVALID_PATH"),
        ("GET /a/$b", "INVALID_PATH"), ("SET \(Self.deep)/a 1", "INVALID_PATH"),
        ("SET \(Self.deep) {\"x\":1}", "INVALID_DATA"), ("SET / \(nested)", "INVALID_DATA"),
        ("UPDATE \(Self.deep) {\"x\":1}", "INVALID_DATA"), ("PUSH \(Self.deep) 1", "INVALID_DATA"),
        ("SET /\(String(repeating: "k", count: 769)) 1", "INVALID_PATH"),
        ("SET /a \"\(String(repeating: "x", count: 1_001))\"", "TOO_LARGE"),
        ("UPDATE /a [1]", "INVALID_DATA"), ("UPDATE /a {\"b\":1,\"b/c\":2}", "INVALID_DATA"),
        ("GET /a {\"orderBy\":\"b\",\"limit\":1}", "BAD_REQUEST"),
        ("GET /a {\"limitToFirst\":-1}", "INVALID_QUERY"), ("SHOW a/b", "BAD_REQUEST"),
        ("SHOW nothing", "NOT_FOUND"), ("AUTH x", "UNAUTHENTICATED"),
        ("LOGIN nobody x", "INVALID_DATA"),
      ]
      for (line, code) in cases {
        try await client.expect(line, failsWith: code)
      }
      try await client.expect("SET /a {\"b\":}", failsWith: "INVALID_DATA", "(at byte 12)")
      #expect(server.root == before)
      #expect(server.parts.journal.count == 1)
      try await client.expect("WHOAMI", "+{\"administrator\":true}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `bytes that are not UTF-8 are refused, and the next line is read`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let lines: [[UInt8]] = [
        Array("SET /a \"".utf8) + [0xFF] + Array("\"".utf8),
        Array("SET /".utf8) + [0xC3, 0x28, 0x20, 0x31],
        [0xFF, 0xFE], [0], Array("PING".utf8) + [0], [0] + Array("PING".utf8),
        Array("SET /a \"".utf8) + [0] + Array("\"".utf8),
        Array("POST a ".utf8) + [0xED, 0xA0, 0x80],
        [0x16, 0x02, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03],
      ]
      for line in lines {
        try await client.send(line + [0x0A])
        try await client.expectNext(to: String(decoding: line, as: UTF8.self), hasPrefix: "-")
        try await client.expect("PING", "+\"PONG\"")
      }
      #expect(server.parts.journal.count == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `random bytes never break a connection`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      var random = SeededGenerator(printingSeedFor: "BadInputTests")
      let client = try await server.connectAsAdministrator()
      let watcher = try await server.connect()
      for _ in 0..<40 {
        var noise: [[UInt8]] = []
        for _ in 0..<20 {
          let line = random.bytes(Int.random(in: 1...80, using: &random))
          noise.append([0x21] + line.filter { $0 != 0x0A && $0 != 0x0D } + [0x0A])
        }
        try await client.send(Array(noise.joined()))
        for line in noise { try await client.expectNext(to: "\(line)", failsWith: "UNKNOWN_VERB") }
      }
      try await watcher.expect("PING", "+\"PONG\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a line as long as the bound is accepted; a longer one is refused and the connection closes`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.lineBytesMax = 1_000
    } _: { server in
      let client = try await server.connectAsAdministrator()
      let longest = "SET /a \"\(String(repeating: "x", count: 991))\""
      #expect(longest.utf8.count == 1_000)
      try await client.expect(longest, hasPrefix: "+{\"seq\":")
      try await client.expect(longest + "\r", hasPrefix: "+{\"seq\":")
      let count = server.parts.journal.count
      try await client.send("PING\nSET /b 1\n" + longest + " \nSET /c 1\n")
      let replies = try await client.readToEnd()
      try #require(replies.count == 3, "\(replies)")
      expectReply(replies[0], to: "PING", "+\"PONG\"")
      expectReply(replies[1], to: "SET /b 1", hasPrefix: "+{\"seq\":")
      expectReply(
        replies[2], to: longest + " ",
        "-TOO_LARGE a line may have at most 1000 bytes; the connection closes")
      #expect(server.parts.journal.count == count + 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a line without an end is refused while more of it arrives`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.lineBytesMax = 100_000
    } _: { server in
      let client = try await server.connect()
      let flood = Task {
        let piece = [UInt8](repeating: 0x78, count: 65_536)
        // Ends with an error when the server has closed.
        for _ in 0..<400 { try await client.send(piece) }
      }
      let replies = try await client.readToEnd()
      try #require(replies.count == 1, "\(replies)")
      expectReply(replies[0], to: "a line without an end", failsWith: "TOO_LARGE")
      _ = await flood.result
      let other = try await server.connect()
      try await other.expect("PING", "+\"PONG\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the first half of a line waits for the second half`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect()
      try await client.send("PI")
      let other = try await server.connect()
      for _ in 0..<50 { try await other.expect("PING", "+\"PONG\"") }
      #expect(client.mailbox.count == 0)
      try await client.send("NG")
      for _ in 0..<50 { try await other.expect("PING", "+\"PONG\"") }
      #expect(client.mailbox.count == 0)
      try await client.send("\n")
      try await client.expectNext(to: "PING", "+\"PONG\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests about a removed post or another user's comment change nothing`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      let (ada, eve) = (try await server.connect(as: "ada"), try await server.connect(as: "eve"))
      let post = try await ada.text("id", "POST title body")
      let comment = try await ada.text("id", "COMMENT \(post) text")
      let gone = try await ada.text("id", "POST title body")
      try await ada.value("DELETE \(gone)")
      let before = server.root
      try await eve.expect("UNCOMMENT \(post) \(comment)", failsWith: "PERMISSION_DENIED")
      try await eve.expect("UNCOMMENT \(gone) \(comment)", failsWith: "NOT_FOUND")
      try await eve.expect("STAR \(gone)", failsWith: "NOT_FOUND")
      try await eve.expect("COMMENT \(gone) text", failsWith: "NOT_FOUND")
      try await ada.expect("EDIT \(gone) a b", failsWith: "NOT_FOUND")
      #expect(server.root == before)
    }
  }

  @Test(arguments: Depth.allCases)
  func `while the journal fails, writes are refused and reads go on; then writes work again`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let administrator = try await server.connectAsAdministrator()
      let post = try await ada.text("id", "POST title body")
      let before = server.root
      server.parts.journal.fail(true)
      for line in [
        "POST a b", "STAR \(post)", "EDIT \(post) a b", "RENAME other", "DELETE \(post)",
      ] {
        try await ada.expect(line, failsWith: "UNAVAILABLE", "try again")
      }
      try await administrator.expect("SET /a 1", failsWith: "UNAVAILABLE")
      let visitor = try await server.connect()
      try await visitor.expect(TestServer.signUp("eve"), failsWith: "UNAVAILABLE")
      try await ada.expect("SHOW \(post)", contains: "\"title\":\"title\"")
      try await ada.expect("WHOAMI", contains: "\"username\":\"ada\"")
      try await ada.value("LOGIN ada@example.org \"secret words of ada\"")
      #expect(server.root == before)
      server.parts.journal.fail(false)
      try await ada.expect("STAR \(post)", "+{\"starred\":true,\"starCount\":1}")
      try await visitor.value(TestServer.signUp("eve"))
      #expect(server.parts.log.lines.contains { $0.hasPrefix("error the journal failed") })
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests are answered in order when the journal fails in the middle of them`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      server.parts.journal.fail(true)
      try await client.send("SET /a 1\nSET /b 2\nGET /a\nPING\n")
      await server.parts.journal.gate.reached()
      server.parts.journal.gate.open()
      let replies = try await client.readLines(4)
      expectReply(replies[0], to: "SET /a 1", failsWith: "UNAVAILABLE")
      expectReply(replies[1], to: "SET /b 2", failsWith: "UNAVAILABLE")
      #expect(replies.suffix(2) == ["+null", "+\"PONG\""])
      server.parts.journal.fail(false)
      try await client.expect("SET /a 1", "+{\"seq\":1}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `logins are refused while accounts cannot be read, and other requests go on`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let ada = try await server.connect(as: "ada")
      let visitor = try await server.connect()
      await server.parts.accountStore.fail(with: PlannedFailure())
      for line in ["LOGIN ada@example.org \"secret words of ada\"", TestServer.signUp("eve")] {
        try await visitor.expect(line, failsWith: "UNAVAILABLE")
      }
      try await visitor.expect(
        "AUTH \(String(repeating: "A", count: 43))", failsWith: "UNAVAILABLE")
      try await ada.expect("LOGOUT", failsWith: "UNAVAILABLE")
      try await ada.expect("WHOAMI", contains: "\"username\":\"ada\"")
      try await ada.value("POST title body")
      await server.parts.accountStore.fail(with: nil)
      try await ada.expect("LOGOUT", "+null")
    }
  }
}
