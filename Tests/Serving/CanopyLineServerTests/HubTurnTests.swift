import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEngine
@testable import CanopyEvents

/// The turns in which an event loop sends events, between which it serves other connections.
@Suite(.timeLimit(.minutes(20))) struct HubTurnTests {
  /// A hub with views that all show every commit, whose later turns the test gives.
  private final class Setting: Sendable {
    let engine: Engine
    let loop: NIOAsyncTestingEventLoop
    let hub: EventHub
    private let later: NIOLoopBoundBox<(() -> Void)?>
    private let listeners: NIOLoopBoundBox<[ListenerOfOne]>

    init(_ engine: Engine) async throws {
      self.engine = engine
      let loop = NIOAsyncTestingEventLoop()
      self.loop = loop
      let inbox = LoopInbox(engine, loop: loop)
      let later = NIOLoopBoundBox<(() -> Void)?>.makeBoxSendingValue(nil, eventLoop: loop)
      self.later = later
      let clock = LookClock(step: HubTurn.timeMax)
      let hub = EventHub(inbox, engine: engine, limits: Limits()) {
        clock.look()
      } later: {
        later.value = $0
      }
      self.hub = hub
      listeners = .makeBoxSendingValue([], eventLoop: loop)
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
    }

    func begin(_ count: Int) async throws {
      for index in 0..<count {
        let order = Order.child(Path.root.child(try Key("o\(index)")))
        let listening = Listening(try Path("place"), try Query(order: order), form: .value)
        try await loop.executeInContext { [self] in
          let listener = ListenerOfOne(FlushQueue(loop: loop) {})
          listeners.value.append(listener)
          let subscription = HubSubscription(number: 1, isAuthorized: false, subscriber: listener)
          listener.subscription = subscription
          hub.begin(subscription, listening, nil) { _ in }
        }
      }
      try await write(0)
      while try await goOn() {}
    }

    func write(_ number: Int64) async throws {
      _ = try await engine.transact { _ in
        Decision(try Write([Write.Item(try Path("place/x"), Node(number))]), ())
      }
      // The engine is idle when it has answered an empty request. Then the hub does not wait for more commits.
      _ = try await engine.transact { _ in Decision(nil, ()) }
    }

    /// Gives the hub a turn. Returns whether it had more to do.
    func goOn() async throws -> Bool {
      await loop.run()
      let isDue = try await loop.executeInContext { [self] in
        guard let body = later.value.take() else { return false }
        body()
        return true
      }
      await loop.run()
      return isDue
    }

    /// Delivers commits to the first listener that have waited for it.
    func deliver(_ numbers: ClosedRange<Int64>) async throws {
      try await loop.executeInContext { [self] in
        let subscription = try #require(listeners.value.first?.subscription)
        let listening = try #require(subscription.view?.listening)
        let notifications = try numbers.map { number in
          var tree = Tree()
          let assignments = [Assignment(Location(try Path("place/x")), Node(number))]
          tree.apply(assignments)
          return CommittedChange(
            Change(
              commit: Commit(sequence: number, time: 0, assignments: assignments),
              views: ConcernedViews(), before: .absent, after: tree.root), bytes: 0
          ).notification(for: listening)
        }
        hub.deliver(notifications, to: subscription)
      }
    }

    /// The lines of each listener.
    func lines() async throws -> [[String]] {
      try await loop.executeInContext { self.listeners.value.map(\.lines) }
    }

    func onLoop<Value: Sendable>(
      _ body: @escaping @Sendable (EventHub) throws -> Value
    ) async throws -> Value {
      try await loop.executeInContext { [hub] in try body(hub) }
    }
  }

  private func withSetting(
    _ body: @escaping @Sendable (Setting) async throws -> Void
  ) async throws {
    try await withEngine { engine in
      let setting = try await Setting(engine)
      try await body(setting)
      await setting.loop.shutdownGracefully()
    }
  }

  @Test func `events that have waited are sent in several turns, before all later ones`()
    async throws
  {
    try await withSetting { setting in
      try await setting.begin(1)
      let start = try await setting.lines()[0].count
      let count = 5_000
      try await setting.deliver(1_001...1_000 + Int64(count))
      let first = try await setting.lines()[0].count - start
      #expect(first < count / 2, "\(first) events in one turn")
      // A connection that would reply now waits for them.
      #expect(try await !setting.onLoop { $0.drain() })
      try await setting.write(7)
      while try await setting.goOn() {}
      let data = try await setting.lines()[0].dropFirst(start).map {
        try Event($0).data?["x"]?.integer
      }
      #expect(data.count == count + 1 && data.last == 7)
      #expect(data.dropLast().elementsEqual((1_001...1_000 + Int64(count)).map { $0 }))
      #expect(try await setting.onLoop { $0.drain() })
    }
  }

  @Test
  func `a commit for many views is sent in several turns, and a connection waits for all of them`()
    async throws
  {
    try await withSetting { setting in
      try await setting.begin(80)
      let start = try await setting.lines().map(\.count)
      try await setting.write(1)
      await setting.loop.run()
      func sent() async throws -> Int {
        zip(try await setting.lines(), start).count { $0.count > $1 }
      }
      let first = try await sent()
      #expect(first < 10, "a turn sends to a few views: \(first)")
      // A connection that would reply now waits, and resumes with the snapshot after the events.
      let resumed = NIOLoopBoundBox<[Int64]>.makeBoxSendingValue([], eventLoop: setting.loop)
      let isDrained = try await setting.onLoop { hub in
        let isDrained = hub.drain()
        hub.wait { resumed.value.append($0.sequence) }
        return isDrained
      }
      func resumptions() async throws -> [Int64] {
        try await setting.onLoop { _ in resumed.value }
      }
      #expect(!isDrained)
      try await setting.write(2)
      var turns = 0
      while try await setting.goOn() {
        turns += 1
        if try await sent() < 80 { #expect(try await resumptions().isEmpty) }
      }
      #expect(turns > 10)
      #expect(try await resumptions() == [3])
      for lines in try await setting.lines() {
        let last = try Event(try #require(lines.last))
        #expect(last.sequence == 3)
      }
      #expect(try await setting.onLoop { $0.drain() })
    }
  }

  @Test func `commits that wait for many views are merged`() async throws {
    try await withSetting { setting in
      try await setting.begin(100)
      let start = try await setting.lines().map(\.count)
      let count = EventHub.notificationsMax / 100
      // As many as the bound are sent one by one.
      for number in 1...count { try await setting.write(Int64(number)) }
      while try await setting.goOn() {}
      let within = try await setting.lines().map(\.count)
      #expect(zip(within, start).allSatisfy { $0 - $1 == count })
      for number in 1...3 * count { try await setting.write(Int64(-number)) }
      while try await setting.goOn() {}
      let after = try await setting.lines()
      // On a slow machine the hub merges fewer of them.
      #expect(
        zip(after, within).allSatisfy { 1..<3 * count ~= $0.count - $1 },
        "\(after[0].count - within[0])")
      for lines in after {
        #expect(try Event(try #require(lines.last)).sequence == setting.engine.snapshot.sequence)
      }
    }
  }

  @Test func `a few small events need no look at the clock`() {
    var turn = HubTurn()
    var looks = 0
    for _ in 0..<HubTurn.stepsPerLook {
      let isOver = turn.isOver {
        looks += 1
        return .now()
      }
      #expect(!isOver)
    }
    #expect(looks == 0)
  }

  // MARK: Large events

  /// A connection that keeps the buffers of its events.
  private final class Reader: Subscriber {
    var heads: [ByteBuffer] = []
    var rests: [ByteBuffer] = []
    var lines: [ByteBuffer] = []

    func accepts(_ notifications: [Notification], bytes: ValueBytes, for subscription: Int64)
      -> Bool
    {
      true
    }

    func send(events lines: ByteBuffer) { self.lines.append(lines) }

    func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
      heads.append(head)
      rests.append(rest)
    }

    func send(events lines: LinePieces) {}

    func cancel(_ subscription: Int64, _ code: WireError.Code) {}
  }

  private static func deliver(
    bytes: Int, to reader: Reader, subscriptions count: Int64, in format: EventFormat = .line,
    _ each: (ViewDelivery.Step) -> Void
  ) throws {
    var tree = Tree()
    let assignments = [
      Assignment(Location(try Path("a")), Node(String(repeating: "x", count: bytes)))
    ]
    tree.apply(assignments)
    let change = CommittedChange(
      Change(
        commit: Commit(sequence: 7, time: 0, assignments: assignments), views: ConcernedViews(),
        before: .absent, after: tree.root), bytes: 0)
    let listening = Listening(try Path("a"), form: format == .line ? .value : .sync)
    let view = LocalView(listening, Limits(), number: 0)
    for number in 1...count {
      view.add(
        HubSubscription(number: number, isAuthorized: false, format: format, subscriber: reader))
    }
    let delivery = view.delivery(
      of: [(change.notification(for: listening), change)], in: nil)
    while let step = delivery.step() { each(step) }
  }

  @Test func `subscriptions with different numbers share the bytes of a large event`() throws {
    let reader = Reader()
    try Self.deliver(bytes: 100_000, to: reader, subscriptions: 40) { _ in }
    #expect(reader.lines.isEmpty && reader.rests.count == 40)
    let places = Set(
      reader.rests.map { $0.withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) } })
    #expect(places.count == 1, "there is one copy")
    for (index, (head, rest)) in zip(reader.heads, reader.rests).enumerated() {
      let event = try Event(String(buffer: head) + String(buffer: rest))
      #expect(event.sub == Int64(index + 1) && event.sequence == 7)
      #expect(event.data?.string?.utf8.count == 100_000)
    }
    // Small events are copied, as a buffer of its own would cost more.
    let other = Reader()
    try Self.deliver(bytes: 100, to: other, subscriptions: 2) { _ in }
    #expect(other.lines.count == 2 && other.rests.isEmpty)
  }

  @Test func `listeners with different tags share the bytes of a large message`() throws {
    let reader = Reader()
    try Self.deliver(bytes: 100_000, to: reader, subscriptions: 40, in: .realtime) { _ in }
    #expect(reader.lines.isEmpty && reader.rests.count == 40)
    let places = Set(
      reader.rests.map { $0.withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) } })
    #expect(places.count == 1, "there is one copy")
    #expect(Set(reader.heads).count == 40)
    // The text of an event stream has no number.
    let stream = Reader()
    try Self.deliver(bytes: 100_000, to: stream, subscriptions: 2, in: .stream) { _ in }
    #expect(stream.rests.isEmpty && stream.lines.count == 2 && Set(stream.lines).count == 1)
  }

  @Test func `a turn ends after a mebibyte of events, so that memory is released before more`()
    throws
  {
    var turn = HubTurn()
    var turns = 1
    var sent = 0
    let reader = Reader()
    try Self.deliver(bytes: 100_000, to: reader, subscriptions: 40) { step in
      if turn.isOver({ .uptimeNanoseconds(0) }) {
        turn = HubTurn()
        turns += 1
        sent = 0
      }
      turn.count(step)
      sent += step.bytes
      #expect(sent <= HubTurn.bytesMax + 101_000)
    }
    #expect(turns == 4)
  }
}
