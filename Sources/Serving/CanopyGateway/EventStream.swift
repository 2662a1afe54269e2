internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import NIOCore

/// One event stream: a listener of the form `sync`, from its request to its end.
///
/// It is a session with one request. Its events wait here until the connection has sent those before. Use it on
/// the event loop of its connection only; others use the `Handle`.
final class EventStream {
  static let mediaType = "text/event-stream"
  /// The media type with its coding, without which some clients take the text for Latin-1.
  static let contentType = mediaType + "; charset=utf-8"

  /// The bytes charged for each stream, besides those of a connection and of a subscription. Measured by the growth of a
  /// release process (RSS): a stream took 30 KiB in all.
  private static let baseBytes = 16 * 1024

  /// Bytes that wait to be sent.
  fileprivate enum Chunk {
    case bytes(ByteBuffer, areEvents: Bool)
    case pieces(LinePieces, areEvents: Bool)
  }

  private enum Phase {
    case starting
    case active
    /// The chunks are still sent, and no others are appended.
    case ending
    case ended
  }

  private let connection: GatewayConnection
  private let identity: Identity
  private let shared: GatewayLoop
  private var session: Session
  private var phase = Phase.starting
  private var subscription: HubSubscription?
  private var measurement: Task<Void, Never>?
  private var expiry: Scheduled<Void>?
  private var keepAlive: Scheduled<Void>?
  private let keepAliveMilliseconds: Int64
  private var chunks: Deque<Chunk> = []
  /// The bytes of the chunks, and those of the events among them, with the chunk that is being sent.
  private var bytes = (all: 0, events: 0)
  /// The bytes of the chunk that is being sent.
  private var sending = (all: 0, events: 0)
  private var beginning: CheckedContinuation<WireError?, Never>?
  private var waiting: CheckedContinuation<ByteBuffer?, Never>?

