import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer
@testable import CanopySession

/// Subscriptions to large values, whose states take long to find, beside other subscriptions on the same event loop.
@Suite(.timeLimit(.minutes(20))) struct LargeValueHubTests {
  @Test(arguments: Depth.allCases, [false, true])
  func `other connections get events and replies while the events of a large value are computed`(
    _ depth: Depth, _ growsLater: Bool
  ) async throws {
    try await withServer(depth) { server async throws in
      let long = String(repeating: "x", count: 4 * Limits().wholeReplyBytesMax)
      let writer = try await server.connectAsAdministrator()
      let large = "SET /a {\"k1\":1,\"k2\":\"\(long)\"}"
      try await writer.value(growsLater ? "SET /a {\"k1\":1}" : large)
      try await writer.value("SET /b 1")
      let reader = try await server.connectAsAdministrator()
      let other = try await server.connectAsAdministrator()
      for client in [reader, other] {
        try await client.value("LISTEN /b {\"events\":\"value\"}")
        _ = try await client.readLine()
      }
      try await reader.value(
        "LISTEN /a {\"events\":\"value\",\"orderBy\":\"$key\",\"limitToLast\":5}")
      _ = try await reader.readLine()
      if growsLater {
        // The connection moves with the first large event.
        try await writer.value(large)
        #expect(try await reader.readLine().contains(long))
      }
      let computing = server.parts.operations.eventWork
      let gate = Gate()
      async let held: Void = computing.withTurn(of: nil) { await gate.pass() }
      await gate.reached()
      try await writer.value("SET /a/k1 12345")
      try await writer.value("SET /b 67890")
      try await server.eventually { computing.waiting == 1 }
      try await reader.send("PING\n")
      #expect(try await other.readLine().contains("67890"))
      try await other.expect("PING", "+\"PONG\"")
      #expect(computing.waiting == 1)
      gate.open()
      try await held
      // The connection itself gets everything in order.
      #expect(try await reader.readLine().contains("12345"))
      #expect(try await reader.readLine().contains("67890"))
      try await reader.expectNext(to: "PING", "+\"PONG\"")
    }
  }
}
