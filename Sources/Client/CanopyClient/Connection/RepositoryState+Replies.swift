internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Logging

/// The server's replies and events.
extension RepositoryState {
  func take(_ line: ServerLine) {
    silentTicks = 0
    switch line {
    case .event(let event):
      take(event)
      deliverDeferredReplies()
    case .success(let json): takeAnswer(.success(json))
    case .failure(let error): takeAnswer(.failure(error))
    }
  }

  private func take(_ event: SyncEvent) {
    guard let tag = subscriptions.take(event) else { return }
    switch event.change {
    case .cancel(let code):
      subscriptions.lastRefusal = DatabaseError(
        WireError(code, "the server ended the listening: \(code.rawValue)"))
      perform(tree.cancelled(tag))
    case .put(let assignments):
      perform(
        tree.changed(
          tag, assignments, isPatch: event.isPatch, sequence: event.sequence))
    }
  }

  func takeAnswer(_ answer: Result<[UInt8], WireError>) {
    let wait = waitOfWrite(answer)
    if case .failure(let error) = answer, error.isTransient, !isAboutSession, wait == nil {
      // The server has not answered these requests. Send all of them again, in order, on another
      // connection.
      options.logger.warning(
        "the server is unavailable; will retry", metadata: ["error": "\(error.sentence)"])
      dropConnection(error.sentence)
      return
    }
    guard let request = sentRequests.popFirst() else {
      dropConnection("the server sent a reply without a request")
      return
    }
    if let wait, hold(request, for: wait.milliseconds, wait.error) {
      deliverDeferredReplies()
      return continueHandshake()
    }
    noteAnswer(answer, to: request)
    if case .resending = phase {
      deferredReplies.append(.deferred(request, answer))
      return continueHandshake()
    }
    finish(request, answer)
    deliverDeferredReplies()
    continueHandshake()
  }

  /// Delivers the deferred replies to writes of earlier connections once all initial events before
  /// them have arrived.
  func deliverDeferredReplies() {
    while subscriptions.areUpToDate || isPlanted(.repliesOvertakeEvents),
      case .deferred(let write, let answer)? = sentRequests.first
    {
      sentRequests.removeFirst()
      finish(write, answer)
    }
  }

  func finish(_ request: SentRequest, _ answer: Result<[UInt8], WireError>) {
    do throws(WireError) {
      try take(answer, of: request)
    } catch {
      options.logger.error(
        "the server's answer cannot be read", metadata: ["error": "\(error.sentence)"])
      dropConnection(error.sentence)
    }
  }

  /// Returns the time after which the oldest request may succeed, if it is a write and the answer names such a time.
  private func waitOfWrite(
    _ answer: Result<[UInt8], WireError>
  ) -> (milliseconds: Int64, error: WireError)? {
    guard let error = answer.error, error.isTransient, let milliseconds = error.retryMilliseconds,
      sentRequests.first?.encoded != nil
    else { return nil }
    return (milliseconds, error)
  }

  /// Whether the caller of the oldest request receives its failure, whatever the code.
  private var isAboutSession: Bool {
    switch sentRequests.first {
    case .session?, .get?, .disconnect?: true
    default: false
    }
  }

  private func take(
    _ answer: Result<[UInt8], WireError>, of request: SentRequest
  ) throws(WireError) {
    switch request {
    case .hello(let asked):
      try takeHello(try answer.get(), asked: asked)
    case .resumedSession(let token):
      if case .failure(let error) = answer { sessionRefused(token, error) }
    case .session(let request): take(answer, of: request)
    case .listen(let tag) where endpoint.isRealtime: takeRealtime(answer, ofListen: tag)
    case .listen(let tag): try take(answer, ofListen: tag)
    case .write(let id, let number, _):
      // With persistence, the write counts as ended only once that is recorded.
      if persistence == nil { writeNumbers.endWrite(number) }
      finishWrite(id, answer.error.map { DatabaseError($0) })
    case .compareAndSet(let id, let path, _, _) where endpoint.isRealtime:
      takeRealtime(answer, ofTransaction: id, at: path)
    case .compareAndSet(let id, _, let number, _):
      try take(answer, ofTransaction: id)
      writeNumbers.endTransaction(number)
    case .disconnect(let operation): take(answer.error, of: operation)
    case .get(var request):
      if !request.isUnfiltered, let error = answer.error, error.isMissingIndex {
        warn(ofMissingIndex: error)
        request.isUnfiltered = true
        return send(request)
      }
      var result = try readNode(answer)
      if request.isUnfiltered { result = result.map { request.spec.query.value(of: $0) } }
      if case .success(let node) = result {
        perform(tree.fetched(node, of: request.spec))
        // As if the writes that the read has overtaken were made.
        if !held.isEmpty, request.endsOffline {
          let shown = tree.writes.value(of: request.spec.path, over: node)
          result = .success(request.spec.query.value(of: shown))
        }
      }
      request.answer(result, self)
    case .nothing, .deferred: break
    }
  }

