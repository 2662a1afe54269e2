import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer
@testable import CanopySession
/// On-disconnect writes while the journal fails, or while a request is under way.
@Suite(.timeLimit(.minutes(20))) struct DisconnectFailureTests {
  /// Advances the time until failed writes are tried again.
  private func tryAgain(_ client: any LineClient) async {
    guard let channel = (client as? ChannelClient)?.channel else { return }
    await channel.testingEventLoop.advanceTime(by: .seconds(1))
  }

  @Test(arguments: Depth.allCases)
  func `the write is made when the journal works again`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a {\".sv\":{\"increment\":1}}")
      server.parts.journal.fail(true)
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      server.parts.journal.fail(false)
      await tryAgain(client)
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.at(try Path("a")) == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `writes at a time after the last of keys are made when the clock is right again`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      for place in ["a", "b"] {
        try await client.value("ONDISCONNECT SET /\(place) {\".sv\":{\"increment\":1}}")
      }
      let ahead = PushIDGenerator.timeMax - server.parts.clock.now
      server.parts.clock.advance(ahead)
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      #expect(server.root.isAbsent)
      server.parts.clock.advance(-ahead)
      await tryAgain(client)
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root == (try WriteValue(json: "{\"a\":1,\"b\":1}").node))
      #expect(!server.parts.log.lines.contains { $0.contains("dropped") })
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `while the journal fails the log has one line, and one retry reads the store for all connections`(
      _ depth: Depth
    ) async throws
  {
    try await withServer(depth) { server in
      func lines(_ text: String) -> Int { server.parts.log.lines.count { $0.contains(text) } }
      var clients: [any LineClient] = []
      for index in 0..<5 {
        let client = try await server.connectAsAdministrator()
        try await client.value("ONDISCONNECT SET /a/\(index) {\".sv\":{\"increment\":1}}")
        clients.append(client)
      }
      server.parts.journal.fail(true)
      let retries = server.parts.operations.disconnectRetries
      for (index, client) in clients.enumerated() {
        await client.disconnect()
        try await server.eventually { retries.count == index + 1 }
      }
      for round in 1...2 {
        await tryAgain(clients[0])
        try await server.eventually {
          server.parts.journal.disconnectReads >= round && retries.waitingCount == 5
        }
      }
      server.parts.journal.fail(false)
      await tryAgain(clients[0])
      try await server.eventually { try await server.hasMadeWrites() }
      try await server.eventually { lines("no failed on-disconnect writes are left") == 1 }
      #expect(lines("on-disconnect writes failed") == 1)
      // Over a socket, real time triggers the retries.
      #expect(server.parts.journal.disconnectReads == 3 || depth == .socket)
      #expect(server.root == (try WriteValue(json: "{\"a\":[1,1,1,1,1]}").node))
    }
  }

  @Test(arguments: Depth.allCases)
  func `if the first write fails, all are made later in the order of their requests`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      // No write takes time, so all of them are made in one commit.
      $0.engine.elapsed = { .zero }
      $0.engine.threadTime = { .zero }
    } _: { server in
      let client = try await server.connectAsAdministrator()
      for i in 0..<30 {
        try await client.value("ONDISCONNECT SET /a/\(i) 1")
        try await client.value("ONDISCONNECT SET /a/\(i)/b 2")
      }
      server.parts.journal.plan(.failBefore)
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      #expect(server.root.isAbsent)
      await tryAgain(client)
      try await server.eventually { try await server.hasMadeWrites() }
      let a = server.root.at(try Path("a"))
      #expect(a.childCount == 30)
      for i in 0..<30 { #expect(a.at(try Path("\(i)/b")) == 2) }
      #expect(server.parts.journal.count == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `if a later batch of the writes fails, the rest is made later, each write once`(
    _ depth: Depth
  ) async throws {
    let time = ManualClock()
    try await withServer(depth) {
      // Each write takes the time of a commit.
      let clock = { @Sendable () -> Duration in
        time.advance(200)
        return .milliseconds(time.now)
      }
      $0.engine.elapsed = clock
      $0.engine.threadTime = clock
    } _: { server in
      let client = try await server.connectAsAdministrator()
      for i in 0..<4 {
        try await client.value("ONDISCONNECT SET /a/\(i) {\".sv\":{\"increment\":1}}")
      }
      let journal = server.parts.journal
      journal.plan()
      journal.plan()
      journal.plan(.failBefore)
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      #expect(server.root == (try WriteValue(json: "{\"a\":[1,1]}").node) || depth == .socket)
      await tryAgain(client)
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root == (try WriteValue(json: "{\"a\":[1,1,1,1]}").node))
      #expect(journal.groups == [1, 1, 1, 1])
      #expect(!server.parts.log.lines.contains { $0.contains("although the journal failed") })
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that the failing journal has stored is not made again`(
    _ depth: Depth
  ) async throws {
    let unknownAtOnce = { (settings: inout TestSettings) in
      settings.engine.outcomeUnknownAfter = .zero
    }
    try await withServer(depth, unknownAtOnce) { server in
      let client = try await server.connectAsAdministrator()
      let other = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a {\".sv\":{\"increment\":1}}")
      try await client.value("ONDISCONNECT SET /b {\".sv\":{\"increment\":1}}")
      server.parts.journal.plan(.failAfter)
      server.parts.journal.failResolving(true)
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      await tryAgain(client)
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("although the journal failed") }
      }
      #expect(server.root.isAbsent)
      try await other.expect("SET /c 1", failsWith: "UNAVAILABLE")
      server.parts.journal.failResolving(false)
      try await server.eventually {
        server.parts.waits.advance(by: .seconds(1))
        return !server.root.isAbsent
      }
      try await other.value("SET /c 1")
      #expect(server.root == (try WriteValue(json: "{\"a\":1,\"b\":1,\"c\":1}").node))
      #expect(server.parts.journal.count == 2)
    }
  }

  @Test(arguments: Depth.allCases)
  func `each write is made once if the client disconnects while another one is being stored`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a {\".sv\":{\"increment\":1}}")
      server.parts.journal.gate.hold()
      try await client.send("ONDISCONNECT SET /b {\".sv\":{\"increment\":1}}\n")
      await server.parts.journal.gate.reached()
      await client.disconnect()
      server.parts.journal.gate.open()
      try await server.eventually { server.root.at(try Path("b")) == 1 }
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.at(try Path("a")) == 1)
      #expect(server.parts.journal.count == 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the other writes are made if the client disconnects while one cannot be stored`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a 1")
      server.parts.journal.gate.hold()
      try await client.send("ONDISCONNECT SET /b 1\n")
      await server.parts.journal.gate.reached()
      await client.disconnect()
      server.parts.journal.fail(true)
      server.parts.journal.gate.open()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      server.parts.journal.fail(false)
      await tryAgain(client)
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root == (try WriteValue(json: "{\"a\":1}").node))
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write is made if the client disconnects while it is being stored`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      server.parts.journal.gate.hold()
      try await client.send("ONDISCONNECT SET /a 1\n")
      await server.parts.journal.gate.reached()
      await client.disconnect()
      server.parts.journal.gate.open()
      try await server.eventually { server.root.at(try Path("a")) == 1 }
      try await server.eventually { try await server.hasMadeWrites() }
    }
  }
}
