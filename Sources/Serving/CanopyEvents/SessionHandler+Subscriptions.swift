package import CanopyEngine
package import CanopySession
package import CanopyTree
package import CanopyWire
package import NIOCore

/// The subscriptions of a connection: between its session and the hub of its event loop.
extension SessionHandler {
  /// Takes the start of a subscription from the hub.
  ///
  /// - Parameters:
  ///   - isLarge: whether the present state takes long to measure or to encode.
  ///   - mayResume: whether the client may get the changes since the commit that it knows.
  package final func started(
    _ number: Int64, _ result: Result<ListenStart, WireError>, isLarge: (ListenStart) -> Bool,
    mayResume: (Int64) -> Bool = { _ in false }
  ) {
    assertInEventLoop()
    let isWanted = session.started(number, result, isLarge: isLarge, mayResume: mayResume)
    if !isWanted { unlisten(number, nil) }
    // The reply goes out now, because the hub may deliver an event next.
    if let context { advance(context) }
  }

  /// Finds the content with which a subscription begins on another thread, and passes it to the session.
  ///
  /// - Parameter since: the last commit that the client knows; nil for none.
  final func resume(
    _ context: ChannelHandlerContext, _ number: Int64, since: Int64?, _ listening: Listening
  ) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    let hash = clientProtocol?.knownHash(number)
    let start = ResumptionStart(on: loop) { [self] in
      guard let snapshot = hub.takeSnapshot() else { return nil }
      session.restart(number, at: snapshot.sequence)
      return ListenStart(listening, snapshot)
    } wait: { [self] in
      hub.afterEvents($0)
    }
    underWay.resumptions[number] = Task { [operations, turns = client.turns] in
      let result = await operations.resumption(
        of: listening, since: since, hash: hash, turns, in: start)
      loop.execute {
        let (handler, context) = bound.value
        handler.resumed(context, number, result)
      }
    }
  }

  private final func resumed(
    _ context: ChannelHandlerContext, _ number: Int64, _ result: Result<Resumption, WireError>
  ) {
    assertInEventLoop()
    underWay.resumptions[number] = nil
    if clientProtocol?.beginsAfterEvents == true, !hub.drain() {
      return wait(for: .resumption(subscription: number, result))
    }
    session.resumed(number, result)
    advance(context)
  }

  /// Ends a subscription at the hub.
  final func unlisten(_ number: Int64, _ code: WireError.Code?) {
    underWay.resumptions.removeValue(forKey: number)?.cancel()
    if let subscription = subscribers.removeValue(forKey: number) { hub.end(subscription) }
    clientProtocol?.forget(number, code)
    resumeWaiters()
  }

  /// Ends all subscriptions at the hub, because the connection ends.
  ///
  /// - Parameter bytes: their memory.
  final func endSubscriptions(bytes: Int) {
    for task in underWay.resumptions.values { task.cancel() }
    underWay.resumptions = [:]
    let ended = EndedSubscriptions(Array(subscribers.values), of: hub, turnGroup: client.turns)
    subscribers = [:]
    clientProtocol?.forgetAll()
    ended.remove(in: services.turns, charging: bytes, to: operations.memory)
    resumeWaiters()
  }

  /// Authorizes the subscriptions again, for another user.
  final func reauthorize(
    _ context: ChannelHandlerContext, _ subscriptions: [(subscription: Int64, Listening)],
    _ identity: Identity
  ) {
    let changes = subscriptions.compactMap { number, listening in
      subscribers[number].map { ($0, operations.listenAuthorization(listening, as: identity)) }
    }
    hub.reauthorize(changes, of: client.turns) { [self] in
      session.reauthorized()
      watchIdentity()
      advance(context)
    }
  }
}

extension EventHub.Refusal {
  /// Returns the error for the client.
  ///
  /// - Parameter end: the words of the protocol for subscriptions, and for the way to end them.
  package func error(_ operations: Operations, _ end: String) -> WireError {
    switch self {
    case .stopped: operations.wireError(EngineError.stopped)
    case .denied: operations.wireError(EngineError.denied)
    case .tooManyViews:
      WireError(
        .tooLarge,
        "the connections of your network address may have at most "
          + "\(operations.limits.viewsPerAddressMax) different \(end)")
    }
  }
}

extension SessionHandler: Subscriber {
  package final func accepts(
    _ notifications: [Notification], bytes: ValueBytes, for subscription: Int64
  ) -> Bool {
    assertInEventLoop()
    noteEvent(bytes: bytes.json / max(1, notifications.count), for: subscription)
    let outcome = session.admit(
      notifications, bytes: bytes, for: subscription, unsentEventBytes: output.eventBytes)
    switch outcome {
    case .send: return true
    case .dropped: return false
    case .held:
      charge()
      return false
    case .overloaded:
      endForUnreadEvents()
      return false
    }
  }

  final func endForUnreadEvents() {
    end(
      WireError(
        .overloaded,
        "the client has left more than \(operations.limits.queuedBytesMax) bytes of events unread; the "
          + "connection closes"))
  }

  package final func send(events bytes: ByteBuffer) {
    sendEvents { $0.append(events: bytes) }
  }

  package final func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    sendEvents {
      $0.append(events: head)
      $0.append(events: rest)
    }
  }

  package final func send(events pieces: LinePieces) {
    sendEvents { $0.append(pieces, areEvents: true) }
  }

  private final func sendEvents(_ append: (inout LineOutput) -> Void) {
    assertInEventLoop()
    guard session.isOpen, let context else { return }
    append(&output)
    noteUnsent(context)
    charge()
    services.unflushed.append(self)
  }

  package final func cancel(_ subscription: Int64, _ code: WireError.Code) {
    assertInEventLoop()
    session.cancel(subscription, code)
    guard let context else { return }
    perform(context)
    services.unflushed.append(self)
  }
}
