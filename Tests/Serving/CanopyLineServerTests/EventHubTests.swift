import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Dispatch
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// The events that an event loop sends to its subscriptions, and when it sends them.
struct EventHubTests {
  @Test
  func `many listeners receive the events of several commits at once while commits are under way`()
    async throws
  {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 0, lines: 0)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 2)]))
    }
  }

  @Test func `many listeners wait at most three milliseconds for a slow disk`() async throws {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.advanceTime(by: .microseconds(2_999))
      #expect(try await setting.sent() == Set([Sent(times: 0, lines: 0)]))
      await setting.loop.advanceTime(by: .microseconds(1))
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `few listeners do not wait for commits that are under way`() async throws {
    try await withHub(listeners: 63) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `many listeners do not wait when no commit is under way`() async throws {
    try await withHub(listeners: 64) { setting in
      _ = try await setting.engine.transact { _ in try setting.write(1) }
      // The engine is idle when it has answered an empty request.
      _ = try await setting.engine.transact { _ in Decision(nil, ()) }
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
    }
  }

  @Test func `a reply that waits for earlier events sends them at once`() async throws {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      try await setting.loop.executeInContext { _ = setting.hub.drain() }
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `a subscriber is asked before later events are encoded, and may refuse them`()
    async throws
  {
    try await withHub(listeners: 1) { setting in
      // Each event has some 50 KB: the second fills a group.
      let value = Node(String(repeating: "x", count: 50_000))
      try await setting.end(after: 3)
      let first = setting.journal.holdNextAppend()
      for number in 0...40 as ClosedRange<Int64> {
        setting.engine.submit { _ in
          let value = number > 0 && number % 2 == 0 ? value : Node(number)
          return Decision(try Write([Write.Item(try Path("place"), value)]), ())
        } completion: { _ in
        }
        // The other commits are one batch.
        if number == 0 { await first.reached() }
      }
      first.open()
      try await setting.waitUntilIdle()
      // 64 KiB are two large events and the two small ones before them.
      #expect(try await setting.asked() == [1, 4, 4])
    }
  }

  @Test func `subscriptions of two protocols share a view, and each gets its own text`()
    async throws
  {
    try await withHub(listeners: 0) { setting in
      try await setting.begin([.line, .stream, .line])
      _ = try await setting.engine.transact { _ in try setting.write(7) }
      try await setting.waitUntilIdle()
      let texts = try await setting.texts()
      let line =
        #">{"sub":1,"event":"put","path":"/","data":7,"seq":\#(setting.engine.snapshot.sequence)}"#
      #expect(texts == [[line], ["event: put", #"data: {"path":"/","data":7}"#], [line]])
    }
  }

  @Test func `a loop that is behind sends each commit as long as few wait`() async throws {
    try await withHub(listeners: 1) { setting in
      for number in 1...1_000 as ClosedRange<Int64> {
        _ = try await setting.engine.transact { _ in try setting.write(number) }
      }
      await setting.loop.run()
      let values = try await setting.lines().map { try Event($0) }
      #expect(values.map(\.sequence) == (1...1_000).map { $0 })
    }
  }

  @Test func `a loop that is behind by many commits sends the newest value`() async throws {
    try await withHub(listeners: 1, eventBytesMax: 100 * PendingEvents.eventBytes) { setting in
      // The first commit is one batch, and all others are the next one.
      let first = setting.journal.holdNextAppend()
      for number in 1...1_000 as ClosedRange<Int64> {
        setting.engine.submit { _ in
          try setting.write(number)
        } completion: { _ in
        }
        if number == 1 { await first.reached() }
      }
      first.open()
      try await setting.waitUntilIdle()
      await setting.loop.run()
      let events = try await setting.lines().map { try Event($0) }
      #expect(events.count <= 101)
      #expect(events.last?.sequence == 1_000 && events.last?.data == .leaf(1_000))
      #expect(
        zip(events, events.dropFirst()).allSatisfy { ($0.sequence ?? 0) < ($1.sequence ?? 0) })
      // Later commits are sent one by one again.
      for number in 1_001...1_010 as ClosedRange<Int64> {
        _ = try await setting.engine.transact { _ in try setting.write(number) }
      }
      await setting.loop.run()
      let later = try await setting.lines().dropFirst(events.count).map { try Event($0).sequence }
      #expect(later == (1_001...1_010).map { $0 })
    }
  }

  @Test(arguments: [1, 20], [0, 2])
  func `copies equal their queries' answers however far their loop is behind`(
    _ eventsMax: Int, _ depth: Int
  ) async throws {
    // In one case each turn ends at the first look at the clock.
    let turnMax = eventsMax == 20 ? TimeAmount.zero : .hours(1)
    let random = SeededGenerator(printingSeedFor: "EventHubTests.behind")
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      var random = random
      var writes = RandomWrites()
      writes.keysMax = 4
      writes.depthMax = 3
      writes.bigOnceIn = 1_000
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(
        engine, loop: loop, eventBytesMax: eventsMax * PendingEvents.eventBytes)
      let hub = EventHub.test(inbox, engine, turnMax: turnMax)
      let setting = Setting(journal, engine, loop, hub)
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      // With a depth of zero all of them listen to one place, more than the writer notifies one by one.
      let count = depth == 0 ? 90 : 20
      for round in 0..<60 {
        // Some begin while commits wait.
        if round % 5 == 0 {
          for _ in 0..<count / 12 + 1 {
            var listening = try Listening.random(&random)
            listening.path = listening.path.prefix(min(depth, listening.path.count))
            try await setting.begin(listening)
          }
        }
        for _ in 0..<Int.random(in: 1...12, using: &random) {
          let write = writes.next(&random)
          _ = try? await engine.transact { _ in Decision(write, ()) }
        }
        guard random.oneIn(3) else { continue }
        try await setting.waitUntilIdle()
        let root = engine.root
        let problems = try await loop.executeInContext {
          try setting.copies.value.compactMap { try $0.problem(root) }
        }
        #expect(problems == [], "round \(round)")
        if !problems.isEmpty { break }
      }
      await loop.shutdownGracefully()
    }
  }

  @Test func `a read sees no newer commit than the events before it, whatever others read`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop)
      let hub = EventHub.test(inbox, engine)
      let setting = Setting(journal, engine, loop, hub)
      try await setting.begin(1)
      _ = try await engine.transact { _ in try setting.write(1) }
      let sequence = try await loop.executeInContext {
        // A connection that has waited reads a commit that was not published when its events were taken.
        hub.wait { _ in
          let isCommitted = DispatchSemaphore(value: 0)
          engine.submit { _ in
            try setting.write(2)
          } completion: { _ in
            isCommitted.signal()
          }
          isCommitted.wait()
          inbox.release()
          #expect(inbox.snapshot.root == engine.root)
        }
        #expect(hub.drain())
        return inbox.snapshot.sequence
      }
      let events = try await setting.lines().map { try Event($0) }
      #expect(events.count == 2 && events.last?.sequence == sequence)
      await loop.shutdownGracefully()
    }
  }

  private func withHub(
    listeners count: Int, eventBytesMax: Int = LoopInbox.eventBytesMax,
    _ body: @escaping @Sendable (Setting) async throws -> Void
  ) async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop, eventBytesMax: eventBytesMax)
      let hub = EventHub.test(inbox, engine)
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      let setting = Setting(journal, engine, loop, hub)
      try await setting.begin(count)
      try await body(setting)
      await loop.shutdownGracefully()
    }
  }
}

