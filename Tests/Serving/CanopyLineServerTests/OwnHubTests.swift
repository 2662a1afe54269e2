import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Dispatch
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// Hubs of their own for clients with many subscriptions.
@Suite(.timeLimit(.minutes(20))) struct OwnHubTests {
  @Test func `a reply does not wait for the events of a connection with many subscriptions`()
    async throws
  {
    try await withOwnHubSetting { setting in
      let light = try await setting.open(1)
      let many = try await setting.open(EventHubs.connectionMax + 1)
      try await setting.giveTurns()
      try await setting.write(1)
      try await setting.waitUntilIdle()
      #expect(try await setting.onLoop(light) { ($0.counts, $0.hub.drain()) } == ([1: 1], true))
      #expect(try await setting.onLoop(many) { $0.counts.isEmpty && !$0.hub.drain() })
      try await setting.giveTurns()
      #expect(
        try await setting.onLoop(many) {
          $0.counts.count == EventHubs.connectionMax + 1 && $0.hub.drain()
        })
    }
  }

  @Test func `a connection moves with its first subscription beyond the bound`() async throws {
    try await withOwnHubSetting { setting in
      let number = try await setting.open(EventHubs.connectionMax)
      #expect(try await setting.isShared(number))
      try await setting.begin(number)
      #expect(try await !setting.isShared(number))
      try await setting.giveTurns()
      for commit in 1...3 as ClosedRange<Int64> { try await setting.write(commit) }
      try await setting.giveTurns()
      // Ended subscriptions get nothing, and their views are gone.
      let counts = try await setting.onLoop(number) { connection in
        let counts = connection.counts
        connection.endAll()
        return counts
      }
      #expect(counts.count == EventHubs.connectionMax + 1 && counts.values.allSatisfy { $0 == 3 })
      try await setting.write(4)
      try await setting.giveTurns()
      #expect(try await setting.onLoop(number) { $0.counts } == counts)
      #expect(setting.engine.listenerCounts == (0, 0))
    }
  }

  @Test func `the connections of a network with many subscriptions share a hub of their own`()
    async throws
  {
    try await withOwnHubSetting { setting in
      let each = EventHubs.connectionMax
      var shared: [Int] = []
      // Subscriptions that have not begun count as well.
      for _ in 0..<EventHubs.networkMax / each {
        shared.append(try await setting.open(each, network: "192.0.2.1"))
      }
      for number in shared { #expect(try await setting.isShared(number)) }
      for _ in 0..<2 {
        let number = try await setting.open(1, network: "192.0.2.1")
        #expect(try await !setting.isShared(number))
      }
      #expect(try await setting.ownCount == 1)
      let other = try await setting.open(1, network: "192.0.2.2")
      #expect(try await setting.isShared(other))
      // Those that have ended do not.
      try await setting.giveTurns()
      for number in shared { try await setting.onLoop(number) { $0.endAll() } }
      #expect(try await setting.isShared(try await setting.open(1, network: "192.0.2.1")))
    }
  }

  @Test func `further clients with many subscriptions share the last hub`() async throws {
    try await withOwnHubSetting { setting in
      var numbers: [Int] = []
      for _ in 0..<EventHubs.ownMax + 2 {
        numbers.append(try await setting.open(EventHubs.connectionMax + 1))
      }
      for number in numbers { #expect(try await !setting.isShared(number)) }
      #expect(try await setting.ownCount == EventHubs.ownMax)
      try await setting.giveTurns()
      try await setting.write(1)
      try await setting.giveTurns()
      for number in numbers {
        let counts = try await setting.onLoop(number) { $0.counts }
        #expect(counts.count == EventHubs.connectionMax + 1)
        #expect(counts.values.allSatisfy { $0 == 1 })
      }
    }
  }

  @Test func `a client with one subscription does not wait for one with a thousand queries`()
    async throws
  {
    try await withOwnHubSetting { setting in
      let light = try await setting.open(1)
      let many = try await setting.open(1_000)
      try await setting.giveTurns()
      for commit in 1...20 {
        try await setting.write(Int64(commit))
        try await setting.waitUntilIdle()
        // Its event and its reply come before the turn of the other.
        #expect(
          try await setting.onLoop(light) { ($0.counts, $0.hub.drain()) } == ([1: commit], true))
        #expect(try await setting.onLoop(many) { !$0.hub.drain() })
        #expect(try await setting.giveTurn())
      }
      // The hub of most connections has no view of the other.
      #expect(try await setting.left(light)[0] == 1)
      try await setting.giveTurns()
      #expect(try await setting.onLoop(many) { $0.counts.count == 1_000 && $0.hub.drain() })
    }
  }

  @Test(arguments: [false, true])
  func `a denial ends the subscriptions of a connection that moves`(
    _ isAfterMove: Bool
  ) async throws {
    let place = try Path("denied")
    let authorization = ListenAuthorization { root, _ in
      ReadVerdict(isAllowed: root.at(place).isAbsent, paths: [place])
    }
    try await withOwnHubSetting { setting in
      let count = EventHubs.connectionMax
      let number = try await setting.open(count, authorization)
      try await setting.giveTurns()
      if !isAfterMove { try await setting.write(1, to: "denied") }
      // The loop has not taken what the engine has handed over.
      try await setting.begin(number)
      if isAfterMove {
        try await setting.waitForEngine()
        try await setting.write(1, to: "denied")
      }
      try await setting.write(2)
      try await setting.giveTurns()
      let (cancelled, refused, counts) = try await setting.onLoop(number) {
        ($0.cancelled, $0.refused, $0.counts)
      }
      #expect(cancelled.sorted() == (1...Int64(isAfterMove ? count + 1 : count)).map { $0 })
      #expect(refused == (isAfterMove ? 0 : 1))
      #expect(counts.isEmpty)
      #expect(setting.engine.listenerCounts == (0, 0))
      #expect(try await setting.left(number) == [0, 0, 0])
    }
  }

  @Test(arguments: [false, true])
  func `a connection may end while its subscriptions move`(_ isBeforeMove: Bool) async throws {
    try await withOwnHubSetting { setting in
      let number = try await setting.open(EventHubs.connectionMax)
      if isBeforeMove {
        // Some have not begun.
        try await setting.onLoop(number) {
          try $0.begin(setting.hubs.value)
          $0.endAll()
        }
      } else {
        try await setting.giveTurns()
        try await setting.begin(number)
        try await setting.waitForEngine()
        try await setting.onLoop(number) { $0.endAll() }
      }
      try await setting.write(1)
      try await setting.giveTurns()
      #expect(try await setting.onLoop(number) { $0.counts.isEmpty && $0.hub.drain() })
      #expect(setting.engine.listenerCounts == (0, 0))
      #expect(try await setting.left(number) == [0, 0, 0])
    }
  }

  @Test func `a move ends when the engine is stopping`() async throws {
    try await withOwnHubSetting { setting in
      let number = try await setting.open(EventHubs.connectionMax)
      try await setting.giveTurns()
      try await setting.write(1)
      setting.engine.stop()
      try await setting.begin(number)
      repeat { await setting.loop.run() } while try await setting.giveTurn()
      // The events from before are sent.
      let (counts, refused) = try await setting.onLoop(number) { ($0.counts, $0.refused) }
      #expect(counts.count == EventHubs.connectionMax && refused == 1)
      #expect(try await setting.onLoop(number) { $0.hub.drain() })
      try await setting.onLoop(number) { $0.endAll() }
      #expect(try await setting.left(number) == [0, 0, 0])
    }
  }

  @Test func `no event is lost, doubled or out of order while subscriptions begin, move and end`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "OwnHubTests.moves")
    try await withOwnHubSetting { setting in
      var commit: Int64 = 0
      var connections: [Int] = []
      // Some share a network, and so a hub of their own.
      for network in [nil, nil, nil, "192.0.2.1", "192.0.2.1", "192.0.2.1"] {
        connections.append(try await setting.open(0, network: network))
      }
      for _ in 0..<400 {
        let number = random.pick(connections)
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<5: for _ in 0..<8 { try await setting.begin(number) }
        case 5..<8:
          commit += 1
          try await setting.write(commit)
        case 8: await setting.loop.run()
        default: try await setting.giveTurns()
        }
      }
      try await setting.giveTurns()
      var moved = 0
      for number in connections {
        let (sequences, starts, isShared) = try await setting.onLoop(number) {
          ($0.sequences, $0.subscriptions.count, $0.hub === setting.hubs.value.shared)
        }
        #expect(sequences == sequences.sorted(), "connection \(number)")
        #expect(try await setting.onLoop(number) { !$0.isRepeated }, "connection \(number)")
        #expect(sequences.count > starts)
        if !isShared { moved += 1 }
      }
      #expect(moved > 0)
      // From now on each subscription gets each commit once.
      let before = try await counts(setting, connections)
      for _ in 0..<3 {
        commit += 1
        try await setting.write(commit)
      }
      try await setting.giveTurns()
      let after = try await counts(setting, connections)
      for (before, after) in zip(before, after) {
        #expect(after.allSatisfy { number, count in count == (before[number] ?? 0) + 3 })
      }
    }
  }

  private func counts(
    _ setting: OwnHubSetting, _ connections: [Int]
  ) async throws -> [[Int64: Int]] {
    var counts: [[Int64: Int]] = []
    for number in connections { counts.append(try await setting.onLoop(number) { $0.counts }) }
    return counts
  }

  @Test func `events of an own hub do not wait for long reads, which wait for events`() async throws
  {
    try await withServer(.inProcess) { server in
      let operations = server.parts.operations
      let setting = try await OwnHubSetting(operations)
      let number = try await setting.open(EventHubs.connectionMax + 1)
      try await setting.giveTurns()
      let gate = DispatchSemaphore(value: 0)
      async let long: Void = operations.beside { gate.wait() }
      // More than a commit whose events are computed on the loop.
      let text = Node(String(repeating: "x", count: EventHub.comparedBytesMax))
      _ = try await setting.engine.transact { _ in
        Decision(try Write([Write.Item(try Path("place/x"), text)]), ())
      }
      try await eventually {
        try await setting.giveTurns()
        return try await setting.onLoop(number) { $0.counts.count } == EventHubs.connectionMax + 1
      }
      gate.signal()
      try await long
      await setting.loop.shutdownGracefully()
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client that has ended its many subscriptions reads its own write`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let count = EventHubs.connectionMax + 1
      for place in 0..<count { _ = try await client.begin("LISTEN /p/k\(place)") }
      for number in 1...count { try await client.value("UNLISTEN \(number)") }
      for value in 1...20 {
        try await client.send("GET /a\nSET /x \(value)\nGET /x\n")
        _ = try await client.readLine()
        try await client.expectNext(to: "SET /x \(value)", hasPrefix: "+{\"seq\":")
        try await client.expectNext(to: "GET /x", "+\(value)")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a client gets its replies and events in the order of the commits while it moves`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      let writer = try await server.connectAsAdministrator()
      let places = 2 * EventHubs.connectionMax
      for place in 0..<places {
        for other in 0..<4 {
          try await writer.send("SET /p/k\((place + other) % places) \(place)\n")
        }
        try await client.send("LISTEN /p/k\(place) {\"events\":\"value\"}\n")
      }
      for _ in 0..<4 * places {
        try await writer.expectNext(to: "SET below /p", hasPrefix: "+{\"seq\":")
      }
      let values = (0..<places).map { "\"k\($0)\":\"end\"" }.joined(separator: ",")
      try await writer.value("SET /p {\(values)}")
      var ended: Set<Int64> = []
      var last: [Int64: Int64] = [:]
      var latest: Int64 = 0
      while ended.count < places {
        let line = try await client.readLine()
        let message = try JSONValue(json: String(line.dropFirst()))
        let sequence = try #require(message["seq"]?.integer, "\(line)")
        #expect(sequence >= latest, "\(line)")
        latest = sequence
        guard line.hasPrefix(">") else { continue }
        let sub = try #require(message["sub"]?.integer, "\(line)")
        if let before = last[sub] { #expect(sequence > before, "\(line)") }
        last[sub] = sequence
        if message["data"]?.string == "end" { ended.insert(sub) }
      }
    }
  }
}
