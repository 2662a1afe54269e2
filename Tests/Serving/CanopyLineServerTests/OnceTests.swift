import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Writes that a client may send again because it did not get the reply.
@Suite(.timeLimit(.minutes(20))) struct OnceTests {
  @Test(arguments: Depth.allCases)
  func `a write that is sent again is made once and gets the same reply`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server async throws in
      let lines = [
        "ONCE k 1 0 SET /a {\".sv\":{\"increment\":1}}",
        "once k 2 0 update /b {\"x\":{\".sv\":{\"increment\":2}},\"y\":1}",
        "ONCE k 3 0 CAS /c null_etag {\".sv\":{\"increment\":3}}",
        "ONCE k 4 0 REMOVE /b/y",
      ]
      let first = try await server.connectAsAdministrator()
      var replies: [String] = []
      for line in lines { replies.append(try await first.request(line)) }
      await first.disconnect()
      let second = try await server.connectAsAdministrator()
      let before = server.root
      // All at once and in any order, as after a disconnection.
      try await second.send(lines.reversed().joined(separator: "\n") + "\n")
      #expect(try await second.readLines(4) == replies.reversed())
      #expect(server.root == before)
      try await second.expect("GET /", "+{\"a\":1,\"b\":{\"x\":2},\"c\":3}")
      #expect(
        replies[2]
          == replies[0].replacing("{", with: "{\"committed\":true,").replacing("1}", with: "3}")
      )
    }
  }

  @Test(arguments: Depth.allCases)
  func `another number or another client is another write`(_ depth: Depth) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      for origin in ["k 1 0", "k 2 0", "l 1 0", "k 1 0", "l 2 1"] {
        try await client.value("ONCE \(origin) SET /n {\".sv\":{\"increment\":1}}")
      }
      try await client.expect("GET /n", "+4")
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `a write does not overtake an earlier one of its client that the journal has failed to store`(
      _ depth: Depth
    ) async throws
  {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      let journal = server.parts.journal
      let gate = Gate()
      journal.plan(.delay(gate), .failBefore)
      try await client.send("ONCE k 1 0 SET /n 1\n")
      await gate.reached()
      // They wait in the engine's queue while the journal fails.
      try await client.send(
        "ONCE k 2 0 SET /n 2\nONCE k 3 0 CAS /m null_etag 1\nONCE l 1 0 SET /l 1\n")
      try await client.send("SET /o 1\n")
      gate.open()
      for request in ["1 0 SET /n 1", "2 0 SET /n 2", "3 0 CAS /m null_etag 1"] {
        try await client.expectNext(to: "ONCE k \(request)", failsWith: "UNAVAILABLE")
      }
      // Writes of other clients, and writes without a number, are made.
      for other in ["ONCE l 1 0 SET /l 1", "SET /o 1"] {
        try await client.expectNext(to: other, hasPrefix: "+{\"seq\":")
      }
      #expect(server.root.child("n").isAbsent)
      // They come again together, and perhaps in one batch.
      let lines = ["1 0 SET /n 1", "2 0 SET /n 2", "3 0 CAS /m null_etag 1"]
      try await client.send(lines.map { "ONCE k \($0)\n" }.joined())
      for line in lines { try await client.expectNext(to: "ONCE k \(line)", hasPrefix: "+{") }
      try await client.expect("GET /", "+{\"l\":1,\"m\":1,\"n\":2,\"o\":1}")
      // A client that has seen the failure, and gives the write up, goes on.
      journal.plan(.failBefore)
      try await client.expect("ONCE k 4 3 SET /n 4", failsWith: "UNAVAILABLE")
      try await client.value("ONCE k 5 4 SET /n 5")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that was refused is tried again`(_ depth: Depth) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      let tag = try await client.text("etag", "GET /n {\"etag\":true}")
      try await client.value("SET /n 5")
      let refused = try await client.value("ONCE k 1 0 CAS /n \(tag) 1")
      #expect(refused["committed"] == .leaf(false))
      try await client.value("REMOVE /n")
      try await client.expect("ONCE k 1 0 CAS /n \(tag) 1", contains: "\"committed\":true")
      server.parts.journal.plan(.failBefore)
      try await client.expect("ONCE k 2 0 SET /m 1", failsWith: "UNAVAILABLE")
      try await client.value("ONCE k 2 0 SET /m 1")
      try await client.expect("GET /m", "+1")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that the failing journal has stored is not made again`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      let line = "ONCE k 1 0 SET /n {\".sv\":{\"increment\":1}}"
      server.parts.journal.plan(.failAfter)
      let answer = try await client.value(line)
      #expect(try await client.value(line) == answer)
      try await client.expect("GET /n", "+1")
    }
  }

  @Test(arguments: Depth.allCases)
  func `writes up to the seen number are refused, and the stored numbers of a client are bounded`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      let numbers = 1...Limits.clientWritesMax
      try await client.send(numbers.map { "ONCE k \($0) 0 SET /n \($0)\n" }.joined())
      for number in numbers {
        try await client.expectNext(to: "ONCE k \(number) 0 SET /n \(number)", hasPrefix: "+{")
      }
      let next = Limits.clientWritesMax + 1
      try await client.expect("ONCE k \(next) 0 SET /n 0", failsWith: "TOO_LARGE")
      try await client.value("ONCE k \(next) 2 SET /n 0")
      for seen in 1...2 {
        try await client.expect("ONCE k \(seen) 0 SET /n \"late\"", failsWith: "CONFLICT")
      }
      try await client.value("ONCE k 3 0 SET /n \"made before\"")
      try await client.expect("GET /n", "+0")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a repeated write that arrives after its reply was seen changes nothing`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server async throws in
      let slow = try await server.connectAsAdministrator()
      let client = try await server.connectAsAdministrator()
      let line = "ONCE dev1 1 0 SET /n {\".sv\":{\"increment\":1}}"
      // The first connection hashes a password, and the line waits behind it.
      server.parts.hash.hold()
      try await slow.send("LOGIN nobody@example.org correct-horse\n\(line)\n")
      try await client.value(line)
      try await client.value("ONCE dev1 2 1 SET /other 1")
      server.parts.hash.release()
      try await slow.expectNext(to: "LOGIN of nobody", failsWith: "UNAUTHENTICATED")
      try await slow.expectNext(
        to: line, hasPrefix: "-CONFLICT write 1 of this client was already answered")
      try await client.expect("GET /n", "+1")
      // A number is seen even if the write that reported it was refused.
      let stranger = try await server.connect()
      let secret = "dev2-drawn-at-random"
      try await stranger.expect("ONCE \(secret) 7 6 SET /n 5", failsWith: "PERMISSION_DENIED")
      try await client.expect("ONCE \(secret) 6 5 SET /n 5", failsWith: "CONFLICT")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a request other than a write and an invalid origin are refused`(_ depth: Depth) async throws
  {
    try await withServer(depth) { server async throws in
      let client = try await server.connectAsAdministrator()
      let name = String(repeating: "k", count: WriteOrigin.clientBytesMax)
      try await client.expect("ONCE \(name) 1 0 SET /a 1", hasPrefix: "+")
      for (line, code) in [
        ("ONCE k 1 0 GET /a", "BAD_REQUEST"), ("ONCE k 1 0 PUSH /a 1", "BAD_REQUEST"),
        ("ONCE k 1 0 ONCE k 1 0 SET /a 1", "BAD_REQUEST"), ("ONCE k 1 0 SET /a", "BAD_REQUEST"),
        ("ONCE k 1 0 REMOVE /a 1", "BAD_REQUEST"), ("ONCE k x 0 SET /a 2", "BAD_REQUEST"),
        ("ONCE k 1 1 SET /a 2", "INVALID_DATA"), ("ONCE k 0 0 SET /a 2", "INVALID_DATA"),
        ("ONCE k 1 -1 SET /a 2", "INVALID_DATA"), ("ONCE \(name)k 1 0 SET /a 2", "INVALID_DATA"),
        ("ONCE é 1 0 SET /a 2", "INVALID_DATA"), ("ONCE \"\" 1 0 SET /a 2", "INVALID_DATA"),
        ("ONCE k 99999999999999999999 0 SET /a 2", "BAD_REQUEST"),
      ] {
        try await client.expect(line, failsWith: code)
      }
      try await client.expect("GET /a", "+1")
      let stranger = try await server.connect()
      try await stranger.expect("ONCE s 1 0 SET /a 2", failsWith: "INVALID_DATA")
      let secret = String(repeating: "s", count: WriteOrigin.secretBytesMin)
      try await stranger.expect("ONCE \(secret) 1 0 SET /a 2", failsWith: "PERMISSION_DENIED")
    }
  }

  /// Rules under which every caller may write below `/open`.
  private static let openRules = """
    { "rules": { ".read": true, "open": { ".write": true } } }
    """

  @Test(arguments: Depth.allCases)
  func `a write of a client with a secret name is recognized after a login or logout`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server async throws in
      try await server.set(rules: Self.openRules)
      let secret = String(repeating: "s", count: WriteOrigin.secretBytesMin)
      let add = "SET /open/n {\".sv\":{\"increment\":1}}"
      let client = try await server.connect()
      let anonymous = try await client.request("ONCE \(secret) 1 0 \(add)")
      try await client.value(TestServer.signUp("ada"))
      try await client.expect("ONCE \(secret) 1 0 \(add)", anonymous)
      let own = try await client.request("ONCE \(secret) 2 0 \(add)")
      try await client.value("LOGOUT")
      try await client.expect("ONCE \(secret) 2 0 \(add)", own)
      try await client.value(TestServer.signUp("bob"))
      try await client.expect("ONCE \(secret) 2 0 \(add)", own)
      try await client.expect("ONCE \(secret) 3 2 SET /denied 1", failsWith: "PERMISSION_DENIED")
      try await client.expect("ONCE \(secret) 1 0 \(add)", failsWith: "CONFLICT")
      try await client.expect("GET /open/n", "+2")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a name that can be guessed belongs to the user who uses it`(_ depth: Depth) async throws {
    try await withServer(depth) { server async throws in
      try await server.set(rules: Self.openRules)
      let name = String(repeating: "g", count: WriteOrigin.secretBytesMin - 1)
      let mallory = try await server.connect(as: "mallory")
      let bob = try await server.connect(as: "bob")
      let nobody = try await server.connect()
      try await mallory.value("ONCE \(name) 1 0 SET /open/m 1")
      try await mallory.expect("ONCE \(name) 9 8 SET /denied 1", failsWith: "PERMISSION_DENIED")
      let first = try await bob.request("ONCE \(name) 1 0 SET /open/b {\".sv\":{\"increment\":1}}")
      try await bob.expect("ONCE \(name) 1 0 SET /open/b 5", first)
      try await nobody.expect("ONCE \(name) 9 0 SET /open/n 1", failsWith: "INVALID_DATA")
      try await bob.expect("GET /open", "+{\"b\":1,\"m\":1}")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a stranger who guesses a name cannot swallow the write of another client without a login`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server async throws in
      try await server.set(rules: Self.openRules)
      let stranger = try await server.connect()
      let client = try await server.connect()
      let before = server.parts.engine.snapshot.sequence
      for name in ["k", String(repeating: "k", count: WriteOrigin.secretBytesMin - 1)] {
        for connection in [stranger, client] {
          try await connection.expect(
            "ONCE \(name) 1 0 SET /open/n 1", contains: "-INVALID_DATA without a login")
        }
      }
      #expect(server.parts.engine.snapshot.sequence == before)
      let name = String(repeating: "k", count: WriteOrigin.secretBytesMin)
      try await client.expect("ONCE \(name) 1 0 SET /open/n 1", hasPrefix: "+")
      // A name that belongs to a user is no longer theirs after a logout: the write would be made again.
      let user = try await server.connect(as: "ada")
      try await user.value("ONCE k 1 0 SET /open/n 2")
      try await user.value("LOGOUT")
      try await user.expect("ONCE k 1 0 SET /open/n 3", failsWith: "INVALID_DATA")
      try await user.expect("GET /open/n", "+2")
    }
  }
}
