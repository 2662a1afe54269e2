import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

/// Subscribers that do not read their events.
@Suite(.timeLimit(.minutes(20))) struct OverloadTests {
  private static let bound = 200_000
  private static let text = String(repeating: "x", count: 9_000)

  private func withWriter(
    _ depth: Depth, _ body: (TestServer, any LineClient) async throws -> Void
  ) async throws {
    try await withServer(depth) {
      $0.limits.queuedBytesMax = Self.bound
      $0.receiveBytes = 16_384
    } _: { server in
      try await body(server, try await server.connectAsAdministrator())
    }
  }

  @Test(arguments: Depth.allCases)
  func `a subscriber that does not read gets an error and is disconnected; others get every event`(
    _ depth: Depth
  ) async throws {
    try await withWriter(depth) { server, writer in
      let slow = try await server.connectAsAdministrator()
      _ = try await slow.begin("LISTEN /n {\"events\":\"value\"}")
      try await slow.value("ONDISCONNECT SET /slow \"gone\"")
      let fast = try await server.connectAsAdministrator()
      _ = try await fast.begin("LISTEN /n {\"events\":\"value\"}")
      try await slow.pauseReading()
      var rounds = 0
      // The kernel accepts some megabytes before the server must keep anything.
      while server.parts.engine.listenerCounts.listeners == 2, rounds < 10_000 {
        rounds += 1
        server.parts.clock.advance(Session.idleMillisecondsMax / 10)
        try await writer.value("SET /n \"\(rounds)\(Self.text)\"")
        // Compares the value: the write of the disconnected client is a commit as well.
        #expect(try await fast.event().data == .leaf(Node("\(rounds)\(Self.text)")))
      }
      #expect(server.parts.engine.listenerCounts == (1, 1))
      if let channel = slow as? ChannelClient {
        #expect(try await channel.peaks().held <= Self.bound + 1_000)
      }
      try await server.eventually { server.root.at(try Path("slow")).stringValue == "gone" }
      try await slow.resumeReading()
      let lines = try await slow.readToEnd()
      // Events in order up to the end; then the reason. Some may be those of several commits.
      let last = try #require(lines.last)
      expectReply(last, to: "LISTEN without reading", failsWith: "OVERLOADED")
      let sequences = try lines.dropLast().map { try #require(try Event($0).sequence) }
      #expect(sequences.first == 1 && zip(sequences, sequences.dropFirst()).allSatisfy { $0 < $1 })
      #expect(sequences.count < rounds)
      // The bytes that were kept for it are bounded. (The engine learns of the end some rounds later.)
      if slow is ChannelClient { #expect(sequences.count * 9_000 <= Self.bound + 20_000) }
      try await writer.value("SET /n 1")
      #expect(try await fast.event().data == .leaf(1))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a subscriber that reads slowly keeps its subscription`(_ depth: Depth) async throws {
    try await withWriter(depth) { server, writer in
      let slow = try await server.connectAsAdministrator()
      _ = try await slow.begin("LISTEN /n {\"events\":\"value\"}")
      for round in 0..<30 {
        try await slow.pauseReading()
        for i in 0..<10 { try await writer.value("SET /n \"\(round) \(i)\(Self.text)\"") }
        try await slow.resumeReading()
        // It gets fewer events, and always the last value.
        let last = Int64(round * 10 + 10)
        while let sequence = try await slow.event().sequence, sequence < last {}
        try await slow.expect("PING", "+\"PONG\"")
      }
      #expect(server.parts.engine.listenerCounts == (1, 1))
    }
  }

  @Test(arguments: Depth.allCases)
  func `one event may exceed the bound if no other event waits`(_ depth: Depth) async throws {
    try await withWriter(depth) { server, writer in
      let client = try await server.connectAsAdministrator()
      _ = try await client.begin("LISTEN /n {\"events\":\"value\"}")
      let text = String(reflecting: String(repeating: "x", count: Self.bound * 2))
      try await writer.value("SET /n \(text)")
      #expect(try await client.event().sequence == 1)
      try await client.expect("PING", "+\"PONG\"")
    }
  }
}

/// Output that does not count as waiting events.
@Suite(.timeLimit(.minutes(20))) struct OverloadCountTests {
  @Test(arguments: Depth.allCases)
  func `replies and the present state do not count as waiting events`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.queuedBytesMax = 10_000
      $0.receiveBytes = 16_384
    } _: { server in
      let writer = try await server.connectAsAdministrator()
      let big = String(repeating: "x", count: 400_000)
      try await writer.value("SET /big {\"a\":\"\(big)\",\"b\":\"\(big)\"}")
      let client = try await server.connectAsAdministrator()
      try await client.pauseReading()
      try await client.send("LISTEN /big\nGET /big\n")
      try await server.eventually { server.parts.engine.listenerCounts == (1, 1) }
      try await writer.value("SET /big/c 1")
      try await client.resumeReading()
      // Two replies, the present state, and the later event.
      let lines = try await client.readLines(5)
      #expect(lines.count { $0.hasPrefix("+") } == 2, "\(lines.map { $0.prefix(200) })")
      #expect(try lines.filter { $0.hasPrefix(">") }.map { try Event($0).key } == ["a", "b", "c"])
      #expect(server.parts.engine.listenerCounts == (1, 1))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a patch may have many small locations and a large one, up to the bound together`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 100_000
    } _: { server in
      let client = try await server.connectAsAdministrator()
      let sync = try await client.begin("LISTEN /s {\"events\":\"sync\"}")
      func update(_ large: Int) async throws -> [Event] {
        let small = (0..<500).map { "\"k\($0)\":\($0)" }.joined(separator: ",")
        let text = String(repeating: "x", count: large)
        return try await client.events(until: "UPDATE /s {\(small),\"l\":\"\(text)\"}").events
      }
      #expect(try await update(40_000).map(\.brief) == ["patch /"])
      #expect(try await update(99_000).map(\.brief) == ["cancel TOO_LARGE"])
      try await client.expect("UNLISTEN \(sync.sub)", failsWith: "NOT_FOUND")
    }
  }

  @Test(arguments: Depth.allCases)
  func `the children of a present state are sent one by one, up to a bound of their own`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 10_000
      // Each child has 2,067 bytes: its text, quotes and key, and an allowance for its line. One byte must be left.
      $0.limits.initialEventsBytesMax = 6 * 2_067 + 1
    } _: { server in
      let client = try await server.connectAsAdministrator()
      let text = String(repeating: "x", count: 2_000)
      for i in 0..<6 { try await client.value("SET /n/\(i) \"\(text)\"") }
      let lists = ["LISTEN /n", "LISTEN /n {\"orderBy\":\"$value\",\"limitToLast\":6}"]
      for line in lists {
        let events = try await client.begin(line).events
        #expect(events.map(\.key) == (0..<6).map { "\($0)" })
        #expect(events.map(\.isMore) == [true, true, true, true, true, false])
      }
      // The whole state is one event in the other forms.
      for form in ["value", "sync"] {
        try await client.expect("LISTEN /n {\"events\":\"\(form)\"}", failsWith: "TOO_LARGE")
      }
      for number in 1...2 { try await client.value("UNLISTEN \(number)") }
      try await client.value("SET /n/0 \"\(text)x\"")
      for line in lists { try await client.expect(line, failsWith: "TOO_LARGE") }
      #expect(
        try await client.begin("LISTEN /n {\"orderBy\":\"$key\",\"limitToLast\":5}").events.count
          == 5)
      // Each child is one event.
      try await client.value("SET /m {\"a\":\"\(String(repeating: text, count: 5))\"}")
      try await client.expect("LISTEN /m", failsWith: "TOO_LARGE")
      try await client.value("SET /m \"\(String(repeating: text, count: 5))\"")
      try await client.expect("LISTEN /m", failsWith: "TOO_LARGE")
      #expect(server.parts.engine.listenerCounts.listeners == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a list of many large posts does not keep anybody from watching it, or from resuming`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.replyBytesMax = 100_000
    } _: { server in
      let hostile = try await server.connect(as: "mallory")
      let body = String(repeating: "\u{1F333}", count: 4_000)
      var ids: [String] = []
      for _ in 0..<10 { ids.append(try await hostile.text("id", "POST title \"\(body)\"")) }
      // RECENT answers with the posts that fit, and a cursor.
      #expect(try await hostile.request("RECENT {\"limit\":10}").hasSuffix("\"}]"))
      let client = try await server.connect()
      for line in [
        "WATCH RECENT {\"limit\":10}", "WATCH TOP {\"limit\":10}",
        "WATCH POSTS @mallory {\"limit\":10}",
        "LISTEN /posts",
      ] {
        let events = try await client.begin(line).events
        #expect(events.map(\.key) == ids, "\(line)")
        #expect(events.allSatisfy { $0.name == "child_added" })
      }
      // A client that has an earlier version, of which the server can no longer tell the changes.
      try await server.set(rules: #"{"rules":{".read":true}}"#)
      let (sub, _, events) = try await client.begin("LISTEN /posts {\"since\":1}")
      #expect(sub > 0 && events.count == 11)
      #expect(events.first?.brief == "put /" && events.first?.data == .null)
      #expect(events.dropFirst().map(\.key) == ids)
      #expect(events.map(\.isMore) == Array(repeating: true, count: 10) + [false])
      #expect(events.allSatisfy { $0.sequence == events[0].sequence })
      // An empty list, and one that fits, are one line.
      let small = try await client.begin(
        "LISTEN /posts {\"since\":1,\"orderBy\":\"$key\",\"limitToLast\":2}")
      #expect(small.events.map(\.brief) == ["put /"])
      let (later, _) = try await client.events(until: "PING")
      #expect(later.isEmpty)
    }
  }
}
