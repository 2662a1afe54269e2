internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// One event stream: a listener of the form `sync`, from its request to its end.
///
/// It is a session with one request. Its events wait here until the connection has sent those before. Use it on
/// the event loop of its connection only; others use the `Handle`. The other file has its turns (`+Turns`).
final class EventStream {
  static let mediaType = "text/event-stream"
  /// The media type with its coding, without which some clients take the text for Latin-1.
  static let contentType = mediaType + "; charset=utf-8"

  /// The bytes charged for each stream, besides those of a connection and of a subscription. Measured by the growth of a
  /// release process (RSS): a stream took 30 KiB in all.
  private static let baseBytes = 14 * 1024

  enum Phase {
    case starting
    case active
    /// The output is still sent, and nothing is appended to it.
    case ending
    case ended
  }

  let connection: GatewayConnection
  private let identity: Identity
  let shared: GatewayLoop
  /// The hub of the subscription, chosen when the stream begins to listen.
  private lazy var hub = shared.hubs.hub(
    for: connection.turns, using: shared.hubs.shared, count: 1)
  private var session: Session
  private(set) var phase = Phase.starting
  private var subscription: HubSubscription?
  /// The task that finds a large state.
  private var resumption: Task<Void, Never>?
  private var expiry: Scheduled<Void>?
  private var keepAlive: Scheduled<Void>?
  private let keepAliveMilliseconds: Int64
  var output = StreamOutput()
  private var beginning: CheckedContinuation<WireError?, Never>?
  /// The connection, which waits for the next bytes to send.
  var waiting: CheckedContinuation<ByteBuffer?, Never>?
  /// Whether the stream waits for a turn to encode a piece.
  var takesTurn = false
  /// Whether the hub delivers commits that were withheld.
  private var isCatchingUp = false

  init(
    _ connection: GatewayConnection, as identity: Identity, _ shared: GatewayLoop,
    keepAliveMilliseconds: Int64
  ) {
    self.connection = connection
    self.identity = identity
    self.shared = shared
    self.keepAliveMilliseconds = keepAliveMilliseconds
    session = Session(limits: shared.operations.limits)
  }

  private var operations: Operations { shared.operations }

  private var loop: any EventLoop { connection.channel.eventLoop }

  // MARK: Requests

  /// Begins to listen.
  ///
  /// - Parameter continuation: resumed with nil when the stream has begun, or with the error.
  func begin(
    _ path: Path, _ query: Query, _ continuation: CheckedContinuation<WireError?, Never>
  ) {
    beginning = continuation
    var options = ListenOptions()
    options.query = query
    options.form = .sync
    session.receive(.listen(.listen(path, options)), bytes: 1024)
    perform()
  }

  private func perform() {
    while let action = session.nextAction() {
      switch action {
      case .begin(.listen(.listen(let path, let options)), let slot):
        do throws(WireError) { try listen(path, options, slot) } catch {
          session.finish(slot, Session.Completion(error))
        }
      case .send(.failure(let error)), .sendAfterEvents(.failure(let error)): fail(error)
      case .send(.subscribed(let subscribed)): start(subscribed)
      case .resume(let number, _, let listening): resume(number, listening)
      case .unlisten(_, let code):
        resumption?.cancel()
        if let subscription { hub.end(subscription) }
        subscription = nil
        if code != nil { cancelled() }
      case .endSubscriptions:
        resumption?.cancel()
        if let subscription { hub.end(subscription) }
        subscription = nil
      // The session has no other requests, and this front end reads no input.
      case .begin, .send, .sendAfterEvents, .read, .readAgain, .setReading, .reauthorize, .release,
        .carryOut, .close:
        continue
      }
    }
    charge()
  }

  private func listen(
    _ path: Path, _ options: ListenOptions, _ slot: Session.Slot
  ) throws(WireError) {
    var wanted = try operations.subscription(to: path, options, as: identity)
    wanted.extraBytes = EventStream.baseBytes
    let number = try session.subscribe(wanted, slot)
    guard case .tree(let listening) = wanted.subject else { return }
    let authorization = operations.listenAuthorization(listening, as: identity)
    expectExpiry()
    let subscription = HubSubscription(
      number: number, isAuthorized: wanted.isAuthorized, format: .stream,
      network: connection.turns.network, subscriber: self)
    self.subscription = subscription
    let owner = operations.listenerOwner(at: connection.address, as: identity)
    hub.begin(subscription, listening, authorization, owner: owner) { [self] result in
      let limits = operations.limits
      _ = session.started(number, result.mapError(error)) { start in
        !EventLines.isSmall(start, bytesMax: min(limits.wholeReplyBytesMax, limits.replyBytesMax))
      } mayResume: { _ in
        false
      }
      perform()
    }
  }

