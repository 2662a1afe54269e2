internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire
internal import Logging

/// The messages of the server in the realtime protocol.
extension RepositoryState {
  func take(_ message: RealtimeMessage) {
    silentTicks = 0
    switch message {
    case .handshake(let milliseconds, let host, let session):
      takeHandshake(milliseconds, host: host, session: session)
    case .reset(let host):
      redirect(to: host)
      reconnect("the server asked to connect again")
    case .shutdown(let reason):
      options.logger.error(
        "the server ended the connection; goOnline() connects again",
        metadata: ["reason": "\(reason)"])
      goOffline("the server ended the connection for good: \(reason); goOnline() connects again")
    case .notice(let text):
      options.logger.warning("a message of the server", metadata: ["text": "\(text)"])
    case .answer(let number, let status, let data):
      take(RealtimeLink.Answer(status: status, data: data), to: number)
    case .changed(let path, let tag, let puts): takeChange(puts, at: path, tag: tag)
    case .cancelled(let path, let query):
      guard let tag = link.listener(at: path, query) else { return }
      _ = link.end(tag)
      subscriptions.lastRefusal = .notAllowed
      perform(tree.cancelled(tag))
    case .revoked(let status, let reason): identityEnded(status, reason)
    case .other: break
    }
  }

  private func takeHandshake(_ milliseconds: Int64?, host: String?, session: String?) {
    guard case .greeting = phase, case .hello(let asked)? = sentRequests.first else {
      return dropConnection("the server sent a second handshake")
    }
    if let milliseconds { clock.learn(server: milliseconds, asked: asked, answered: clock.local) }
    redirect(to: host)
    // The ID goes into the address of the next connection as it is.
    link.lastSession = session.flatMap { id in
      let isPlain = id.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
          true
        default: false
        }
      }
      return isPlain && id.utf8.count <= RealtimeLink.sessionBytesMax ? id : nil
    }
    greetWithIdentity()
  }

  /// Connects to a host from the next connection on.
  private func redirect(to host: String?) {
    guard let host, let other = endpoint.redirected(to: host) else { return }
    link.redirect = other == endpoint ? nil : other
  }

  private func take(_ answer: RealtimeLink.Answer, to number: Int64) {
    guard let due = link.take(answer, to: number) else {
      return dropConnection("the server sent an answer without a request")
    }
    let generation = generation
    // An earlier answer may have ended the connection.
    for answer in due where generation == self.generation { takeAnswer(answer.result) }
  }

  private func takeChange(_ puts: [Assignment], at path: Path, tag: Int64?) {
    guard let (listen, relative, isPatch) = link.take(puts, at: path, tag: tag) else { return }
    // This protocol numbers no commits; later data have later times.
    perform(tree.changed(listen, relative, isPatch: isPatch, sequence: clock.now))
  }

  // MARK: Answers

  func takeRealtime(_ answer: Result<[UInt8], WireError>, ofListen tag: ListenTag) {
    switch answer {
    case .failure(let error):
      guard link.end(tag) != nil else { return }
      subscriptions.lastRefusal = DatabaseError(error)
      perform(tree.cancelled(tag))
    case .success(let json):
      guard let spec = link.spec(of: tag) else { return }
      let isUnindexed = RepositoryState.lacksIndex(json) && !spec.query.isUnbounded
      if isUnindexed {
        // The sentence of the line protocol.
        let advice =
          "Index not defined, add \".indexOn\": \"\(spec.query.indexName)\", "
          + "for path \"/\(spec.path.text)\", to the rules"
        warn(ofMissingIndex: WireError(.invalidQuery, advice))
      }
      link.answered(tag, isUnindexed: isUnindexed, known: tree.heldData(of: spec))
    }
  }

  private static func lacksIndex(_ json: [UInt8]) -> Bool {
    guard let value = JSONValue(reading: json), case .array(let warnings)? = value["w"] else {
      return false
    }
    return warnings.contains { $0.string == "no_index" }
  }

  func takeRealtime(
    _ answer: Result<[UInt8], WireError>, ofTransaction id: TransactionID, at path: Path
  ) {
    switch answer {
    case .success: perform(tree.transactionAnswered(id, .committed))
    case .failure(let error) where error.code == .conflict:
      if link.hasWholeListener(at: path), let node = tree.heldData(of: QuerySpec(path)) {
        // The server sends the data of listeners before the answer.
        perform(tree.transactionAnswered(id, .conflict(node)))
      } else {
        readConflict(id, path)
      }
    case .failure(let error): perform(tree.transactionAnswered(id, .refused(error)))
    }
  }

  /// Reads the value with which a transaction starts again.
  private func readConflict(_ id: TransactionID, _ path: Path) {
    lastGet += 1
    let request = GetRequest(number: lastGet, spec: QuerySpec(path), endsOffline: false) {
      result, state in
      switch result {
      case .success(let node): state.perform(state.tree.transactionAnswered(id, .conflict(node)))
      case .failure(let error):
        let code: WireError.Code =
          error.code == .permissionDenied ? .permissionDenied : .unavailable
        state.perform(
          state.tree.transactionAnswered(id, .refused(WireError(code, error.sentence))))
      }
    }
    waitingGets.append(request)
    if phase.isReady { sendWaitingGets() }
  }

  /// Ends a transaction whose answer was lost. It is not sent again: the server may have committed it.
  func transactionLost(_ id: TransactionID) {
    let error = WireError(
      .unavailable,
      "the connection was lost before the answer came; the server may have committed the transaction"
    )
    perform(tree.transactionAnswered(id, .refused(error)))
  }
}

extension RealtimeLink.Answer {
  /// The data, or the error of the outcome.
  fileprivate var result: Result<[UInt8], WireError> {
    let outcome = RealtimeStatus(rawValue: status)
    if outcome == .ok { return .success(data) }
    let code: WireError.Code =
      switch outcome {
      case .permissionDenied: .permissionDenied
      case .dataStale, .maxRetries: .conflict
      case .invalidToken, .expiredToken: .unauthenticated
      case .invalidParameters: .invalidData
      case .unavailable: .unavailable
      case .tooBig: .tooLarge
      case .failure, .ok, nil: .internalError
      }
    let text = JSONValue(reading: data)?.string ?? ""
    return .failure(WireError(code, text: text.isEmpty ? "the server answered \(status)" : text))
  }
}

extension Query {
  /// The text that an index of the query's order needs in the rules.
  fileprivate var indexName: String {
    switch order {
    case .key: ".key"
    case .value: ".value"
    case .priority: ".priority"
    case .child(let path): path.text
    }
  }
}
