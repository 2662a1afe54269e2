import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine
@testable import CanopyLineServer

/// Commits that concern the verdicts about very many listeners.
@Suite(.timeLimit(.minutes(20))) struct ManyVerdictsTests {
  /// Each limit has a verdict of its own.
  private let limits = 1...3 * Engine.authorizedAtOnceMax
  /// The limit up to which anybody may listen.
  private let openMax = Engine.authorizedAtOnceMax * 3 / 2
  private var rules: String {
    let read = "root.child('open').val() === true || query.limitToLast <= \(openMax)"
    return """
      {"rules":{"a":{".read":"\(read)",".write":true},"b":{".read":"\(read)",".write":true},
       "open":{".write":true}}}
      """
  }

  /// Subscribes to a location once for each limit. Returns the limits by the number of the subscription.
  private func begin(_ client: any LineClient, _ path: String) async throws -> [Int64: Int] {
    var limits: [Int64: Int] = [:]
    for limit in self.limits {
      limits[try await client.begin("LISTEN \(path) {\"limitToLast\":\(limit)}").sub] = limit
    }
    return limits
  }

  @Test(arguments: Depth.allCases)
  func `no listener gets an event that its own commit forbids, and the others get it`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: rules)
      let writer = try await server.connect()
      try await writer.expectSuccess(of: "SET /open true")
      let reader = try await server.connect()
      let limits = try await begin(reader, "/a")
      try await writer.expectSuccess(of: "UPDATE / {\"open\":false,\"a/x\":1}")
      let events = try await reader.events(until: "PING").events
      #expect(events.count == limits.count)
      for event in events {
        let limit = try #require(limits[event.sub])
        #expect(
          event.brief == (limit <= openMax ? "added x" : "cancel PERMISSION_DENIED"), "\(limit)")
      }
      #expect(Set(events.map(\.sub)).count == limits.count)
      try await writer.expectSuccess(of: "SET /a/y 2")
      let later = try await reader.events(until: "PING").events
      #expect(later.count { $0.brief.hasPrefix("added y") } == openMax)
      #expect(later.allSatisfy { limits[$0.sub] ?? .max <= openMax })
    }
  }

  @Test(arguments: Depth.allCases)
  func `listeners without events are cancelled as well, in later turns`(_ depth: Depth) async throws
  {
    try await withServer(depth) { server in
      try await server.set(rules: rules)
      let writer = try await server.connect()
      try await writer.expectSuccess(of: "SET /open true")
      let reader = try await server.connect()
      let limits = try await begin(reader, "/b")
      try await writer.expectSuccess(of: "SET /open false")
      var cancelled: Set<Int> = []
      for _ in limits where cancelled.count < limits.count - openMax {
        let event = try await reader.event()
        #expect(event.brief == "cancel PERMISSION_DENIED")
        cancelled.insert(try #require(limits[event.sub]))
      }
      #expect(cancelled == Set(self.limits.dropFirst(openMax)))
      #expect(try await reader.arrived().isEmpty)
      #expect(server.parts.engine.listenerCounts.listeners == openMax)
    }
  }
}