extension EventHub {
  /// Creates a hub whose turns never end, or end at the second look at the clock if `turnMax` is zero. It goes on when
  /// the test runs the loop.
  static func test(
    _ inbox: LoopInbox, _ engine: Engine, turnMax: TimeAmount = .hours(1)
  ) -> EventHub {
    let loop = inbox.loop
    let clock = LookClock(step: turnMax == .zero ? HubTurn.timeMax : .zero)
    return EventHub(inbox, engine: engine, limits: Limits()) {
      clock.look()
    } later: { body in
      let bound = NIOLoopBound(body, eventLoop: loop)
      loop.execute { bound.value() }
    }
  }
}

/// A clock that goes on by a step with each look at it.
final class LookClock: Sendable {
  private let step: TimeAmount
  private let looks = Mutex<Int64>(0)

  init(step: TimeAmount) {
    self.step = step
  }

  func look() -> NIODeadline {
    looks.withLock { looks in
      looks += 1
      return NIODeadline.uptimeNanoseconds(0) + .nanoseconds(looks * step.nanoseconds)
    }
  }
}

/// The events that one listener received.
struct Sent: Hashable {
  var times = 0
  var lines = 0
}

/// A hub with listeners to one location, on a loop that a test runs.
private final class Setting: Sendable {
  let journal: FaultyJournal<InMemoryJournal>
  let engine: Engine
  let loop: NIOAsyncTestingEventLoop
  let hub: EventHub
  private let listeners: NIOLoopBoundBox<[ListenerOfOne]>
  let copies: NIOLoopBoundBox<[CopyOfOne]>