  private func error(_ refusal: EventHub.Refusal) -> WireError {
    switch refusal {
    case .stopped: operations.wireError(EngineError.stopped)
    case .denied: operations.wireError(EngineError.denied)
    case .tooManyViews:
      WireError(
        .overloaded,
        "the connections of your network address may have at most "
          + "\(operations.limits.viewsPerAddressMax) different event streams; close some first")
    }
  }

  /// Finds a large state on another thread.
  private func resume(_ number: Int64, _ listening: Listening) {
    let bound = NIOLoopBound(self, eventLoop: loop)
    let loop = loop
    let start = ResumptionStart(on: loop) { [self] in
      guard let snapshot = hub.takeSnapshot() else { return nil }
      session.restart(number, at: snapshot.sequence)
      charge()
      return ListenStart(listening, snapshot)
    } wait: { [self] in
      hub.afterEvents($0)
    }
    resumption = Task { [operations, connection] in
      let result = await operations.resumption(of: listening, connection.turns, in: start)
      loop.execute {
        bound.value.session.resumed(number, result)
        bound.value.perform()
      }
    }
  }

  private func start(_ subscribed: Subscribed) {
    guard case .state(.value(let node), _, _) = subscribed.content, phase == .starting else {
      return
    }
    if subscribed.bytes.json > 0 {
      append(.pieces(StreamEvent.pieces(node, bytes: subscribed.bytes), areEvents: false))
    } else {
      append(text: { output in StreamEvent.put(to: &output) { $0.append(node) } })
    }
    phase = .active
    beginning?.resume(returning: nil)
    beginning = nil
    scheduleKeepAlive()
    guard !subscribed.events.isEmpty, let subscription else { return }
    hub.deliver(subscribed.events, to: subscription)
  }

  private func fail(_ error: WireError) {
    phase = .ended
    expiry?.cancel()
    beginning?.resume(returning: error)
    beginning = nil
  }

  /// Adds the stream to the state of its connection.
  func add(to client: inout ClientState, listMax: Int) {
    client.add(session, listMax: listMax)
    client.kind = .stream
    client.identity = identity
    client.namespace = operations.namespace
  }

  // MARK: The end

  /// The right to read has ended, or an event would be too large.
  private func cancelled() {
    if isRevoked {
      append(text: { $0.append("event: auth_revoked\ndata: credential is no longer valid\n\n") }
      )
    } else {
      append(text: { $0.append("event: cancel\ndata: null\n\n") })
    }
    finish()
  }

  /// Whether the user's session has ended.
  var isRevoked: Bool {
    guard case .user(let login) = identity else { return false }
    return !login.isValid(at: operations.now())
  }

  /// Appends nothing more. The stream ends when everything is sent.
  func finish() {
    guard phase == .active else { return }
    phase = .ending
    cancelTimers()
    if output.isEmpty { end() }
  }

  /// Ends the stream at once, and drops everything that is not sent.
  func end() {
    guard phase != .ended else { return }
    phase = .ended
    cancelTimers()
    session.lose()
    perform()
    output.removeAll()
    charge()
    beginning?.resume(returning: operations.wireError(EngineError.stopped))
    beginning = nil
    waiting?.resume(returning: nil)
    waiting = nil
  }

  private func cancelTimers() {
    expiry?.cancel()
    keepAlive?.cancel()
    resumption?.cancel()
  }

  // MARK: Time

  private func scheduleKeepAlive() {
    keepAlive = loop.assumeIsolated().scheduleTask(in: .milliseconds(keepAliveMilliseconds)) {
      [self] in
      guard phase == .active else { return }
      if isRevoked { return revoke() }
      // A client that has bytes to read knows that the stream goes on.
      if output.isEmpty { append(text: { $0.append("event: keep-alive\ndata: null\n\n") }) }
      scheduleKeepAlive()
    }
  }

