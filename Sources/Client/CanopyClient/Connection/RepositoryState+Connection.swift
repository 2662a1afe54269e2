internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Logging
internal import NIOCore

/// The lifecycle of the connection: connecting, noticing its end, and reconnecting.
extension RepositoryState {
  /// Connects, unless there is a connection or the application is offline.
  func connectIfWanted() {
    guard isOnlineWanted, case .idle = phase else { return }
    connect()
  }

  /// Closes the connection, and stays offline until `goOnline`.
  ///
  /// - Parameter reason: the reason for errors of requests that need a connection.
  func goOffline(_ reason: String = "the application went offline; call goOnline() first") {
    isOnlineWanted = false
    trouble.offline = reason
    endConnection(reason)
    phase = .idle
    // Nothing but goOnline() brings a connection.
    let waiting = waitingGets
    waitingGets = []
    for request in waiting { wait(request) }
  }

  func goOnline() {
    guard ending == nil else { return }
    isOnlineWanted = true
    trouble.offline = nil
    backoff.reset()
    if case .waiting = phase { phase = .idle }
    connectIfWanted()
  }

  private func connect() {
    guard let owner else { return }
    generation += 1
    phase = .connecting
    let generation = generation
    let take: @Sendable (TransportEvent) -> Void = { [weak owner] event in
      guard let owner else {
        if case .opened(let transport) = event { transport.close() }
        return
      }
      owner.useLater { $0.take(event, generation) }
    }
    let target = link.redirect ?? endpoint
    let (trusted, milliseconds) = (trustedFile, options.connectMilliseconds)
    if endpoint.isRealtime {
      RealtimeTransport.connect(
        to: target, lastSession: link.lastSession, trusted: trusted,
        timeoutMilliseconds: milliseconds, notify: take)
    } else {
      LineTransport.connect(
        to: target, trusted: trusted, timeoutMilliseconds: milliseconds,
        by: options.environment.connector, notify: take)
    }
  }

  /// The file of certificates to trust instead of the system's; nil for those.
  var trustedFile: String? {
    options.trustedCertificatesFile ?? ProcessInfo.processInfo.environment["CANOPY_CA_FILE"]
  }

  private func take(_ event: TransportEvent, _ generation: Int) {
    guard generation == self.generation else {
      if case .opened(let transport) = event { transport.close() }
      return
    }
    switch event {
    case .opened(let transport): greet(transport)
    case .received(let lines):
      // An earlier line may have ended the connection.
      for line in lines where generation == self.generation { take(line) }
    case .receivedMessages(let messages):
      for message in messages where generation == self.generation { take(message) }
    case .closed(let reason): connectionEnded(reason)
    }
  }

  /// Sends HELLO and the session's token. The realtime protocol begins with a message of the server.
  private func greet(_ transport: any Transport) {
    phase = .greeting(transport)
    silentTicks = 0
    keepAlive(generation)
    guard !endpoint.isRealtime else {
      sentRequests.append(.hello(asked: clock.local))
      return
    }
    send(.hello(asked: clock.local)) { $0.append("HELLO") }
    if let token = session.token {
      send(.resumedSession(token: token), .authenticate(token: token))
    }
    continueHandshake()
  }

  /// Continues with the next phase once all requests of this one are answered.
  func continueHandshake() {
    guard sentRequests.isEmpty else { return }
    switch phase {
    case .greeting(let transport):
      phase = .resending(transport)
      for request in unanswered {
        if let encoded = request.encoded { add(encoded) }
      }
      swap(&sentRequests, &unanswered)
      continueHandshake()
    case .resending(let transport): becomeReady(transport)
    default: return
    }
  }

  private func becomeReady(_ transport: any Transport) {
    phase = .ready(transport)
    backoff.reset()
    trouble.connected()
    while let request = sessionRequests.popFirst() { send(request) }
    for operation in disconnectRequests { send(operation) }
    // The writes that were resent stay outstanding: the tree does not learn of the new connection.
    perform(tree.connected())
    sentRequests.append(contentsOf: deferredReplies)
    deferredReplies = []
    deliverDeferredReplies()
    sendWrites()
    sendWaitingGets()
    notifyInfoObservers()
  }

  /// Drops the connection because of a failure, and schedules another attempt.
  func dropConnection(_ reason: String) {
    note(failure: reason)
    reconnect(reason)
  }

  /// Ends the connection and schedules another one.
  func reconnect(_ reason: String) {
    endConnection(reason)
    waitToConnect()
  }

