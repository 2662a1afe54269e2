import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer

/// How often those who listen are sent something, while commits follow each other.
struct EventHubTests {
  @Test func `many listeners are sent at once what commits that are under way do`() async throws {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 0, lines: 0)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 2)]))
    }
  }

  @Test func `many listeners wait for a slow disk three milliseconds, not more`() async throws {
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

  @Test func `many listeners do not wait where nothing is under way`() async throws {
    try await withHub(listeners: 64) { setting in
      _ = try await setting.engine.transact { _ in try setting.write(1) }
      // The engine is idle when it has answered that there is nothing to do.
      _ = try await setting.engine.transact { _ in Decision(nil, ()) }
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
    }
  }

  @Test func `a reply that waits for the events before it has them sent`() async throws {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      try await setting.loop.executeInContext { setting.hub.drain() }
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `a subscriber that takes no more is asked before later events are encoded`()
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
        // The others are one batch.
        if number == 0 { await first.reached() }
      }
      first.open()
      try await setting.waitUntilIdle()
      // 64 KiB are two large events and the two small ones before them.
      #expect(try await setting.asked() == [1, 4, 4])
    }
  }

  private func withHub(
    listeners count: Int, _ body: @escaping @Sendable (Setting) async throws -> Void
  ) async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop)
      let hub = EventHub(inbox, engine: engine, limits: Limits())
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      let setting = Setting(journal, engine, loop, hub)
      try await setting.begin(count)
      try await body(setting)
      await loop.shutdownGracefully()
    }
  }
}

/// What one listener was sent.
private struct Sent: Hashable {
  var times = 0
  var lines = 0
}

/// A hub with listeners to one place, on a loop that runs when a test says so.
private final class Setting: Sendable {
  let journal: FaultyJournal<InMemoryJournal>
  let engine: Engine
  let loop: NIOAsyncTestingEventLoop
  let hub: EventHub
  private let listeners: NIOLoopBoundBox<[ListenerOfOne]>

  init(
    _ journal: FaultyJournal<InMemoryJournal>, _ engine: Engine, _ loop: NIOAsyncTestingEventLoop,
    _ hub: EventHub
  ) {
    self.journal = journal
    self.engine = engine
    self.loop = loop
    self.hub = hub
    listeners = .makeBoxSendingValue([], eventLoop: loop)
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

  /// Waits until the engine has done all that was asked, and the loop all that came of it.
  func waitUntilIdle() async throws {
    for _ in 0..<2 {
      _ = try await engine.transact { _ in Decision(nil, ()) }
      await loop.run()
    }
  }

  func write(_ number: Int64) throws -> Decision<Void> {
    Decision(try Write([Write.Item(try Path("place"), Node(number))]), ())
  }

  /// Makes a commit of which listeners are told, while another one waits for the disk.
  ///
  /// - Returns: where it waits.
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

  /// The numbers of events about which the first listener was asked.
  func asked() async throws -> [Int] {
    try await loop.executeInContext { self.listeners.value.first?.asked ?? [] }
  }

  /// Has the first listener end its subscription when it is asked for so many times.
  func end(after count: Int) async throws {
    try await loop.executeInContext { [self] in
      listeners.value.first?.onAsked = { [weak self] asked, subscription in
        if asked == count, let subscription { self?.hub.end(subscription) }
      }
    }
  }

  /// What each listener was sent: one element where all were sent the same.
  func sent() async throws -> Set<Sent> {
    try await loop.executeInContext { Set(self.listeners.value.map(\.sent)) }
  }
}

/// A connection that listens to one place.
private final class ListenerOfOne: Subscriber, Flushable {
  private let unflushed: FlushQueue
  private var waitingLines = 0
  private var isDue = false
  private(set) var sent = Sent()
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

  func receive(_ lines: ByteBuffer) {
    waitingLines += lines.readableBytesView.count { $0 == UInt8(ascii: "\n") }
    if !isDue { unflushed.append(self) }
    isDue = true
  }

  func receive(_ lines: LinePieces) {}

  func cancel(_ subscription: Int64, _ code: WireError.Code) {}

  func flush() {
    isDue = false
    sent.times += 1
    sent.lines += waitingLines
    waitingLines = 0
  }
}