  init(
    _ journal: FaultyJournal<InMemoryJournal>, _ engine: Engine, _ loop: NIOAsyncTestingEventLoop,
    _ hub: EventHub
  ) {
    self.journal = journal
    self.engine = engine
    self.loop = loop
    self.hub = hub
    listeners = .makeBoxSendingValue([], eventLoop: loop)
    copies = .makeBoxSendingValue([], eventLoop: loop)
  }

  /// Begins to listen with a copy of what the query shows.
  func begin(_ listening: Listening) async throws {
    try await loop.executeInContext { [self] in
      let copy = CopyOfOne(listening)
      copies.value.append(copy)
      let subscription = HubSubscription(number: 1, isAuthorized: false, subscriber: copy)
      hub.begin(subscription, listening, nil) { result in copy.begin(result) }
    }
    // The listener is registered, and the loop does not know of it yet.
    _ = try await engine.transact { _ in Decision(nil, ()) }
  }

  /// Returns the lines that the first listener received.
  func lines() async throws -> [String] {
    try await loop.executeInContext { self.listeners.value.first?.lines ?? [] }
  }

  func begin(_ count: Int) async throws {
    let listening = Listening(try Path("place"), form: .value)
    try await loop.executeInContext { [self] in
      let unflushed = FlushQueue(loop: loop) {}
      for _ in 0..<count {
        let listener = ListenerOfOne(unflushed)
        listeners.value.append(listener)
        let subscription = HubSubscription(number: 1, isAuthorized: false, subscriber: listener)
        listener.subscription = subscription
        hub.begin(subscription, listening, nil) { _ in }
      }
    }
    try await waitUntilIdle()
  }

  /// Begins to listen in each of these protocols.
  func begin(_ formats: [EventFormat]) async throws {
    let listening = Listening(try Path("place"), form: .sync)
    try await loop.executeInContext { [self] in
      let unflushed = FlushQueue(loop: loop) {}
      for format in formats {
        let listener = ListenerOfOne(unflushed)
        listeners.value.append(listener)
        let subscription = HubSubscription(
          number: 1, isAuthorized: false, format: format, subscriber: listener)
        hub.begin(subscription, listening, nil) { _ in }
      }
    }
    try await waitUntilIdle()
  }

  /// Returns the lines that each listener received.
  func texts() async throws -> [[String]] {
    try await loop.executeInContext { self.listeners.value.map(\.lines) }
  }

  /// Waits until the engine and the loop have nothing left to do.
  func waitUntilIdle() async throws {
    for _ in 0..<2 {
      _ = try await engine.transact { _ in Decision(nil, ()) }
      await loop.run()
    }
  }

  func write(_ number: Int64) throws -> Decision<Void> {
    Decision(try Write([Write.Item(try Path("place"), Node(number))]), ())
  }