  /// Keeps the reason of a failure for later errors. Logs each reason of a failed attempt once
  /// between two connections.
  private func note(failure reason: String) {
    let isNew = trouble.failed(reason, isAttempt: !phase.isReady)
    let metadata: Logger.Metadata = ["server": "\(endpoint.text)", "reason": "\(reason)"]
    if isNew {
      options.logger.warning("cannot connect; will try again", metadata: metadata)
    } else {
      options.logger.debug("no connection", metadata: metadata)
    }
  }

  /// The reason why there is no connection, as the rest of a sentence.
  var reasonForNoConnection: String {
    let place = endpoint.place
    if let reason = trouble.offline { return reason }
    if let reason = trouble.last { return "the last attempt failed: \(reason)" }
    switch phase {
    case .connecting: return "\(place) has not answered yet"
    case .greeting:
      return "\(place) accepted the connection and did not answer; "
        + "check that the port speaks the protocol of \(endpoint.scheme)://"
    case .resending: return "\(place) has not answered earlier writes yet"
    case .idle, .waiting, .ready: return "check that the server runs"
    }
  }

  private func connectionEnded(_ reason: String) {
    // The host to which the server sent this client cannot be reached.
    if case .connecting = phase { link.redirect = nil }
    dropConnection(reason)
  }

  private func endConnection(_ reason: String) {
    let wasReady = phase.isReady
    phase.transport?.close()
    generation += 1
    phase = .idle
    _ = lines.take()
    subscriptions = ServerSubscriptions()
    link.disconnect()
    let lost = sentRequests
    sentRequests = []
    if !isPlanted(.writeNotResent) { unanswered = Deque(lost.filter(isSentAgain)) + unanswered }
    if !held.isEmpty {
      // All of them in their order, after the wait.
      self.held.add(lost: unanswered)
      unanswered = []
    }
    deferredReplies += lost.filter(\.isDeferred)
    let held = heldRequests
    heldRequests = []
    for request in lost + held.map({ .session($0) }) {
      switch request {
      case .session(let request):
        fail(
          request,
          AuthError(
            .networkError,
            "the connection was lost before the answer came; the server may have done it"))
      case .get(let request): wait(request)
      case .compareAndSet(let id, _, _, _) where !isSentAgain(request): transactionLost(id)
      case .hello, .resumedSession, .listen, .write, .compareAndSet, .disconnect, .nothing,
        .deferred:
        break
      }
    }
    applyRegisteredWrites()
    if wasReady { notifyInfoObservers() }
  }

  /// Whether a request whose answer was lost is sent again. Without the identity of a write, a transaction could take
  /// effect twice.
  private func isSentAgain(_ request: SentRequest) -> Bool {
    if case .compareAndSet = request { return !endpoint.isRealtime }
    return request.encoded != nil
  }

  private func waitToConnect() {
    guard isOnlineWanted, let owner else { return }
    phase = .waiting
    let generation = generation
    let delay = backoff.delay(random: options.environment.random())
    owner.after(delay) { state in
      guard state.generation == generation, case .waiting = state.phase else { return }
      state.phase = .idle
      state.connectIfWanted()
    }
  }

  /// Sends a PING after a period of silence, and drops the connection if there is no reply.
  private func keepAlive(_ generation: Int) {
    owner?.after(options.keepaliveMilliseconds) { state in
      guard state.generation == generation else { return }
      state.silentTicks += 1
      if state.silentTicks > 2 {
        state.dropConnection("the server gave no sign of life")
        return
      }
      if state.silentTicks == 2, state.phase.isReady { state.sendPing() }
      state.keepAlive(generation)
    }
  }

  // MARK: Listening

  func start(_ listen: ServerListen) {
    // Without a connection nothing is sent: the tree starts all its listens on the next one.
    guard phase.isReady else { return }
    if endpoint.isRealtime { link.begin(listen.tag, listen.spec) }
    if !send(.listen(listen.tag), .listen(listen)) {
      _ = link.end(listen.tag)
      subscriptions.lastRefusal = DatabaseError(.tooLarge, "the query is longer than a line may be")
      perform(tree.cancelled(listen.tag))
    }
  }

  func stop(_ tag: ListenTag) {
    guard phase.isReady else { return }
    if endpoint.isRealtime {
      guard let spec = link.end(tag) else { return }
      if send(.nothing, .unlisten(subscription: Int64(tag.number), spec)) {
        link.expectEnd(of: spec)
      }
    } else if let number = subscriptions.end(tag) {
      unlisten(number)
    }
  }

  func unlisten(_ number: Int64) {
    send(.nothing, .unlisten(subscription: number, nil))
  }
}
