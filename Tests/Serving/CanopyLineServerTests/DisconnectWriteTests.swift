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
@Suite(.timeLimit(.minutes(20))) struct DisconnectWriteTests {
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
      #expect(try await server.keptWrites() == 3)
      server.parts.clock.advance(1_000)
      #expect(try await watcher.arrived() == ["added ada", "added n after ada"])
      try await end(client, way)
      #expect(try await watcher.event().brief == "changed ada")
      #expect(try await watcher.event().data?.integer == 6)
      #expect(server.root.at(try Path("presence/ada")) == Node(server.parts.clock.now))
      try await server.eventually { try await server.hasMadeWrites() }
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
        "UPDATE /n {\"a\":{\".sv\":{\"increment\":1}},\"b\":{\".sv\":{\"increment\":1}}}",
        "SET /n/a {\".sv\":{\"increment\":10}}",
      ]
      for request in requests {
        try await client.expect("ONDISCONNECT \(request)", "+null")
      }
      #expect(try await server.keptWrites() == 7)
      await client.disconnect()
      try await server.eventually { try await server.hasMadeWrites() }
      let expected = try WriteValue(
        json: """
          {"a":{"b":2},"n":{"a":10,"b":1},"u":{"x":4,"y":2},"p":{".value":5,".priority":8}}
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
      #expect(try await server.keptWrites() == 2)
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
      #expect(try await server.keptWrites() == 0)
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
      try await server.eventually { try await server.hasMadeWrites() }
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
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.at(try Path("a")) == 1)
    }
  }
}

extension TestServer {
  /// Returns the number of on-disconnect writes that the store keeps.
  func keptWrites() async throws -> Int {
    try await parts.journal.disconnectWrites().count
  }

  /// Whether all on-disconnect writes have been made and are visible.
  func hasMadeWrites() async throws -> Bool {
    try await keptWrites() == 0 && !parts.engine.hasCommitsUnderWay
  }
}
