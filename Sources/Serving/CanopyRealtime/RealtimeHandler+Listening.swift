internal import CanopyEngine
internal import CanopyEvents
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// One listener of a connection.
final class RealtimeListener {
  let body: ListenBody
  /// Whether the rules declare no index for the query, so that the client gets the whole location and filters itself.
  let isUnindexed: Bool
  let subscription: HubSubscription
  /// Measures and hashes the present value.
  var measurement: Task<Void, Never>?
  /// The measured value; nil if it is small.
  var measured: Measured?

  /// The size of a value in bytes of JSON, or a little more, and whether the client has the value.
  struct Measurement: Sendable {
    var bytes: Int
    var isKnown: Bool
  }

  /// A value that takes long to measure or to hash.
  struct Measured {
    /// Whether the client has the value that was hashed.
    var isKnown: Bool
    /// The root of the snapshot up to which the connection has got the events.
    var root: Node
  }

  init(_ body: ListenBody, isUnindexed: Bool, _ subscription: HubSubscription) {
    self.body = body
    self.isUnindexed = isUnindexed
    self.subscription = subscription
  }
}

extension RealtimeListener {
  /// The bytes charged for a listener besides those of a subscription, and those for each key of its path.
  ///
  /// The connection keeps the target twice, and the hub has a view for each. Measured by the growth of a release process
  /// (RSS): a listener with a path of two keys took 5.2 KiB in all, one of 30 keys 15 KiB, where the subscription alone is
  /// charged at 2.3 and 6 KiB.
  private static let baseBytes = 3 * 1024
  private static let keyBytes = 256

  /// Returns the memory of a listener besides that of its subscription, in bytes. An estimate. O(path).
  fileprivate static func bytes(for body: ListenBody) -> Int {
    let text = body.queryText?.utf8.count ?? 0
    return body.target.path.keys.reduce(baseBytes + 2 * text) { $0 + keyBytes + $1.utf8Count }
  }
}

/// The listeners of a connection: between its session and the hub of its event loop.
extension RealtimeHandler {
  /// Begins to listen. A listener with the same target ends.
  func listen(_ body: ListenBody, _ slot: Session.Slot) throws(WireError) {
    if let old = numbers[body.target] { try session.unsubscribe(old) }
    let identity = session.identity
    var (wanted, isUnindexed) = try subscriptionRequest(body.target, as: identity)
    wanted.extraBytes = RealtimeListener.bytes(for: body)
    guard case .tree(let listening) = wanted.subject else { return }
    let number = try session.subscribe(wanted, slot)
    let subscription = HubSubscription(
      number: number, isAuthorized: wanted.isAuthorized, format: .realtime,
      label: body.target.tag ?? RealtimeEvent.noTag, subscriber: self)
    listeners[number] = RealtimeListener(body, isUnindexed: isUnindexed, subscription)
    numbers[body.target] = number
    let authorization = operations.listenAuthorization(listening, as: identity)
    let owner = operations.listenerOwner(at: client.address, as: identity)
    shared.hub.begin(subscription, listening, authorization, owner: owner) { [self] result in
      started(number, result)
    }
  }

  /// Returns the subscription to a target, and whether it is to the whole location because the rules declare no index
  /// for the query.
  ///
  /// The whole location is authorized as such: rules that require a query of some kind do not allow it.
  private func subscriptionRequest(
    _ target: ListenTarget, as identity: Identity
  ) throws(WireError) -> (SubscriptionRequest, isUnindexed: Bool) {
    let query = target.query.isUnbounded ? .all : target.query
    do throws(WireError) {
      let options = ListenOptions(query: query, form: .sync)
      return (try operations.subscription(to: target.path, options, as: identity), false)
    } catch {
      guard error.code == .invalidQuery, query != .all else { throw error }
      let options = ListenOptions(form: .sync)
      return (try operations.subscription(to: target.path, options, as: identity), true)
    }
  }

