import CanopyEngine
import CanopyTesting
import CanopyTree
import Dispatch
import Testing

/// Replies to reads, and the events that led to what they show.
@Suite(.timeLimit(.minutes(5))) struct ReadOrderTests {
  @Test(
    arguments: Depth.allCases,
    [
      ("GET /a", "{\"x\":1}"), ("GET /a {\"orderBy\":\"$value\"}", "{\"x\":1}"),
      ("COUNT /a", "1"), ("COUNT /a {\"orderBy\":\"$value\"}", "1"),
    ])
  func `a reply comes after the events of the state that it shows`(
    _ depth: Depth, _ read: (request: String, answer: String)
  ) async throws {
    try await withServer(depth) { server async throws in
      let (told, tell) = AsyncStream.makeStream(of: Void.self)
      let blocked = DispatchSemaphore(value: 0)
      // Told before the client is, it holds the engine when the commit is published already.
      server.parts.engine.listen(Listening(try Path("a"))) { _ in
        tell.yield()
        blocked.wait()
      } started: { _, _ in
      }
      let client = try await server.connectAsAdministrator()
      let writer = try await server.connectAsAdministrator()
      let third = try await server.connect()
      try await client.value("LISTEN /a")
      try await writer.send("SET /a/x 1\n")
      _ = await told.first { _ in true }
      #expect(server.root == Node(children: [("a", Node(children: [("x", 1)]))]))
      try await client.send(read.request + "\n")
      // Time for a reply that does not wait.
      for _ in 0..<20 { #expect(try await third.request("PING") == "+\"PONG\"") }
      blocked.signal()
      #expect(try await client.readLine().hasPrefix(">"))
      #expect(try await client.readLine() == "+" + read.answer)
    }
  }
}
