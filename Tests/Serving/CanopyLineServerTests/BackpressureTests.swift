import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// Clients that do not read their replies.
@Suite(.timeLimit(.minutes(20))) struct BackpressureTests {
  private static let body = String(repeating: "x", count: 10_000)
  private static let unread = 65_536

  private func withPost(
    _ depth: Depth, _ body: (TestServer, String) async throws -> Void
  ) async throws {
    try await withServer(depth) {
      $0.limits.unreadReplyBytesMax = Self.unread
      $0.receiveBytes = 16_384
    } _: { server in
      let ada = try await server.connect(as: "ada")
      try await body(server, try await ada.text("id", "POST title \(Self.body)"))
    }
  }

  @Test(arguments: Depth.allCases)
  func `all requests are answered, even if few bytes may be left unread`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) {
      $0.limits.unreadReplyBytesMax = 20
    } _: { server in
      let client = try await server.connect()
      async let replies = client.readLines(200)
      try await client.send(String(repeating: "PING\nWHOAMI\n", count: 100))
      #expect(
        try await replies == Array(repeating: ["+\"PONG\"", "+null"], count: 100).flatMap { $0 })
    }
  }

  @Test func `small events that a client does not read share buffers`() async throws {
    try await withServer(.inProcess) {
      $0.limits.unreadReplyBytesMax = 10_000
    } _: { server in
      let client = try await server.connectAsAdministrator()
      try await client.expectSuccess(of: "LISTEN /n")
      try await client.pauseReading()
      let writer = try await server.connectAsAdministrator()
      let count = 1_000
      for number in 0..<count { try await writer.value("SET /n/\(number) 1") }
      try await client.resumeReading()
      for number in 0..<count {
        #expect(try await client.readLine().contains("\"key\":\"\(number)\""))
      }
      if let client = client as? ChannelClient { #expect(try await client.buffersPeak() < 300) }
    }
  }

  private func expectBounded(_ client: any LineClient) async throws {
    guard let client = client as? ChannelClient else { return }
    let peaks = try await client.peaks()
    #expect(peaks.write <= Self.unread + 11_000)
    #expect(peaks.held <= 2 * Self.unread + 22_000)
  }

  @Test(arguments: Depth.allCases)
  func `the server stops reading from a client that never reads, and serves others`(
    _ depth: Depth
  ) async throws {
    try await withPost(depth) { server, id in
      let client = try await server.connect()
      try await client.pauseReading()
      let count = 1_000
      let sent = Task {
        for _ in 0..<count { try await client.send("SHOW \(id)\n") }
      }
      let other = try await server.connect()
      for _ in 0..<200 {
        try await other.expect("PING", "+\"PONG\"")
      }
      try await client.resumeReading()
      for _ in 0..<count {
        try await client.expectNext(to: "SHOW \(id)", hasPrefix: "+{\"id\":")
      }
      try await sent.value
      try await client.expect("PING", "+\"PONG\"")
      try await expectBounded(client)
    }
  }

  @Test(arguments: Depth.allCases)
  func `replies that waited for a slow request are sent in bounded pieces`(
    _ depth: Depth
  ) async throws {
    try await withPost(depth) { server, id in
      let client = try await server.connect()
      server.parts.hash.hold()
      let shows = String(repeating: "SHOW \(id)\n", count: 1_000)
      async let sent: Void = client.send(TestServer.signUp("eve") + "\n" + shows)
      try await server.eventually { server.parts.hash.running == 1 }
      try await client.pauseReading()
      server.parts.hash.release()
      let other = try await server.connect()
      for _ in 0..<50 { try await other.expect("PING", "+\"PONG\"") }
      try await client.resumeReading()
      try await client.expectNext(to: TestServer.signUp("eve"), hasPrefix: "+{\"uid\":")
      for _ in 0..<1_000 {
        try await client.expectNext(to: "SHOW \(id)", hasPrefix: "+{\"id\":")
      }
      try await sent
      try await expectBounded(client)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the server releases everything of a client that never reads and disconnects`(_ depth: Depth)
    async throws
  {
    try await withPost(depth) { server, id in
      let client = try await server.connect(as: "eve")
      #expect(server.parts.operations.sessions.count == 2)
      try await client.pauseReading()
      let sent = Task {
        for _ in 0..<1_000 { try await client.send("SHOW \(id)\n") }
      }
      let other = try await server.connect()
      for _ in 0..<50 { try await other.expect("PING", "+\"PONG\"") }
      await client.disconnect()
      _ = await sent.result
      try await server.eventually { server.parts.operations.sessions.count == 1 }
      try await other.expect("PING", "+\"PONG\"")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that ends its sending side and reads late gets every reply`(
    _ depth: Depth
  ) async throws {
    try await withPost(depth) { server, id in
      let client = try await server.connect()
      try await client.pauseReading()
      let text = String(repeating: "SHOW \(id)\n", count: 500)
      async let sent: Void = client.send(text)
      let other = try await server.connect()
      for _ in 0..<20 { try await other.expect("PING", "+\"PONG\"") }
      if depth == .socket {
        // The kernel accepts all of it.
        try await sent
        try await client.shutDownSending()
      }
      try await client.resumeReading()
      if depth == .inProcess {
        try await sent
        try await client.shutDownSending()
      }
      let replies = try await client.readToEnd()
      #expect(replies.count == 500)
      for reply in replies { expectReply(reply, to: "SHOW \(id)", hasPrefix: "+{\"id\":") }
    }
  }
}