  private func started(_ number: Int64, _ result: Result<ListenStart, EventHub.Refusal>) {
    let limits = operations.limits
    var bytesMax = min(limits.wholeReplyBytesMax, limits.replyBytesMax)
    // Hashing takes much longer than writing.
    if listeners[number]?.body.hash != nil { bytesMax = min(bytesMax, RealtimeHandler.hashedMax) }
    let isWanted = session.started(number, result.mapError(error)) { start in
      !EventLines.isSmall(start, bytesMax: bytesMax)
    } mayResume: { _ in
      false
    }
    if !isWanted { forget(number) }
    // The answer goes out now: the next thing that the hub hands on may be an event.
    if let context { advance(context) }
  }

  /// Bytes of JSON of a value that the event loop hashes.
  private static let hashedMax = 4_096

  private func error(_ refusal: EventHub.Refusal) -> WireError {
    switch refusal {
    case .stopped: operations.wireError(EngineError.stopped)
    case .denied: operations.wireError(EngineError.denied)
    case .tooManyViews:
      WireError(
        .tooLarge,
        "the connections of your network address may have at most "
          + "\(operations.limits.viewsPerAddressMax) different listeners; end some first")
    }
  }

  /// Measures and hashes a value beside the event loop.
  func measure(_ context: ChannelHandlerContext, _ number: Int64, _ start: ListenStart) {
    guard let listener = listeners[number] else { return }
    let hash = listener.body.hash
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    listener.measurement = Task { [operations, turns = client.turns] in
      let measured: Result<RealtimeListener.Measurement, WireError>
      do {
        measured = .success(
          try await operations.beside(turns) {
            RealtimeListener.Measurement(
              bytes: try EventLines.size(of: start, limits: operations.limits),
              isKnown: hash.map { start.shown.hash.hasSameBytes(as: $0) } ?? false)
          })
      } catch {
        measured = .failure(operations.wireError(error))
      }
      loop.execute {
        let (handler, context) = bound.value
        handler.receiveMeasured(context, number, measured)
      }
    }
  }

  private func receiveMeasured(
    _ context: ChannelHandlerContext, _ number: Int64,
    _ measured: Result<RealtimeListener.Measurement, WireError>
  ) {
    // The other listeners get their events up to a snapshot, and this one begins with that snapshot. So the client never
    // gets a value that is older than one that it has got already.
    listeners[number]?.measurement = nil
    if shared.hub.drain() {
      resume(number, measured, in: shared.inbox.snapshot)
      advance(context)
    } else {
      waitForEvents { [self] _, snapshot in resume(number, measured, in: snapshot) }
    }
  }

  private func resume(
    _ number: Int64, _ measured: Result<RealtimeListener.Measurement, WireError>,
    in snapshot: Snapshot
  ) {
    if let listener = listeners[number], case .success(let found) = measured {
      listener.measured = RealtimeListener.Measured(isKnown: found.isKnown, root: snapshot.root)
    }
    session.resumed(number, measured.map { Resumption(events: nil, bytes: $0.bytes) })
  }

  /// Sends the first value of a listener, unless the client has it, and the answer to its request.
  func begin(_ subscribed: Subscribed, answering number: Int64) {
    guard let listener = listeners[subscribed.number],
      case .state(let start, let listening, _) = subscribed.content
    else { return }
    var bytes = subscribed.bytes
    var shown = start.shown
    let isKnown: Bool
    if let measured = listener.measured {
      listener.measured = nil
      let node = measured.root.at(listening.path)
      let isSame = node.isIdentical(to: start.node)
      isKnown = measured.isKnown && isSame
      if !isSame {
        shown = listening.query.value(of: node)
        // Each event that was held makes the value larger by its own size at most.
        for held in subscribed.events {
          bytes +=
            (try? EventLines.size(
              of: held.events, listening, bytesMax: operations.limits.replyBytesMax)) ?? 0
        }
      }
    } else {
      isKnown = listener.body.hash.map { shown.hash.hasSameBytes(as: $0) } ?? false
    }
    if !isKnown {
      append(
        Assignment(.root, shown), at: listening.path, tag: listener.body.target.tag, bytes: bytes)
    }
    append { output in
      ServerMessage.answer(number, .ok, to: &output) {
        $0.append(listener.isUnindexed ? "{\"w\":[\"no_index\"]}" : "{}")
      }
    }
  }

