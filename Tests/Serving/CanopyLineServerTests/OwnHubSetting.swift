import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded

@testable import CanopyEvents
@testable import CanopyLineServer

/// Hubs on a loop that a test runs. The turns of own hubs are given by the test.
final class OwnHubSetting: Sendable {
  let engine: Engine
  let loop = NIOAsyncTestingEventLoop()
  let hubs: NIOLoopBound<EventHubs>
  private let due: NIOLoopBoundBox<(() -> Void)?>
  private let connections: NIOLoopBoundBox<[OwnHubConnection]>

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
  func open(
    _ count: Int, network: String? = nil, form: EventForm = .value,
    _ authorization: ListenAuthorization? = nil
  ) async throws -> Int {
    try await loop.executeInContext { [self] in
      let connection = OwnHubConnection(hubs.value, network: network, form: form, authorization)
      connections.value.append(connection)
      for _ in 0..<count { try connection.begin(hubs.value) }
      return connections.value.count - 1
    }
  }

  func begin(_ number: Int) async throws {
    try await onLoop(number) { [self] in try $0.begin(hubs.value) }
  }

  /// Whether a connection uses the shared hub.
  func isShared(_ number: Int) async throws -> Bool {
    try await onLoop(number) { [self] in $0.hub === hubs.value.shared }
  }

  /// The bytes of the events that the shared hub has sent to a connection.
  func sharedBytes(_ number: Int) async throws -> Int {
    try await onLoop(number) { $0.sharedBytes }
  }

  /// The number of own hubs.
  var ownCount: Int {
    get async throws { try await loop.executeInContext { [self] in hubs.value.ownCount } }
  }

  /// The views of the shared hub and of the hub of a connection, and the moves to that hub.
  func left(_ number: Int) async throws -> [Int] {
    try await onLoop(number) { [self] connection in
      let (shared, own) = (hubs.value.shared.state.value, connection.hub.state.value)
      return [shared.viewCount, own.viewCount, own.moves]
    }
  }

  func onLoop<Value: Sendable>(
    _ number: Int, _ body: @escaping @Sendable (OwnHubConnection) throws -> Value
  ) async throws -> Value {
    try await loop.executeInContext { [self] in try body(connections.value[number]) }
  }

  func write(_ number: Int64, to path: String = "place/x") async throws {
    try await write(value: Node(number), to: path)
  }

  func write(value: Node, to path: String = "place/x") async throws {
    _ = try await engine.transact { _ in
      Decision(try Write([Write.Item(try Path(path), value)]), ())
    }
  }

  /// Waits until the engine has done what the loop has asked for. The loop takes nothing.
  func waitForEngine() async throws {
    _ = try await engine.transact { _ in Decision(nil, ()) }
  }

  /// Waits until the engine and the shared hub have nothing left to do.
  func waitUntilIdle() async throws {
    for _ in 0..<3 {
      try await waitForEngine()
      await loop.run()
    }
  }

  /// Gives own hubs their turns until they want none.
  func giveTurns() async throws {
    repeat { try await waitUntilIdle() } while try await giveTurn()
  }

  /// Gives an own hub a turn. Returns whether one wanted it.
  func giveTurn() async throws -> Bool {
    try await loop.executeInContext { [due] in
      guard let body = due.value.take() else { return false }
      body()
      return true
    }
  }
}

/// A connection that notes the numbers of the commits whose events it gets.
final class OwnHubConnection: Subscriber {
  private let network: String?
  private let form: EventForm
  private let authorization: ListenAuthorization?
  private let hubs: EventHubs
  private(set) var hub: EventHub
  private(set) var subscriptions: [HubSubscription] = []
  /// The numbers of the starts and of the events, in the order in which they came.
  private(set) var sequences: [Int64] = []
  /// The number of events of each subscription.
  private(set) var counts: [Int64: Int] = [:]
  /// The bytes of the events that came from the shared hub.
  private(set) var sharedBytes = 0
  /// The number of the last commit of each subscription.
  private var last: [Int64: Int64] = [:]
  /// Whether a subscription got a commit twice, or an older one.
  private(set) var isRepeated = false
  /// The number of subscriptions that did not begin.
  private(set) var refused = 0
  /// The subscriptions that were cancelled.
  private(set) var cancelled: [Int64] = []

  init(
    _ hubs: EventHubs, network: String?, form: EventForm, _ authorization: ListenAuthorization?
  ) {
    self.hubs = hubs
    hub = hubs.shared
    self.network = network
    self.form = form
    self.authorization = authorization
  }

  private var turns: TurnGroup {
    TurnGroup(network: network, connection: ObjectIdentifier(self))
  }

  func begin(_ hubs: EventHubs) throws {
    let number = Int64(subscriptions.count + 1)
    let subscription = HubSubscription(
      number: number, isAuthorized: authorization != nil, network: network, subscriber: self)
    let order = Order.child(Path.root.child(try Key("o\(number)")))
    let listening = Listening(try Path("place"), try Query(order: order), form: form)
    let present = hub
    let isLarge =
      present === hubs.shared
      && hubs.isLarge(
        ListenStart(listening, present.engine.snapshot), of: subscription,
        bytesMax: Limits().wholeReplyBytesMax)
    hub = hubs.hub(
      for: turns, using: present, count: subscriptions.count + 1, needsOwn: isLarge)
    if hub !== present { hub.take(subscriptions, from: present) }
    subscriptions.append(subscription)
    hub.begin(subscription, listening, authorization) { [self] result in
      switch result {
      case .success(let start): sequences.append(start.sequence)
      case .failure: refused += 1
      }
    }
  }

  /// Does what a handler does.
  private func note(_ bytes: Int, of subscription: HubSubscription) {
    if subscription.hub === hubs.shared { sharedBytes += bytes }
    guard hub === hubs.shared,
      hubs.isLarge(
        eventBytes: bytes, of: subscription, bytesMax: Limits().wholeReplyBytesMax)
    else { return }
    hub = hubs.hub(for: turns, using: hub, count: subscriptions.count, needsOwn: true)
    hub.take(subscriptions, from: hubs.shared)
  }

  func endAll() {
    for subscription in subscriptions { hub.end(subscription) }
  }

  func accepts(_ notifications: [Notification], bytes: ValueBytes, for number: Int64) -> Bool {
    for notification in notifications {
      if let last = last[number], last >= notification.sequence { isRepeated = true }
      last[number] = notification.sequence
    }
    counts[number, default: 0] += notifications.count
    if let subscription = subscriptions.first(where: { $0.number == number }) {
      note(bytes.json / max(1, notifications.count), of: subscription)
    }
    sequences += notifications.map(\.sequence)
    return true
  }

  func send(events lines: ByteBuffer) {}
  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {}
  func send(events lines: LinePieces) {}

  func cancel(_ subscription: Int64, _ code: WireError.Code) {
    cancelled.append(subscription)
    for found in subscriptions where found.number == subscription { hub.end(found) }
  }
}

func withOwnHubSetting(_ body: (OwnHubSetting) async throws -> Void) async throws {
  try await withServer(.inProcess) { server in
    let setting = try await OwnHubSetting(server.parts.operations)
    try await body(setting)
    await setting.loop.shutdownGracefully()
  }
}
