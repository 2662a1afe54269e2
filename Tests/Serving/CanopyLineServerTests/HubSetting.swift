import CanopyEngine
import CanopySession
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
final class HubSetting: Sendable {
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

  func begin(_ count: Int, _ listening: Listening? = nil) async throws {
    let listening = try listening ?? Listening(Path("place"), form: .value)
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
  var waitsForFlush = false
  private(set) var sent = Sent()
  private(set) var lines: [String] = []
  private(set) var asked: [Int] = []
  weak var subscription: HubSubscription?
  var onAsked: (Int, HubSubscription?) -> Void = { _, _ in }

  init(_ unflushed: FlushQueue) {
    self.unflushed = unflushed
  }

  func accepts(_ notifications: [Notification], bytes: ValueBytes, for number: Int64) -> Bool {
    asked.append(notifications.count)
    onAsked(asked.count, subscription)
    return true
  }

  func send(events lines: ByteBuffer) {
    self.lines += String(buffer: lines).split(whereSeparator: \.isNewline).map(String.init)
    waitingLines += lines.readableBytesView.count { $0 == UInt8(ascii: "\n") }
    unflushed.append(self)
  }

  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    send(events: ByteBuffer(bytes: Array(buffer: head) + Array(buffer: rest)))
  }

  func send(events lines: LinePieces) {
    var pieces = lines
    var output = JSONOutput(capacity: 1024)
    while !pieces.isDone { pieces.write(to: &output, bytes: 1024) }
    send(events: output.withBytes { ByteBuffer(bytes: $0) })
  }

  func cancel(_ subscription: Int64, _ code: WireError.Code) {}

  func flush() {
    sent.times += 1
    sent.lines += waitingLines
    waitingLines = 0
  }
}

/// A copy of what one query shows, made of the lines of its events.
final class CopyOfOne: Subscriber {
  private var replica: ListenReplica
  private var problem: String?

  init(_ listening: Listening) {
    replica = ListenReplica(listening, options: "")
  }

  func begin(_ result: Result<ListenStart, EventHub.Refusal>) {
    take {
      guard case .success(let start) = result else { return problem = "it does not begin" }
      let lines = try EventLines(
        start.listening.state(of: start.node), start.sequence, of: start.listening, isAgain: true,
        bytesMax: .max)
      try replica.begin("+{\"sub\":1,\"seq\":\(start.sequence),\"initial\":\(lines.count)}")
      send(events: lines.bytes(for: 1))
    }
  }

  func problem(_ root: Node) throws -> String? {
    try problem ?? replica.problem(root)
  }

  func accepts(_ notifications: [Notification], bytes: ValueBytes, for number: Int64) -> Bool {
    true
  }

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

extension ViewDelivery {
  /// Carries out all steps. They do long work themselves if it is not carried out before.
  func finish() {
    while step() != nil {}
  }
}
