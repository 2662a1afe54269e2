import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// ONDISCONNECT: writes that are made when a connection ends.
@Suite(.timeLimit(.minutes(5))) struct DisconnectWriteTests {
  /// The ways in which a client can end its connection.
  enum End: CaseIterable, Sendable {
    case quit
    case endOfInput
    case reset
  }

  private func end(_ client: any LineClient, _ end: End) async throws {
    switch end {
    case .quit: try await client.expect("QUIT", "+\"BYE\"")
    case .endOfInput: try await client.shutDownSending()
    case .reset: await client.disconnect()
    }
  }

  private func kept(_ server: TestServer) async throws -> Int {
    try await server.parts.journal.disconnectWrites().count
  }

  /// Whether all writes have been made and are visible.
  private func isDone(_ server: TestServer) async throws -> Bool {
    try await kept(server) == 0 && !server.parts.engine.hasCommitsUnderWay
  }

  @Test(arguments: Depth.allCases, End.allCases)
  func `the write is made when the connection ends, and not before`(
    _ depth: Depth, _ way: End
  ) async throws {
    try await withServer(depth) { server in
      let watcher = try await server.connectAsAdministrator()
      _ = try await watcher.begin("LISTEN /presence")
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /presence {\"ada\":true,\"n\":1}")
      try await client.expect("ONDISCONNECT SET /presence/ada {\".sv\":\"timestamp\"}", "+null")
      try await client.expect(
        "ONDISCONNECT UPDATE /presence {\"n\":{\".sv\":{\"increment\":5}}}", "+null")
      try await client.expect("ONDISCONNECT REMOVE /presence/nothing", "+null")
      #expect(try await kept(server) == 3)
      server.parts.clock.advance(1_000)
      #expect(try await watcher.arrived() == ["added ada", "added n after ada"])
      try await end(client, way)
      #expect(try await watcher.event().brief == "changed ada")
      #expect(try await watcher.event().data?.integer == 6)
      #expect(server.root.at(try Path("presence/ada")) == Node(server.parts.clock.now))
      try await server.eventually { try await isDone(server) }
      #expect(try await watcher.arrived().isEmpty)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a later write replaces the earlier ones at and below its location`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("SET /p 5")
      let requests = [
        "SET /a 1", "SET /a/b 2", "UPDATE /u {\"x\":1,\"y\":2,\"z/w\":3}", "SET /u/x 4",
        "CANCEL /u/z", "SET /gone/deep 1", "SET /gone 2", "CANCEL /gone", "SET /p/.priority 7",
        "SET /p/.priority 8", "UPDATE /nothing {}", "CANCEL /nothing",
      ]
      for request in requests {
        try await client.expect("ONDISCONNECT \(request)", "+null")
      }
      #expect(try await kept(server) == 5)
      await client.disconnect()
      try await server.eventually { try await isDone(server) }
      let expected = try WriteValue(
        json: """
          {"a":{"b":2},"u":{"x":4,"y":2},"p":{".value":5,".priority":8}}
          """
      ).node
      #expect(server.root == expected)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write that cannot be made is refused at once`(_ depth: Depth) async throws {
    try await withServer(depth) {
      $0.limits.disconnectWritesMax = 2
      $0.limits.disconnectBytesMax = 100
    } _: { server in
      let client = try await server.connectAsAdministrator()
      let refusals = [
        ("ONDISCONNECT", "BAD_REQUEST"), ("ONDISCONNECT SET /a", "BAD_REQUEST"),
        ("ONDISCONNECT REMOVE /a 1", "BAD_REQUEST"), ("ONDISCONNECT PUSH /a 1", "BAD_REQUEST"),
        ("ONDISCONNECT CANCEL", "BAD_REQUEST"), ("ONDISCONNECT SET /a hello", "INVALID_DATA"),
        ("ONDISCONNECT SET a//b# 1", "INVALID_PATH"),
        ("ONDISCONNECT UPDATE /a {\"b\":1,\"b/c\":2}", "INVALID_DATA"),
        ("ONDISCONNECT UPDATE /a {\"/\":1}", "INVALID_DATA"),
        ("ONDISCONNECT SET /a/.priority true", "INVALID_DATA"),
        (
          "ONDISCONNECT SET /a \(String(reflecting: String(repeating: "x", count: 100)))",
          "TOO_LARGE"
        ),
      ]
      for (line, code) in refusals { try await client.expect(line, failsWith: code) }
      try await client.value("ONDISCONNECT SET /a 1")
      try await client.value("ONDISCONNECT SET /b 1")
      try await client.expect("ONDISCONNECT SET /c 1", failsWith: "TOO_LARGE")
      try await client.value("ONDISCONNECT SET /b 2")
      let nobody = try await server.connect()
      try await nobody.expect("ONDISCONNECT SET /a 1", failsWith: "PERMISSION_DENIED")
      #expect(try await kept(server) == 2)
    }
  }

  /// Returns an update of this number of locations below a path.
  private func update(_ path: String, _ range: Range<Int>) -> String {
    "ONDISCONNECT UPDATE \(path) {"
      + range.map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
  }

  @Test(arguments: Depth.allCases)
  func `the locations of all writes of a connection are bounded`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) {
      $0.limits.disconnectLocationsMax = 10
    } _: { server in
      let client = try await server.connectAsAdministrator()
      try await client.expect(update("/a", 0..<11), failsWith: "TOO_LARGE")
      #expect(try await kept(server) == 0)
      try await client.value(update("/a", 0..<4))
      try await client.expect(update("/b", 0..<7), failsWith: "TOO_LARGE")
      try await client.value(update("/b", 0..<6))
      try await client.expect("ONDISCONNECT SET /c 1", failsWith: "TOO_LARGE")
      // A location that is replaced does not count any more.
      try await client.value("ONDISCONNECT SET /a/k1 true")
      try await client.value("ONDISCONNECT CANCEL /b")
      try await client.value(update("/c", 0..<6))
      #expect(
        try await server.connect().value("HELLO")["limits"]?["disconnectLocations"]
          == .leaf(10))
      await client.disconnect()
      try await server.eventually { try await isDone(server) }
      #expect(
        server.root
          == (try WriteValue(
            json: """
              {"a":{"k0":0,"k1":true,"k2":2,"k3":3},"c":{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5}}
              """
          ).node))
    }
  }

  #if CANOPY_COUNT_WORK
    @Test func `the cost of a request grows with the locations of the earlier writes`()
      async throws
    {
      func work(_ count: Int) async throws -> Int {
        try await WorkCounter.counting { counter in
          let parts = try await LineParts()
          let operations = parts.operations
          func arm(_ range: Range<Int>, _ armed: [ArmedWrite]) async throws -> [ArmedWrite] {
            let text = update("/a", range)
            let request = try Array(text.utf8).withUnsafeBytes {
              try Request(line: $0, limits: Limits())
            }
            guard case .connection(.onDisconnect(let request, let text)) = request else {
              return []
            }
            let completion = await operations.onDisconnect(
              request, text: text, as: .administrator, armed)
            return try #require(completion.armed)
          }
          let first = try await arm(0..<count, [])
          let before = counter.count
          let second = try await arm(count / 2..<count + count / 2, first)
          #expect(second.map(\.write.items.count) == [count / 2, count])
          #expect(second[0].exceptions.count == count / 2)
          return counter.count - before
        }
      }
      let few = try await work(200)
      let many = try await work(2_000)
      #expect(many <= 12 * few + 200, "\(few), then \(many)")
    }
  #endif

  @Test(arguments: Depth.allCases)
  func `a request fails if the store fails, and nothing is stored`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a 1")
      server.parts.journal.fail(true)
      try await client.expect("ONDISCONNECT SET /a 2", failsWith: "UNAVAILABLE")
      try await client.expect("ONDISCONNECT CANCEL /a", failsWith: "UNAVAILABLE")
      server.parts.journal.fail(false)
      await client.disconnect()
      try await server.eventually { try await isDone(server) }
      #expect(server.root.at(try Path("a")) == 1)
    }
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
      try await server.eventually { try await isDone(server) }
      #expect(server.root.at(try Path("a")) == 1)
    }
  }

  /// Advances the time until failed writes are tried again.
  private func tryAgain(_ client: any LineClient) async {
    guard let channel = (client as? ChannelClient)?.channel else { return }
    await channel.testingEventLoop.advanceTime(by: .seconds(1))
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
      try await server.eventually { try await isDone(server) }
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
    try await withServer(depth) { server in
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
      try await server.eventually { try await isDone(server) }
      let a = server.root.at(try Path("a"))
      #expect(a.childCount == 30)
      for i in 0..<30 { #expect(a.at(try Path("\(i)/b")) == 2) }
      #expect(server.parts.journal.count == 60)
    }
  }

  @Test(arguments: Depth.allCases)
  func `if a later batch of the writes fails, the rest is made later, each write once`(
    _ depth: Depth
  ) async throws {
    let time = ManualClock()
    try await withServer(depth) {
      // Each write takes the time of a batch.
      $0.engine.elapsed = {
        time.advance(11)
        return .milliseconds(time.now)
      }
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
      try await server.eventually { try await isDone(server) }
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
      #expect(server.parts.journal.count == 3)
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
      try await server.eventually { try await isDone(server) }
      #expect(server.root.at(try Path("a")) == 1)
      #expect(server.parts.journal.count == 2)
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
      try await server.eventually { try await isDone(server) }
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
      try await server.eventually { try await isDone(server) }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a server that shuts down makes the write before it ends`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a 1")
      try await server.shutDown()
      try await server.eventually { try await isDone(server) }
      #expect(server.root.at(try Path("a")) == 1)
    }
  }

  @Test func `the writes of an earlier server are made once, at the next start`() async throws {
    let parts = try await LineParts()
    let journal = parts.journal
    let add = { (request: String) in
      try await journal.changeDisconnectWrites(
        adding: ("administrator", request), exceptions: [:], removing: [])
    }
    _ = try await add("SET /a {\".sv\":{\"increment\":1}}")
    let update = try #require(try await add("UPDATE /u {\"x\":1,\"y\":2}"))
    _ = try await add("SET /a nonsense")
    _ = try await journal.changeDisconnectWrites(
      adding: nil, exceptions: [update: ["u/x"]], removing: [])
    let engine = Task { await parts.run() }
    try await parts.operations.carryOutAbandoned()
    #expect(parts.engine.root == (try WriteValue(json: "{\"a\":1,\"u\":{\"y\":2}}").node))
    #expect(try await journal.disconnectWrites().isEmpty)
    try await parts.operations.carryOutAbandoned()
    #expect(parts.engine.root.at(try Path("a")) == 1)
    #expect(parts.log.lines.count { $0.hasPrefix("error") } == 1)
    parts.engine.stop()
    await engine.value
  }

  @Test
  func `the writes of an earlier server are made in groups, and each session is looked up once`()
    async throws
  {
    let parts = try await LineParts()
    let journal = parts.journal
    for index in 0..<2_500 {
      _ = try await journal.changeDisconnectWrites(
        adding: ("administrator", "SET /a/k\(index) \(index)"), exceptions: [:], removing: [])
    }
    _ = try await journal.changeDisconnectWrites(
      adding: ("administrator", "SET /b nonsense"), exceptions: [:], removing: [])
    let engine = Task { await parts.engine.run() }
    try await parts.operations.carryOutAbandoned()
    #expect(parts.engine.root.at(try Path("a")).childCount == 2_500)
    #expect(journal.groups == [1_000, 1_000, 500])
    #expect(try await journal.disconnectWrites().isEmpty)
    #expect(parts.log.lines.count { $0.contains("made on-disconnect writes") } == 1)
    parts.engine.stop()
    await engine.value
  }

  @Test(arguments: Depth.allCases)
  func `a server that cannot make the writes of an earlier one starts, and makes them later`(
    _ depth: Depth
  ) async throws {
    let journal = FaultyJournal()
    for name in ["a", "b"] {
      _ = try await journal.changeDisconnectWrites(
        adding: ("administrator", "SET /\(name) {\".sv\":{\"increment\":1}}"), exceptions: [:],
        removing: [])
    }
    journal.plan(.failBefore)
    try await withServer(depth) {
      $0.journal = journal
    } _: { server in
      func lines(_ text: String) -> Int { server.parts.log.lines.count { $0.contains(text) } }
      // With the depth of a socket the listener has called this.
      if depth == .inProcess { try await server.parts.operations.carryOutAbandoned() }
      let client = try await server.connectAsAdministrator()
      try await client.expect("GET /a", "+null")
      #expect(lines("on-disconnect writes failed") == 1)
      #expect(!server.parts.operations.isIdle)
      // A write of the present server waits for the end of its own connection.
      try await client.value("ONDISCONNECT SET /c 1")
      try await server.eventually {
        server.parts.waits.advance(by: .seconds(1))
        return server.parts.operations.isIdle
      }
      #expect(server.root == (try WriteValue(json: "{\"a\":1,\"b\":1}").node))
      #expect(try await kept(server) == 1)
      #expect(lines("on-disconnect writes failed") == 1)
      #expect(lines("made on-disconnect writes of connections that ended with the server") == 1)
      #expect(lines("no failed on-disconnect writes are left") == 1)
    }
  }

  @Test func `a write of an earlier server that is dropped waits until the store forgets it`()
    async throws
  {
    let parts = try await LineParts()
    let journal = parts.journal
    for request in ["SET /a nonsense", "SET /b {\".sv\":{\"increment\":1}}"] {
      _ = try await journal.changeDisconnectWrites(
        adding: ("administrator", request), exceptions: [:], removing: [])
    }
    let engine = Task { await parts.engine.run() }
    journal.fail(true)
    try await parts.operations.carryOutAbandoned()
    #expect(try await journal.disconnectWrites().count == 2)
    journal.fail(false)
    try await eventually {
      parts.waits.advance(by: .seconds(1))
      return parts.operations.isIdle
    }
    #expect(try await journal.disconnectWrites().isEmpty)
    #expect(parts.engine.root == (try WriteValue(json: "{\"b\":1}").node))
    #expect(parts.log.lines.count { $0.contains("cannot be read, and is dropped") } == 1)
    parts.engine.stop()
    await engine.value
  }

  @Test func `writes that still fail when the server stops are left for the next start`()
    async throws
  {
    let parts = try await LineParts()
    _ = try await parts.journal.changeDisconnectWrites(
      adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
    let engine = Task { await parts.engine.run() }
    parts.journal.fail(true)
    try await parts.operations.carryOutAbandoned()
    parts.engine.stop()
    await engine.value
    try await eventually {
      parts.waits.advance(by: .seconds(1))
      return parts.log.lines.contains { $0.contains("are left for the next start") }
    }
    #expect(try await parts.journal.disconnectWrites().count == 1)
  }

  @Test func `a store of earlier writes that cannot be read ends the start`() async throws {
    let parts = try await LineParts()
    let operations = Operations(
      engine: parts.engine, accounts: parts.accounts, administratorToken: parts.administratorToken,
      disconnectStore: UnreadableStore(), rules: parts.rules, limits: Limits(), version: "test",
      now: { 0 }, logger: parts.log.logger)
    await #expect(throws: PlannedFailure.self) { try await operations.carryOutAbandoned() }
  }

  @Test func `a line of the log names the first locations and the number of the others`() throws {
    let items = (0..<4_000).map { Write.Item(Path.root.child(Key(index: $0)), 1) }
    let long = try Key(String(repeating: "k", count: 700))
    let writes = [
      ArmedWrite(id: 1, write: try Write([.init(Path.root.child(long), 1)]), caller: nil, bytes: 1),
      ArmedWrite(id: 2, write: try Write(items), caller: nil, bytes: 1),
    ]
    let text = writes.placesForLog
    #expect(text.hasPrefix("\"/kkk"))
    #expect(text.hasSuffix("\"/8\" and 3991 more"))
    #expect(text.utf8.count < 400)
    #expect(writes.prefix(1).placesForLog == "\"/" + String(repeating: "k", count: 199) + "…\"")
  }
}

/// A store that is damaged.
private struct UnreadableStore: DisconnectStore {
  func disconnectWrites(
    after id: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    throw PlannedFailure()
  }

  func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> { throw PlannedFailure() }

  func changeDisconnectWrites(
    adding request: (identity: String, request: String)?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? { nil }
}
