internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore

/// The subscriptions of a connection: between its session and the hub of its event loop.
extension LineHandler {
  /// Carries out LISTEN, WATCH and UNLISTEN.
  func listen(
    _ context: ChannelHandlerContext, _ request: ListenRequest, _ slot: Session.Slot
  ) throws(WireError) {
    let identity = session.identity
    let wanted: SubscriptionRequest
    switch request {
    case .unlisten(let number):
      try session.unsubscribe(number)
      return session.finish(slot, Session.Completion(.null))
    case .listen(let path, let options):
      wanted = try operations.subscription(to: path, options, as: identity)
    case .info(let path, let options):
      wanted = try operations.subscription(toInfo: path, options)
    case .watch(let target, let options):
      wanted = try operations.subscription(to: target, options, as: identity)
    }
    let number = try session.subscribe(wanted, slot)
    switch wanted.subject {
    case .constant(let node, let form):
      session.answerConstant(
        number, slot, sequence: shared.inbox.snapshot.sequence, .constant(node, form))
    case .tree(let listening):
      let authorization =
        wanted.isAuthorized ? operations.listenAuthorization(listening, as: identity) : nil
      if authorization != nil { expectExpiry(of: identity) }
      let subscription = HubSubscription(
        number: number, isAuthorized: wanted.isAuthorized, subscriber: self)
      subscribers[number] = subscription
      let owner = operations.listenerOwner(at: client.address, as: identity)
      shared.hub.begin(subscription, listening, authorization, owner: owner) { [self] result in
        started(number, result, isAuthorized: wanted.isAuthorized, identity)
      }
    }
  }

  private func started(
    _ number: Int64, _ result: Result<ListenStart, EventHub.Refusal>, isAuthorized: Bool,
    _ identity: Identity
  ) {
    let limits = operations.limits
    let isWanted = session.started(number, result.mapError(error)) { start in
      !EventLines.isSmall(start, bytesMax: min(limits.wholeReplyBytesMax, limits.replyBytesMax))
    } mayResume: {
      guard case .success(let start) = result else { return false }
      return operations.mayResume(start, since: $0, isAuthorized: isAuthorized, as: identity)
    }
    if !isWanted { subscribers[number] = nil }
    // The reply goes out now, because the hub may deliver an event next.
    if let context { advance(context) }
  }

  private func error(_ refusal: EventHub.Refusal) -> WireError {
    switch refusal {
    case .stopped: operations.wireError(EngineError.stopped)
    case .denied: operations.wireError(EngineError.denied)
    case .tooManyViews:
      WireError(
        .tooLarge,
        "the connections of your network address may have at most "
          + "\(operations.limits.viewsPerAddressMax) different subscriptions; end some with UNLISTEN "
          + "first")
    }
  }

  /// Sends the answer to a request for a subscription, and the events that waited for it.
  func begin(_ context: ChannelHandlerContext, _ subscribed: Subscribed) {
    let isSent = shared.encode(.subscribed(subscribed), to: &output)
    noteUnsent(context)
    // An error was sent instead: the first event is too large.
    guard isSent else { return session.drop(subscribed.number) }
    guard !subscribed.events.isEmpty, let subscription = subscribers[subscribed.number] else {
      return
    }
    shared.hub.deliver(subscribed.events, to: subscription)
  }

  /// Reads the changes since a commit, or measures a large state, off the event loop.
  func resume(
    _ context: ChannelHandlerContext, _ number: Int64, _ since: Int64?, _ start: ListenStart
  ) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    resumptions[number] = Task { [operations, turns = client.turns] in
      let changes: Result<Resumption, WireError>
      do {
        changes = .success(try await operations.resumption(since, start, turns))
      } catch let error as WireError {
        changes = .failure(error)
      } catch {
        if !Task.isCancelled {
          operations.logger.error("the journal cannot be read", metadata: ["error": "\(error)"])
        }
        changes = .failure(
          WireError(
            .unavailable,
            "the changes cannot be read now; listen without since, or try later"))
      }
      loop.execute {
        let (handler, context) = bound.value
        handler.resumptions[number] = nil
        handler.session.resumed(number, changes)
        handler.advance(context)
      }
    }
  }

  /// Ends a subscription at the hub.
  func unlisten(_ context: ChannelHandlerContext, _ number: Int64, _ code: WireError.Code?) {
    resumptions.removeValue(forKey: number)?.cancel()
    if let subscription = subscribers.removeValue(forKey: number) { shared.hub.end(subscription) }
    if let code { encode(cancel: code, of: number) }
  }

  /// Authorizes the subscriptions again, for another user.
  func reauthorize(
    _ context: ChannelHandlerContext, _ subscriptions: [(subscription: Int64, Listening)],
    _ identity: Identity
  ) {
    expiry?.cancel()
    expectExpiry(of: identity)
    let changes = subscriptions.compactMap { number, listening in
      subscribers[number].map { ($0, operations.listenAuthorization(listening, as: identity)) }
    }
    shared.hub.reauthorize(changes) { [self] in
      session.reauthorized()
      advance(context)
    }
  }

  /// Schedules a new authorization for the time at which the user's session expires.
  private func expectExpiry(of identity: Identity) {
    guard case .user(let login) = identity else { return }
    expiry?.cancel()
    let remaining = login.expiresAt - operations.now()
    let milliseconds = max(1, min(remaining, LineHandler.expiryMillisecondsMax))
    expiry = shared.loop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds)) { [self] in
      guard session.hasAuthorizedSubscriptions else { return }
      if login.isValid(at: operations.now()) { return expectExpiry(of: identity) }
      Task { [operations] in await operations.reauthorize([login]) }
    }
  }

  /// A minute: the clock may be set meanwhile.
  private static let expiryMillisecondsMax: Int64 = 60 * 1000
}

extension Operations {
  /// Returns the content with which a subscription begins, and its size.
  ///
  /// - Parameters:
  ///   - since: the last commit that the client knows; nil for none.
  ///   - turns: the connection and its network, which share their turns.
  /// - Throws: `WireError` when an event is larger than a line may be; the error of the journal.
  fileprivate func resumption(
    _ since: Int64?, _ start: ListenStart, _ turns: TurnGroup?
  ) async throws -> Resumption {
    let bytesMax = limits.replyBytesMax
    let state = { @Sendable [limits] () throws(WireError) in
      Resumption(events: nil, bytes: try EventLines.size(of: start, limits: limits))
    }
    guard let since else { return try await beside(turns, state) }
    // Otherwise every change of a value that is too large to send would have it measured again.
    if start.listening.form == .value { _ = try await beside(turns, state) }
    guard let events = try await engine.changes(since: since, to: start, for: turns) else {
      return try await beside(turns, state)
    }
    return try await beside(turns) { () throws(WireError) in
      let bytes = try EventLines.size(of: events, start.listening, bytesMax: bytesMax)
      return Resumption(events: events, bytes: bytes)
    }
  }
}
