import CanopyEngine
import CanopyTesting
import CanopyTree
import Dispatch
import Testing

/// Replies to reads, and the events of the commits that they show.
@Suite(.timeLimit(.minutes(20))) struct ReadOrderTests {
  @Test(
    arguments: Depth.allCases,
    [
      ("GET /a", "null", "{\"x\":1}"), ("GET /a {\"orderBy\":\"$value\"}", "null", "{\"x\":1}"),
      ("COUNT /a", "0", "1"), ("COUNT /a {\"orderBy\":\"$value\"}", "0", "1"),
    ])
  func `a reply shows the state after the events before it`(
    _ depth: Depth, _ read: (request: String, before: String, after: String)
  ) async throws {
    try await withServer(depth) { server async throws in
      let (told, tell) = AsyncStream.makeStream(of: Void.self)
      let blocked = DispatchSemaphore(value: 0)
      // This listener is notified before the client. It blocks the engine after the commit is published.
      server.parts.engine.listen(Listening(try Path("a"))) { _ in
        tell.yield()
        blocked.wait()
      } started: { _, _ in
      }
      let client = try await server.connectAsAdministrator()
      let writer = try await server.connectAsAdministrator()
      let third = try await server.connectAsAdministrator()
      try await client.value("LISTEN /a")
      try await writer.send("SET /a/x 1\n")
      _ = await told.first { _ in true }
      #expect(server.root == Node(children: [("a", Node(children: [("x", 1)]))]))
      for reader in [client, third] {
        try await reader.expect(read.request, "+" + read.before)
      }
      // No event has come.
      try await client.expect("PING", "+\"PONG\"")
      blocked.signal()
      // The writer gets its reply when all listeners have been notified.
      try await writer.expectNext(to: "SET /a/x 1", hasPrefix: "+{\"seq\":")
      try await third.expect(read.request, "+" + read.after)
      try await client.send(read.request + "\n")
      #expect(try await client.readLine().hasPrefix(">"))
      try await client.expectNext(to: read.request, "+" + read.after)
    }
  }
}
