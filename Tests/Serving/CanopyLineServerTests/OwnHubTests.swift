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
  /// Hubs on a loop that a test runs. The turns of own hubs are given by the test.
  private final class Setting: Sendable {
    let engine: Engine
    let loop = NIOAsyncTestingEventLoop()
    let hubs: NIOLoopBound<EventHubs>
    private let due: NIOLoopBoundBox<(() -> Void)?>
    private let connections: NIOLoopBoundBox<[Connection]>

    init(_ operations: Operations) async throws {
      engine = operations.engine
      let due = NIOLoopBoundBox<(() -> Void)?>.makeBoxSendingValue(nil, eventLoop: loop)
      self.due = due
      connections = .makeBoxSendingValue([], eventLoop: loop)
      let inbox = LoopInbox(operations.engine, loop: loop)
      let shared = EventHub.test(inbox, operations.engine)
      hubs = try await loop.executeInContext { [loop] in
        inbox.onWakeUp { shared.drainSoon() }
        let turns = LoopTurns(loop: loop) { due.value = $0 }
        return NIOLoopBound(EventHubs(shared, operations, turns: turns), eventLoop: loop)
      }
    }

    /// Opens a connection, and begins subscriptions to so many queries of one place. Returns its number.
    func open(_ count: Int, network: String? = nil) async throws -> Int {
      try await loop.executeInContext { [self] in
        let connection = Connection(hubs.value, network: network)
        connections.value.append(connection)
        for _ in 0..<count { try connection.begin(hubs.value) }
        return connections.value.count - 1
      }
    }

    func begin(_ number: Int) async throws {
      try await onLoop(number) { [self] in try $0.begin(hubs.value) }
    }

    func onLoop<Value: Sendable>(
      _ number: Int, _ body: @escaping @Sendable (Connection) throws -> Value
    ) async throws -> Value {
      try await loop.executeInContext { [self] in try body(connections.value[number]) }
    }

    func write(_ number: Int64) async throws {
      _ = try await engine.transact { _ in
        Decision(try Write([Write.Item(try Path("place/x"), Node(number))]), ())
      }
    }

    /// Waits until the engine and the shared hub have nothing left to do.
    func waitUntilIdle() async throws {
      for _ in 0..<3 {
        _ = try await engine.transact { _ in Decision(nil, ()) }
        await loop.run()
      }
    }

    /// Gives own hubs their turns until they want none.
    func giveTurns() async throws {
      repeat {
        try await waitUntilIdle()
      } while try await loop.executeInContext { [due] in
        guard let body = due.value.take() else { return false }
        body()
        return true
      }
    }
  }

  /// A connection that notes the numbers of the commits whose events it gets.
  fileprivate final class Connection: Subscriber {
    private let network: String?
    private(set) var hub: EventHub
    private(set) var subscriptions: [HubSubscription] = []
    /// The numbers of the starts and of the events, in the order in which they came.
    private(set) var sequences: [Int64] = []
    /// The number of events of each subscription.
    private(set) var counts: [Int64: Int] = [:]
    /// The number of the last commit of each subscription.
    private var last: [Int64: Int64] = [:]
    /// Whether a subscription got a commit twice, or an older one.
    private(set) var isRepeated = false

    init(_ hubs: EventHubs, network: String?) {
      hub = hubs.shared
      self.network = network
    }

    private var turns: TurnGroup {
      TurnGroup(network: network, connection: ObjectIdentifier(self))
    }

    func begin(_ hubs: EventHubs) throws {
      let number = Int64(subscriptions.count + 1)
      let subscription = HubSubscription(
        number: number, isAuthorized: false, network: network, subscriber: self)
      let order = Order.child(Path.root.child(try Key("o\(number)")))
      let listening = Listening(try Path("place"), try Query(order: order), form: .value)
      let present = hub
      hub = hubs.hub(for: turns, using: present, count: subscriptions.count + 1)
      if hub !== present { hub.take(subscriptions, from: present) }
      subscriptions.append(subscription)
      hub.begin(subscription, listening, nil) { [self] result in
        if case .success(let start) = result { sequences.append(start.sequence) }
      }
    }

    func accepts(_ notifications: [Notification], bytes: Int, for number: Int64) -> Bool {
      for notification in notifications {
        if let last = last[number], last >= notification.sequence { isRepeated = true }
        last[number] = notification.sequence
      }
      counts[number, default: 0] += notifications.count
      sequences += notifications.map(\.sequence)
      return true
    }

    func send(events lines: ByteBuffer) {}
    func send(eventHead head: ByteBuffer, rest: ByteBuffer) {}
    func send(events lines: LinePieces) {}
    func cancel(_ subscription: Int64, _ code: WireError.Code) {}
  }

  private func withSetting(_ body: (Setting) async throws -> Void) async throws {
    try await withServer(.inProcess) { server in
      let setting = try await Setting(server.parts.operations)
      try await body(setting)
      await setting.loop.shutdownGracefully()
    }
  }

  @Test func `a reply does not wait for the events of a connection with many subscriptions`()
    async throws
  {
    try await withSetting { setting in
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
    try await withSetting { setting in
      let number = try await setting.open(EventHubs.connectionMax)
      func isShared() async throws -> Bool {
        try await setting.onLoop(number) { $0.hub === setting.hubs.value.shared }
      }
      #expect(try await isShared())
      try await setting.begin(number)
      #expect(try await !isShared())
      try await setting.giveTurns()
      for commit in 1...3 as ClosedRange<Int64> { try await setting.write(commit) }
      try await setting.giveTurns()
      // Ended subscriptions get nothing, and their views are gone.
      let counts = try await setting.onLoop(number) { connection in
        let counts = connection.counts
        for subscription in connection.subscriptions { connection.hub.end(subscription) }
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
    try await withSetting { setting in
      let each = EventHubs.connectionMax
      for _ in 0..<EventHubs.networkMax / each {
        let number = try await setting.open(each, network: "192.0.2.1")
        try await setting.waitUntilIdle()
        #expect(try await setting.onLoop(number) { $0.hub === setting.hubs.value.shared })
      }
      var own: [Int] = []
      for _ in 0..<2 { own.append(try await setting.open(1, network: "192.0.2.1")) }
      let hubs = try await setting.loop.executeInContext { setting.hubs.value.ownCount }
      #expect(hubs == 1)
      for number in own {
        #expect(try await setting.onLoop(number) { $0.hub !== setting.hubs.value.shared })
      }
      let other = try await setting.open(1, network: "192.0.2.2")
      #expect(try await setting.onLoop(other) { $0.hub === setting.hubs.value.shared })
    }
  }

  @Test func `no event is lost, doubled or out of order while subscriptions begin, move and end`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "OwnHubTests.moves")
    try await withSetting { setting in
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
    _ setting: Setting, _ connections: [Int]
  ) async throws -> [[Int64: Int]] {
    var counts: [[Int64: Int]] = []
    for number in connections { counts.append(try await setting.onLoop(number) { $0.counts }) }
    return counts
  }

  @Test func `events of an own hub do not wait for long reads, which wait for events`() async throws
  {
    try await withServer(.inProcess) { server in
      let operations = server.parts.operations
      let setting = try await Setting(operations)
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
        #expect(try await client.readLine().hasPrefix("+"))
        #expect(try await client.readLine() == "+\(value)")
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
      for _ in 0..<4 * places { #expect(try await writer.readLine().hasPrefix("+")) }
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
