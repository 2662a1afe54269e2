import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// Subscriptions whose values are too large for a line, and commits outside of their values.
@Suite(.timeLimit(.minutes(20))) struct LargeValueTests {
  private static func children(_ range: Range<Int>, _ value: Int = 1) -> String {
    let members = range.map { i -> String in
      let digits = String(i)
      return "\"k" + String(repeating: "0", count: 5 - digits.count) + digits + "\":\(value)"
    }
    return "{" + members.joined(separator: ",") + "}"
  }

  @Test(arguments: Depth.allCases)
  func
    `a subscription to a too large value is refused, with since too, and cancelled when the value grows`(
      _ depth: Depth
    ) async throws
  {
    try await withServer(depth, { $0.limits.replyBytesMax = 20_000 }) { server async throws in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /a \(Self.children(0..<3_000))")
      for query in ["", ",\"orderBy\":\"$key\",\"limitToLast\":2900"] {
        for since in ["", ",\"since\":1"] {
          let line = "LISTEN /a {\"events\":\"value\"\(query)\(since)}"
          try await client.expect(line, failsWith: "TOO_LARGE")
        }
      }
      #expect(server.parts.engine.listenerCounts.listeners == 0)
      try await client.value("SET /a \(Self.children(0..<500))")
      let shown = try await client.begin(
        "LISTEN /a {\"events\":\"value\",\"since\":2,\"orderBy\":\"$key\",\"limitToLast\":5000}")
      #expect(shown.events.isEmpty)
      var (events, _) = try await client.events(until: "SET /a/k00000 2")
      #expect(events.map(\.brief) == ["value"])
      (events, _) = try await client.events(until: "UPDATE /a \(Self.children(500..<3_000))")
      #expect(events.map(\.brief) == ["cancel TOO_LARGE"])
      (events, _) = try await client.events(until: "SET /a/k00000 3")
      #expect(events.isEmpty)
      #expect(server.parts.engine.listenerCounts.listeners == 0)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a large commit outside of the value sends no event`(_ depth: Depth) async throws {
    try await withServer(depth, { $0.engine.notifyingCostMax = 500 }) { server async throws in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /a \(Self.children(0..<500))")
      for form in ["child", "value", "sync"] {
        _ = try await client.begin(
          "LISTEN /a {\"events\":\"\(form)\",\"orderBy\":\"$key\",\"limitToFirst\":2}")
      }
      var (events, _) = try await client.events(
        until: "UPDATE /a \(Self.children(2..<1_000, 2))")
      #expect(events.isEmpty)
      (events, _) = try await client.events(until: "SET /a/k00001 5")
      #expect(events.map(\.brief) == ["changed k00001 after k00000", "value", "put /k00001"])
      #expect(events[1].data == (try JSONValue(json: "{\"k00000\":1,\"k00001\":5}")))
      (events, _) = try await client.events(until: "SET /a null")
      #expect(
        events.map(\.brief) == ["removed k00000", "removed k00001", "value", "patch /"])
      #expect(events[2].data == .null)
    }
  }
}