  /// Looks again when the user's session expires, and once a minute, because the clock may be set.
  private func expectExpiry() {
    guard case .user(let login) = identity else { return }
    let milliseconds = max(1, min(login.expiresAt - operations.now(), 60_000))
    expiry = loop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { [self] in
      if isRevoked { revoke() } else { expectExpiry() }
    }
  }

  /// Ends the stream because the login of its user has ended.
  func revoke() {
    guard phase == .active else { return end() }
    if let subscription { session.cancel(subscription.number, .permissionDenied) }
    perform()
  }

  // MARK: Sending

  private func append(text write: (inout JSONOutput) -> Void) {
    var output = JSONOutput()
    write(&output)
    append(.bytes(output.withBytes { ByteBuffer(bytes: $0) }, areEvents: false))
  }

  private func append(_ chunk: StreamOutput.Chunk) {
    output.append(chunk)
    handOn()
    charge()
  }

  /// Hands the next bytes to the connection, if it waits for them. A piece of a large value is encoded in a turn.
  private func handOn() {
    guard let waiting else { return }
    guard !output.isToBeEncoded else { return takeTurnLater() }
    guard let next = output.take() else {
      if phase == .ending { end() }
      return
    }
    self.waiting = nil
    waiting.resume(returning: next)
  }

  /// Resumes a continuation with the next bytes to send; with nil at the end. The bytes before were sent.
  func next(_ continuation: CheckedContinuation<ByteBuffer?, Never>) {
    output.noteSent()
    guard phase != .ended else { return continuation.resume(returning: nil) }
    waiting = continuation
    handOn()
    if session.isBehind { catchUpLater() }
    charge()
  }

  /// Delivers the withheld commits soon, if all events are sent.
  private func catchUpLater() {
    guard output.bytes.events == 0, !isCatchingUp else { return }
    isCatchingUp = true
    loop.assumeIsolated().execute { [self] in
      hub.catchUp { [self] snapshot in
        guard let subscription, subscription.mayCatchUp(to: snapshot),
          session.hasRoomForWithheld(unsentEventBytes: output.bytes.events)
        else { return nil }
        session.endWithholding(from: subscription.number)
        return subscription
      } done: { [self] in
        isCatchingUp = false
        if session.isBehind { catchUpLater() }
        charge()
      }
    }
  }

  private func charge() {
    session.setUnsent(bytes: output.bytes.all, isWritable: true)
    connection.charge(phase == .ended ? 0 : session.ledger.total)
  }
}

extension EventStream: Subscriber {
  func accepts(
    _ notifications: [Notification], bytes: ValueBytes, for subscription: Int64
  ) -> Bool {
    guard phase == .starting || phase == .active else { return false }
    switch session.admit(
      notifications, bytes: bytes, for: subscription, unsentEventBytes: output.bytes.events)
    {
    case .send: return true
    case .held:
      charge()
      return false
    case .dropped: return false
    case .overloaded:
      endForUnreadEvents()
      return false
    }
  }

  var withholdsEvents: Bool {
    phase == .active
      && session.withholdsEvents(unsentEventBytes: output.bytes.events, isWritable: false)
  }

  func withhold(_ change: CommittedChange, from subscription: HubSubscription) {
    guard let grown = subscription.withhold(change) else { return endForUnreadEvents() }
    let buffered = try? connection.channel.syncOptions?.getOption(.bufferedWritableBytes)
    let isWithinBound = session.withhold(
      from: subscription.number, bytes: WithheldChanges.bytes(of: change), grown: grown,
      unsent: output.bytes.all + Int(buffered ?? 0), at: operations.now())
    if isWithinBound { charge() } else { endForUnreadEvents() }
  }

  private func endForUnreadEvents() {
    // The client has left too much unread. An error would wait behind it.
    connection.channel.cutOff()
    end()
  }

  func send(events lines: ByteBuffer) {
    append(.bytes(lines, areEvents: true))
  }

  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    append(.bytes(head, areEvents: true))
    append(.bytes(rest, areEvents: true))
  }

  func send(events lines: LinePieces) {
    append(.pieces(lines, areEvents: true))
  }

  func cancel(_ subscription: Int64, _ code: WireError.Code) {
    session.cancel(subscription, code)
    perform()
  }
}
