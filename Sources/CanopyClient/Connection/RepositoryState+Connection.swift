internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Logging
internal import NIOCore

/// Making connections, noticing their end, and making them again.
extension RepositoryState {
  /// Begins to connect, if there is reason to and it is wanted.
  func connectIfWanted() {
    guard isOnlineWanted, case .idle = phase else { return }
    connect()
  }

  /// Ends the connection, and makes none until `goOnline`.
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
      // One of them may be the end of the connection.
      for line in lines where generation == self.generation { take(line) }
    case .closed(let reason): connectionEnded(reason)
    }
  }

  /// Says hello, and who this is.
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
    goOnIfAnswered()
  }

  /// Sends everything that waits, when the server has said hello and knows who this is.
  func goOnIfAnswered() {
    guard awaited.isEmpty else { return }
    switch phase {
    case .greeting(let transport):
      phase = .settling(transport)
      for request in unsettled {
        if let line = request.line { lines.add(line) }
      }
      swap(&awaited, &unsettled)
      goOnIfAnswered()
    case .settling(let transport): becomeReady(transport)
    default: return
    }
  }

  private func becomeReady(_ transport: Transport) {
    phase = .ready(transport)
    backoff.reset()
    while let request = sessionRequests.popFirst() { send(request) }
    for operation in disconnectRequests { send(operation) }
    // Writes that are on their way stay so: the tree is not told that the connection was another.
    carryOut(tree.connected())
    awaited.append(contentsOf: settled)
    settled = []
    takeSettled()
    sendWrites()
    sendWaitingGets()
    tellInfo()
  }

  /// Gives the connection up: another is made after a while.
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
    let lost = awaited
    awaited = []
    unsettled = Deque(lost.filter { $0.line != nil }) + unsettled
    settled += lost.filter(\.isSettled)
    for awaited in lost {
      switch awaited {
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
    if wasReady { tellInfo() }
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

  /// Asks for a sign of life when nothing has been heard for a while, and gives up when none comes.
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

  /// Adds a request to what is sent at the end of the step.
  @discardableResult
  func send(_ awaited: Awaited, _ write: (inout JSONOutput) -> Void) -> Bool {
    guard lines.add(bytesMax: serverLimits.lineBytes, write) else { return false }
    self.awaited.append(awaited)
    return true
  }

  /// Sends what was gathered.
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
    // Without a connection the tree asks for all its listens again when there is one.
    guard phase.isReady else { return }
    let isSent = send(.listen(listen.tag)) { $0.append(listen: listen.spec, since: listen.since) }
    if !isSent {
      subscriptions.lastRefusal = DatabaseError(.tooLarge, "the query is longer than a line may be")
      carryOut(tree.cancelled(listen.tag))
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