  /// Ends a listener because the client asks for it. A listener that does not exist has ended already.
  func unlisten(_ target: ListenTarget, _ slot: Session.Slot) throws(WireError) {
    var number = numbers[target]
    if number == nil, let tag = target.tag {
      // The tag alone is enough.
      number = listeners.first { $0.value.body.target.tag == tag }?.key
    }
    if let number { try session.unsubscribe(number) }
    finish(slot, Session.Completion(.null))
  }

  /// Ends a listener at the hub, and notifies the client if there is an error.
  func unlisten(_ number: Int64, _ code: WireError.Code?) {
    guard let listener = forget(number), code != nil else { return }
    append { output in
      ServerMessage.cancelled(
        listener.body.target.path, queryText: listener.body.queryText, to: &output)
    }
  }

  @discardableResult
  private func forget(_ number: Int64) -> RealtimeListener? {
    guard let listener = listeners.removeValue(forKey: number) else { return nil }
    listener.measurement?.cancel()
    if numbers[listener.body.target] == number { numbers[listener.body.target] = nil }
    shared.hub.end(listener.subscription)
    return listener
  }

  /// Authorizes the listeners again, for another user.
  func reauthorize(
    _ context: ChannelHandlerContext, _ subscriptions: [(subscription: Int64, Listening)],
    _ identity: Identity
  ) {
    let changes = subscriptions.compactMap { number, listening in
      listeners[number].map {
        ($0.subscription, operations.listenAuthorization(listening, as: identity))
      }
    }
    shared.hub.reauthorize(changes) { [self] in
      session.reauthorized()
      watchIdentity()
      advance(context)
    }
  }

  // MARK: The end of an identity

  /// Notifies the client when the session of its user ends.
  func watchIdentity() {
    guard case .user(let login) = session.identity, session.isOpen else {
      expiry?.cancel()
      watched = nil
      return
    }
    guard watched !== login else { return }
    watched = login
    let bound = NIOLoopBound(WeakHandler(self), eventLoop: shared.loop)
    let loop = shared.loop
    // The session keeps the closure, so the closure must not keep the session.
    let id = ObjectIdentifier(login)
    login.onRevocation {
      loop.execute { bound.value.handler?.notifyEnd(of: id) }
    }
    expectExpiry(of: login)
  }

  private func expectExpiry(of login: UserSession) {
    expiry?.cancel()
    let remaining = login.expiresAt - operations.now()
    let milliseconds = max(1, min(remaining, RealtimeHandler.expiryMillisecondsMax))
    expiry = shared.loop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { [self] in
      guard !login.isValid(at: operations.now()) else { return expectExpiry(of: login) }
      notifyEnd(of: ObjectIdentifier(login))
      Task { [operations] in await operations.reauthorize([login]) }
    }
  }

  /// A minute: the clock may be set meanwhile.
  private static let expiryMillisecondsMax: Int64 = 60 * 1000

  /// Sends the message that the identity has ended, before its listeners are cancelled: the client may have a newer
  /// token, and then connects again.
  private func notifyEnd(of login: ObjectIdentifier) {
    guard session.isOpen, case .user(let current) = session.identity,
      ObjectIdentifier(current) == login, !current.isValid(at: operations.now())
    else { return }
    expiry?.cancel()
    let hasExpired = operations.now() >= current.expiresAt
    append { output in
      ServerMessage.revoked(
        hasExpired ? .expiredToken : .invalidToken,
        hasExpired ? "the token has expired" : "the token has been revoked", to: &output)
    }
    flushLater()
  }
}

extension ListenStart {
  /// The value that the listener shows.
  fileprivate var shown: Node { listening.query.value(of: node) }
}