  private init(
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

  private func begin(
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
      case .send(.failure(let error)): fail(error)
      case .send(.subscribed(let subscribed)): start(subscribed)
      case .resume(let number, _, let start): measure(number, start)
      case .unlisten(_, let code):
        measurement?.cancel()
        if let subscription { shared.hub.end(subscription) }
        subscription = nil
        if code != nil { cancelled() }
      // The session has no other requests, and this front end reads no input.
      case .begin, .send, .read, .setReading, .reauthorize, .release, .carryOut, .close: continue
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
      number: number, isAuthorized: wanted.isAuthorized, format: .stream, subscriber: self)
    self.subscription = subscription
    let owner = operations.listenerOwner(at: connection.address, as: identity)
    shared.hub.begin(subscription, listening, authorization, owner: owner) { [self] result in
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

  /// Measures a large state beside the event loop.
  private func measure(_ number: Int64, _ start: ListenStart) {
    let bound = NIOLoopBound(self, eventLoop: loop)
    let loop = loop
    measurement = Task { [operations, connection] in
      let result: Result<Resumption, WireError>
      do {
        result = .success(
          try await operations.beside(connection.turns) {
            Resumption(
              events: nil, bytes: try EventLines.size(of: start, limits: operations.limits))
          })
      } catch {
        result = .failure(operations.wireError(error))
      }
      loop.execute {
        bound.value.session.resumed(number, result)
        bound.value.perform()
      }
    }
  }

  private func start(_ subscribed: Subscribed) {
    guard case .state(let start, let listening, _) = subscribed.content, phase == .starting else {
      return
    }
    let node = listening.query.value(of: start.node)
    if subscribed.bytes > 0 {
      append(.pieces(StreamEvent.pieces(node, bytes: subscribed.bytes), areEvents: false))
    } else {
      append(text: { output in StreamEvent.put(to: &output) { $0.append(node) } })
    }
    phase = .active
    beginning?.resume(returning: nil)
    beginning = nil
    scheduleKeepAlive()
    guard !subscribed.events.isEmpty, let subscription else { return }
    shared.hub.deliver(subscribed.events, to: subscription)
  }

  private func fail(_ error: WireError) {
    phase = .ended
    expiry?.cancel()
    beginning?.resume(returning: error)
    beginning = nil
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
  private var isRevoked: Bool {
    guard case .user(let login) = identity else { return false }
    return !login.isValid(at: operations.now())
  }

  /// Appends nothing more. The stream ends when everything is sent.
  private func finish() {
    guard phase == .active else { return }
    phase = .ending
    cancelTimers()
    if chunks.isEmpty { end() }
  }

  /// Ends the stream at once, and drops everything that is not sent.
  private func end() {
    guard phase != .ended else { return }
    phase = .ended
    cancelTimers()
    session.lose()
    perform()
    chunks.removeAll()
    bytes = (0, 0)
    charge()
    beginning?.resume(returning: operations.wireError(EngineError.stopped))
    beginning = nil
    waiting?.resume(returning: nil)
    waiting = nil
  }

  private func cancelTimers() {
    expiry?.cancel()
    keepAlive?.cancel()
    measurement?.cancel()
  }

  // MARK: Time

  private func scheduleKeepAlive() {
    keepAlive = loop.assumeIsolated().scheduleTask(in: .milliseconds(keepAliveMilliseconds)) {
      [self] in
      guard phase == .active else { return }
      if isRevoked { return revoke() }
      // A client that has bytes to read knows that the stream goes on.
      if chunks.isEmpty { append(text: { $0.append("event: keep-alive\ndata: null\n\n") }) }
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

  private func revoke() {
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

  private func append(_ chunk: Chunk) {
    chunks.append(chunk)
    let count = chunk.size
    bytes.all += count
    if chunk.areEvents { bytes.events += count }
    handOn()
    charge()
  }

  /// Hands the next bytes to the connection, if it waits for them.
  private func handOn() {
    guard let waiting else { return }
    guard let next = takeBytes() else {
      if phase == .ending { end() }
      return
    }
    self.waiting = nil
    waiting.resume(returning: next)
  }

  private static let pieceBytes = 64 * 1024

  private func takeBytes() -> ByteBuffer? {
    guard let first = chunks.popFirst() else { return nil }
    let size = first.size
    switch first {
    case .bytes(var buffer, let areEvents):
      sending = (size, areEvents ? size : 0)
      // Small events are sent together.
      while case .bytes(let next, let areEvents)? = chunks.first,
        buffer.readableBytes + next.readableBytes <= EventStream.pieceBytes
      {
        buffer.writeImmutableBuffer(next)
        sending.all += next.readableBytes
        if areEvents { sending.events += next.readableBytes }
        chunks.removeFirst()
      }
      return buffer
    case .pieces(var pieces, let areEvents):
      var output = JSONOutput(capacity: EventStream.pieceBytes + 4096)
      pieces.write(to: &output, bytes: EventStream.pieceBytes)
      if pieces.isDone {
        sending = (size, areEvents ? size : 0)
      } else {
        let rest = Chunk.pieces(pieces, areEvents: areEvents)
        sending = (size - rest.size, areEvents ? size - rest.size : 0)
        chunks.prepend(rest)
      }
      return output.withBytes { ByteBuffer(bytes: $0) }
    }
  }

  private func next(_ continuation: CheckedContinuation<ByteBuffer?, Never>) {
    // The bytes before were sent.
    bytes.all -= sending.all
    bytes.events -= sending.events
    sending = (0, 0)
    guard phase != .ended else { return continuation.resume(returning: nil) }
    assert(bytes.all >= 0 && bytes.events >= 0, "more was sent than was appended")
    waiting = continuation
    handOn()
    charge()
  }

  private func charge() {
    session.setUnsent(bytes: bytes.all, isWritable: true)
    connection.charge(phase == .ended ? 0 : session.ledger.total)
  }
}

extension EventStream: Subscriber {
  func accepts(_ notifications: [Notification], bytes: Int, for subscription: Int64) -> Bool {
    guard phase == .starting || phase == .active else { return false }
    switch session.admit(
      notifications, bytes: bytes, for: subscription, unsentEventBytes: self.bytes.events)
    {
    case .send: return true
    case .held:
      charge()
      return false
    case .dropped: return false
    case .overloaded:
      // The client has left too much unread. An error would wait behind it.
      connection.channel.cutOff()
      end()
      return false
    }
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

extension EventStream.Chunk {
  fileprivate var size: Int {
    switch self {
    case .bytes(let buffer, _): buffer.readableBytes
    case .pieces(let pieces, _): pieces.heldBytes
    }
  }

  fileprivate var areEvents: Bool {
    switch self {
    case .bytes(_, let areEvents), .pieces(_, let areEvents): areEvents
    }
  }
}

extension EventStream {
  /// A stream, for code that does not run on its event loop.
  struct Handle: Sendable {
    private let stream: NIOLoopBoundBox<EventStream?>
    private let loop: any EventLoop
    /// Keeps the namespace open while the stream is sent; nil for the default one.
    private let lease: NamespaceLease?

    /// Begins to listen.
    ///
    /// - Parameters:
    ///   - operations: the operations on a namespace.
    ///   - lease: keeps that namespace open; nil for the default one.
    /// - Throws: `WireError` if the client may not listen, or the stream cannot begin.
    static func begin(
      _ path: Path, _ query: Query, as identity: Identity, on connection: GatewayConnection,
      in operations: Operations, _ lease: NamespaceLease?, keepAliveMilliseconds: Int64
    ) async throws(WireError) -> Handle {
      let loop = connection.channel.eventLoop
      let handle = Handle(
        stream: .makeEmptyBox(valueType: EventStream.self, eventLoop: loop), loop: loop,
        lease: lease)
      let error = await withCheckedContinuation { continuation in
        loop.execute {
          let stream = EventStream(
            connection, as: identity, connection.loop.value.loop(of: operations),
            keepAliveMilliseconds: keepAliveMilliseconds)
          handle.stream.value = stream
          stream.begin(path, query, continuation)
        }
      }
      if let error { throw error }
      return handle
    }

    /// Returns the next bytes to send, when there are any and those before were sent; nil at the end.
    func next() async -> ByteBuffer? {
      await withCheckedContinuation { continuation in
        loop.execute {
          guard let stream = stream.value else { return continuation.resume(returning: nil) }
          stream.next(continuation)
        }
      }
    }

    /// Ends the stream.
    func end() {
      loop.execute { stream.value?.end() }
    }

    /// Ends the stream with `auth_revoked` if the login of its user has ended.
    func endIfRevoked() {
      loop.execute {
        guard let stream = stream.value, stream.phase == .active, stream.isRevoked else { return }
        stream.revoke()
      }
    }

    /// Ends the stream when everything is sent.
    func finish() {
      loop.execute { stream.value?.finish() }
    }
  }
}
