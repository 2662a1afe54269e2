import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine
@testable import CanopyEvents
@testable import CanopyLineServer

/// Rules that take many steps to allow a listener, because they look at a long text that a client has written.
@Suite(.timeLimit(.minutes(20))) struct LongVerdictTests {
  private static let rules = """
    {"rules":{
      "names":{"$uid":{".read":true,".write":"auth.uid === $uid"}},
      "rooms":{"$room":{".write":"auth != null",
        ".read":"root.child('names').child(auth.uid).val().matches(/^[a-c]+$/)"}}}}
    """
  private static let count = 8

  private func begin(_ client: any LineClient) async throws -> [Int64] {
    var numbers: [Int64] = []
    for limit in 1...Self.count {
      numbers.append(try await client.begin("LISTEN /rooms/r {\"limitToLast\":\(limit)}").sub)
    }
    return numbers
  }

  @Test(arguments: Depth.allCases)
  func `listeners with a long text get each event once and in order, until a commit forbids it`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let writer = try await server.connectAsAdministrator()
      let (long, short) = (try await server.connect(), try await server.connect())
      let slow = try await long.text("uid", TestServer.signUp("mallory"))
      let quick = try await short.text("uid", TestServer.signUp("ada"))
      let text = String(repeating: "ab", count: 20_000)
      try await writer.expectSuccess(of: "SET /names/\(slow) \"\(text)\"")
      try await writer.expectSuccess(of: "SET /names/\(quick) \"abc\"")
      let ofLong = try await begin(long)
      let ofShort = try await begin(short)
      let commits = 20
      for number in 0..<commits {
        // Each commit concerns the verdicts, and has an event for all listeners.
        try await writer.expectSuccess(
          of: "UPDATE / {\"names/\(slow)/.priority\":\(number),\"rooms/r/z\":\(number)}")
      }
      func check(_ client: any LineClient, _ subscriptions: [Int64]) async throws {
        let events = try await client.events(until: "PING").events
        #expect(Set(events.map(\.sub)) == Set(subscriptions))
        for number in subscriptions {
          let own = events.filter { $0.sub == number }.map(\.brief)
          #expect(own.first == "added z")
          #expect(own.dropFirst().allSatisfy { $0 == "changed z" })
          #expect(own.count <= commits)
        }
      }
      try await check(short, ofShort)
      try await check(long, ofLong)
      if depth == .inProcess {
        // The connection with the long text has left the hub that most connections share.
        #expect(server.parts.engine.listeners.groups.count == 2)
      }
      try await writer.expectSuccess(of: "UPDATE / {\"names/\(slow)\":\"x\",\"rooms/r/zz\":1}")
      let last = try await long.events(until: "PING").events
      #expect(last.map(\.brief) == Array(repeating: "cancel PERMISSION_DENIED", count: Self.count))
      #expect(Set(last.map(\.sub)) == Set(ofLong))
      let others = try await short.events(until: "PING").events
      #expect(others.count { $0.brief.hasPrefix("added zz") } == Self.count)
      #expect(server.parts.engine.listenerCounts.listeners == Self.count)
    }
  }

  @Test(arguments: Depth.allCases)
  func `listeners with a long text and without events are cancelled as well`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(rules: Self.rules)
      let writer = try await server.connectAsAdministrator()
      let long = try await server.connect()
      let uid = try await long.text("uid", TestServer.signUp("mallory"))
      let text = String(repeating: "ab", count: 20_000)
      try await writer.expectSuccess(of: "SET /names/\(uid) \"\(text)\"")
      let numbers = try await begin(long)
      try await writer.expectSuccess(of: "SET /names/\(uid) \"\(text)x\"")
      var cancelled: Set<Int64> = []
      for _ in numbers {
        let event = try await long.event()
        #expect(event.brief == "cancel PERMISSION_DENIED")
        cancelled.insert(event.sub)
      }
      #expect(cancelled == Set(numbers))
      #expect(server.parts.engine.listenerCounts.listeners == 0)
    }
  }
}
