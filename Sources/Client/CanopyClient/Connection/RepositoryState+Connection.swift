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
  func goOffline() {
    isOnlineWanted = false
    endConnection("the application went offline")
    phase = .idle
  }

  func goOnline() {
    isOnlineWanted = true
    backoff.reset()
    if case .waiting = phase { phase = .idle }
    connectIfWanted()
  }

  private func connect() {
    guard let owner else { return }
    generation += 1
    phase = .connecting
    let generation = generation
    Transport.connect(
      to: endpoint,
      trusted: options.trustedCertificatesFile
        ?? ProcessInfo.processInfo.environment["CANOPY_CA_FILE"],
      timeoutMilliseconds: options.connectMilliseconds
    ) { [weak owner] event in
      guard let owner else {
        if case .opened(let transport) = event { transport.close() }
        return
      }
      owner.useLater { $0.take(event, generation) }
    }
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
    case .closed(let reason): connectionEnded(reason)
    }
  }

  /// Sends HELLO and the session's token.
  private func greet(_ transport: Transport) {
    phase = .greeting(transport)
    silentTicks = 0
    keepAlive(generation)
    send(.hello(asked: clock.local)) { $0.append("HELLO") }
    if let token = session.token {
      send(.resumedSession(token: token)) { output in
        output.append("AUTH ")
        output.append(string: token)
      }
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
        if let line = request.line { lines.add(line) }
      }
      swap(&sentRequests, &unanswered)
      continueHandshake()
    case .resending(let transport): becomeReady(transport)
    default: return
    }
  }

  private func becomeReady(_ transport: Transport) {
    phase = .ready(transport)
    backoff.reset()
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

  /// Drops the connection and schedules another attempt.
  func dropConnection(_ reason: String) {
    endConnection(reason)
    waitToConnect()
  }

  private func connectionEnded(_ reason: String) {
    options.logger.debug("no connection", metadata: ["reason": "\(reason)"])
    dropConnection(reason)
  }

  private func endConnection(_ reason: String) {
    let wasReady = phase.isReady
    phase.transport?.close()
    generation += 1
    phase = .idle
    _ = lines.take()
    subscriptions = ServerSubscriptions()
    let lost = sentRequests
    sentRequests = []
    unanswered = Deque(lost.filter { $0.line != nil }) + unanswered
    deferredReplies += lost.filter(\.isDeferred)
    for request in lost {
      switch request {
      case .session(let request):
        fail(
          request,
          AuthError(
            .networkError,
            "the connection was lost before the answer came; the server may have done it"))
      case .get(let request): waitingGets.append(request)
      default: break
      }
    }
    applyRegisteredWrites()
    if wasReady { notifyInfoObservers() }
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
      if state.silentTicks == 2, state.phase.isReady { state.send(.nothing) { $0.append("PING") } }
      state.keepAlive(generation)
    }
  }

  // MARK: Sending

  /// Adds a request to the lines that are sent at the end of the step. Returns false if the line is
  /// too long.
  @discardableResult
  func send(_ request: SentRequest, _ write: (inout JSONOutput) -> Void) -> Bool {
    guard lines.add(bytesMax: serverLimits.lineBytes, write) else { return false }
    sentRequests.append(request)
    return true
  }

  /// Sends the collected lines.
  func flush() {
    guard !lines.isEmpty else { return }
    guard let transport = phase.transport else {
      _ = lines.take()
      return
    }
    transport.send(lines.take())
  }

  // MARK: Listening

  func start(_ listen: ServerListen) {
    // Without a connection nothing is sent: the tree starts all its listens on the next one.
    guard phase.isReady else { return }
    let isSent = send(.listen(listen.tag)) { $0.append(listen: listen.spec, since: listen.since) }
    if !isSent {
      subscriptions.lastRefusal = DatabaseError(.tooLarge, "the query is longer than a line may be")
      perform(tree.cancelled(listen.tag))
    }
  }

  func stop(_ tag: ListenTag) {
    guard phase.isReady, let number = subscriptions.end(tag) else { return }
    unlisten(number)
  }

  func unlisten(_ number: Int64) {
    send(.nothing) { output in
      output.append("UNLISTEN ")
      output.append(number)
    }
  }
}
