import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Resumptions of clients that disconnect.
@Suite(.timeLimit(.minutes(20))) struct ResumptionEndTests {
  @Test(arguments: Depth.allCases)
  func `the journal is not read further for a client that has disconnected`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server async throws in
      let writer = try await server.connectAsAdministrator()
      let large = String(repeating: "x", count: 900_000)
      for _ in 0..<6 { try await writer.value("SET /other \"\(large)\"") }
      try await writer.value("SET /a 1")
      let journal = server.parts.journal
      journal.historyGate.hold()
      let clients = try await withThrowingTaskGroup(of: (any LineClient).self) { group in
        for _ in 0..<5 { group.addTask { try await server.connectAsAdministrator() } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      for client in clients { try await client.send("LISTEN /a {\"since\":1}\n") }
      await journal.historyGate.reached()
      for client in clients { await client.disconnect() }
      try await server.eventually { server.parts.engine.listenerCounts.listeners == 0 }
      journal.historyGate.open()
      // Another resumption, whose turn follows.
      let (_, sequence, events) = try await writer.begin(
        "LISTEN /a {\"since\":6,\"events\":\"value\"}")
      #expect(sequence == 7)
      #expect(events.map(\.brief) == ["value"])
      // Each of the two clients has read one page at most, and the writer's two requests one each.
      #expect(journal.pagesRead <= Limits.resumptionsMax + 2)
      #expect(!server.parts.log.lines.contains { $0.contains("the journal cannot be read") })
    }
  }
}