  /// Makes a commit that listeners are notified of, while another one waits for the disk.
  ///
  /// - Returns: the gate at which it waits.
  func commitAndHoldTheNext() async throws -> Gate {
    let first = journal.holdNextAppend()
    let second = journal.holdNextAppend()
    async let told = engine.transact { [self] _ in try write(1) }
    await first.reached()
    engine.submit { [self] _ in
      try write(2)
    } completion: { _ in
    }
    first.open()
    _ = try await told
    await second.reached()
    return second
  }

  /// The numbers of events for which the first listener was asked.
  func asked() async throws -> [Int] {
    try await loop.executeInContext { self.listeners.value.first?.asked ?? [] }
  }

  /// Makes the first listener end its subscription when it has been asked this number of times.
  func end(after count: Int) async throws {
    try await loop.executeInContext { [self] in
      listeners.value.first?.onAsked = { [weak self] asked, subscription in
        if asked == count, let subscription { self?.hub.end(subscription) }
      }
    }
  }

  /// Returns the events that each listener received: one element if all received the same.
  func sent() async throws -> Set<Sent> {
    try await loop.executeInContext { Set(self.listeners.value.map(\.sent)) }
  }
}

/// A connection that listens to one location.
final class ListenerOfOne: Subscriber, Flushable {
  private let unflushed: FlushQueue
  private var waitingLines = 0
  private var isDue = false
  private(set) var sent = Sent()
  private(set) var lines: [String] = []
  private(set) var asked: [Int] = []
  weak var subscription: HubSubscription?
  var onAsked: (Int, HubSubscription?) -> Void = { _, _ in }

  init(_ unflushed: FlushQueue) {
    self.unflushed = unflushed
  }

  func accepts(_ notifications: [Notification], bytes: Int, for number: Int64) -> Bool {
    asked.append(notifications.count)
    onAsked(asked.count, subscription)
    return true
  }

  func send(events lines: ByteBuffer) {
    self.lines += String(buffer: lines).split(whereSeparator: \.isNewline).map(String.init)
    waitingLines += lines.readableBytesView.count { $0 == UInt8(ascii: "\n") }
    if !isDue { unflushed.append(self) }
    isDue = true
  }

  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    send(events: ByteBuffer(bytes: Array(buffer: head) + Array(buffer: rest)))
  }

  func send(events lines: LinePieces) {}

  func cancel(_ subscription: Int64, _ code: WireError.Code) {}

  func flush() {
    isDue = false
    sent.times += 1
    sent.lines += waitingLines
    waitingLines = 0
  }
}

/// A copy of what one query shows, made of the lines of its events.
private final class CopyOfOne: Subscriber {
  private var replica: ListenReplica
  private var problem: String?

  init(_ listening: Listening) {
    replica = ListenReplica(listening, options: "")
  }

  func begin(_ result: Result<ListenStart, EventHub.Refusal>) {
    take {
      guard case .success(let start) = result else { return problem = "it does not begin" }
      let lines = try EventLines(
        start: start, of: start.listening, isAgain: true, bytesMax: .max)
      try replica.begin("+{\"sub\":1,\"seq\":\(start.sequence),\"initial\":\(lines.count)}")
      send(events: lines.bytes(for: 1))
    }
  }

  func problem(_ root: Node) throws -> String? {
    try problem ?? replica.problem(root)
  }

  func accepts(_ notifications: [Notification], bytes: Int, for number: Int64) -> Bool { true }

  func send(events lines: ByteBuffer) {
    take {
      // By bytes: a carriage return and a newline are one character.
      for line in lines.readableBytesView.split(separator: UInt8(ascii: "\n")) {
        try replica.take(try Event(String(decoding: line, as: UTF8.self)))
      }
    }
  }

  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    send(events: ByteBuffer(bytes: Array(buffer: head) + Array(buffer: rest)))
  }

  func send(events lines: LinePieces) {
    problem = "an event is large"
  }

  func cancel(_ subscription: Int64, _ code: WireError.Code) {
    problem = "it is cancelled"
  }

  private func take(_ body: () throws -> Void) {
    do { try body() } catch { problem = problem ?? "\(error)" }
  }
}
