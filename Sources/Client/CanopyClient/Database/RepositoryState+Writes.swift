internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Logging

/// Writes: applied locally at once, sent in order, answered later.
extension RepositoryState {
  /// Applies a write.
  ///
  /// - Parameter completion: called when the server has committed or refused it.
  func write(_ write: Write, completion: Answer<DatabaseError?>?) {
    if let ending { return fail(completion, ending) }
    connectIfWanted()
    hasWritten = true
    let (id, effects) = tree.write(write, at: clock.now)
    if let completion { writeCompletions[id] = completion }
    perform(effects)
  }

  /// Sends pending writes, within the server's limits: the held ones first.
  func sendWrites() {
    releaseHeldWrites()
    while phase.isReady, !held.isWaiting,
      sentRequests.count < min(serverLimits.outstandingRequests, held.outstandingMax)
    {
      if let request = held.next() {
        if let encoded = request.encoded { add(encoded) }
        sentRequests.append(request)
        continue
      }
      guard writeNumbers.unseenCount < serverLimits.clientWrites, let request = tree.nextRequest()
      else { return }
      switch request {
      case .write(let id, let write): send(id, write)
      case .compareAndSet(let id, let path, let base, let value): send(id, path, base, value)
      }
    }
  }

  private func send(_ id: WriteID, _ write: Write) {
    let number = writeNumbers.number(of: id)
    let client = writeNumbers.client(of: number)
    let once = OnceID(client: client.name, number: number, seen: client.seen)
    guard let encoded = encode(.write(write, once)) else { return finishWrite(id, lineTooLong) }
    add(encoded)
    sentRequests.append(.write(id, number: number, encoded))
    writeNumbers.recordSent(number)
  }

  private func send(_ id: TransactionID, _ path: Path, _ base: Node, _ value: WriteValue) {
    let number = writeNumbers.nextTransaction()
    let once = OnceID(
      client: writeNumbers.transactionClient, number: number, seen: writeNumbers.transactionsSeen)
    guard let encoded = encode(.compareAndSet(path, base: base, value, once)) else {
      let refusal = WireError(.tooLarge, lineTooLong.sentence)
      return perform(tree.transactionAnswered(id, .refused(refusal)))
    }
    add(encoded)
    sentRequests.append(.compareAndSet(id, path, number: number, encoded))
  }

  private var lineTooLong: DatabaseError {
    DatabaseError(
      .tooLarge,
      "a write may have at most \(serverLimits.lineBytes) bytes as a line of JSON at this server")
  }

  /// Completes a write that the server has committed or refused.
  func finishWrite(_ id: WriteID, _ error: DatabaseError?) {
    perform(error == nil ? tree.acknowledged(id) : tree.refused(id))
    // Once the application knows the outcome, no later process may send the write.
    if persistence != nil { record() }
    guard let completion = writeCompletions.removeValue(forKey: id) else {
      if let error {
        options.logger.warning(
          "a write was refused, and has no completion function", metadata: ["error": "\(error)"])
      }
      return
    }
    completion(error, self)
  }

  /// Drops all writes that the server has not confirmed, and the on-disconnect operations that wait
  /// for a connection.
  func purgeWrites() {
    // Do not resend the writes of an earlier connection either.
    unanswered.removeAll()
    writeNumbers.abandonWrites()
    purgeHeldWrites()
    let (ids, effects) = tree.purgeWrites()
    perform(effects)
    if persistence != nil { record() }
    let error = DatabaseError(
      .writeCanceled, "the write was dropped before the server had confirmed it")
    for id in ids { writeCompletions.removeValue(forKey: id)?(error, self) }
    purgeDisconnectRequests(error)
  }
}