  private func takeHello(_ json: [UInt8], asked: Int64) throws(WireError) {
    try members(json) { members in
      if let time = members.integer("time") {
        clock.learn(server: time, asked: asked, answered: clock.local)
      }
      guard let limits = members["limits"], let bounds = try? JSONMembers(limits) else { return }
      if let bytes = bounds.integer("lineBytes") { serverLimits.lineBytes = Int(clamping: bytes) }
      if let count = bounds.integer("outstandingRequests") {
        serverLimits.outstandingRequests = max(1, Int(clamping: count))
      }
      if let count = bounds.integer("clientWrites") {
        serverLimits.clientWrites = max(1, Int(clamping: count))
      }
    }
  }

  private func take(
    _ answer: Result<[UInt8], WireError>, ofListen tag: ListenTag
  ) throws(WireError) {
    switch answer {
    case .failure(let error):
      guard subscriptions.refuse(tag) else { return }
      if error.isMissingIndex, let listen = tree.unindexed(tag) {
        warn(ofMissingIndex: error)
        return start(listen)
      }
      subscriptions.lastRefusal = DatabaseError(error)
      perform(tree.cancelled(tag))
    case .success(let json):
      let (number, initial) = try members(json) { ($0.integer("sub"), $0.integer("initial")) }
      guard let number, let initial else { throw .unreadable }
      if !subscriptions.begin(tag, number, initial: initial) { unlisten(number) }
    }
  }

  private func take(
    _ answer: Result<[UInt8], WireError>, ofTransaction id: TransactionID
  ) throws(WireError) {
    let reply: TransactionAnswer
    switch answer {
    case .failure(let error): reply = .refused(error)
    case .success(let json):
      let (isCommitted, data) = try members(json) { members -> (Bool, Node?) in
        let isCommitted = members.isCommitted
        let data = members["data"].flatMap { try? WriteValue(json: $0, limits: .none).node }
        return (isCommitted, data)
      }
      if isCommitted {
        reply = .committed
      } else if let data {
        reply = .conflict(data)
      } else {
        throw .unreadable
      }
    }
    perform(tree.transactionAnswered(id, reply))
  }

  private func readNode(
    _ answer: Result<[UInt8], WireError>
  ) throws(WireError) -> Result<Node, DatabaseError> {
    switch answer {
    case .failure(let error): return .failure(DatabaseError(error))
    case .success(let json):
      let node = json.withUnsafeBytes { try? WriteValue(json: $0, limits: .none).node }
      guard let node else { throw .unreadable }
      return .success(node)
    }
  }

  /// Calls `body` with the members of a reply.
  func members<R>(_ json: [UInt8], _ body: (JSONMembers) -> R) throws(WireError) -> R {
    let result = json.withUnsafeBytes { bytes in (try? JSONMembers(bytes)).map(body) }
    guard let result else { throw .unreadable }
    return result
  }
}

extension WireError {
  static let unreadable = WireError(.internalError, "the server's answer cannot be read")

  /// Whether the same request may succeed later.
  var isTransient: Bool {
    switch code {
    case .unavailable, .overloaded, .rateLimited: true
    default: false
    }
  }

  /// Whether the server refused a query because the rules declare no index for it.
  var isMissingIndex: Bool {
    // The realtime protocol has no code of its own for it.
    (code == .invalidQuery || code == .invalidData) && sentence.hasBytePrefix("Index not defined")
  }
}

extension JSONMembers {
  /// Whether a transaction was committed.
  var isCommitted: Bool { self["committed"].map { $0.elementsEqual("true".utf8) } ?? false }
}

extension Result where Failure == WireError {
  fileprivate var error: WireError? {
    if case .failure(let error) = self { error } else { nil }
  }
}
