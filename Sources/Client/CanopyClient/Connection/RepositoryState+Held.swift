internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Logging

/// Writes that the server refuses for a time: held, and sent again in their order.
extension RepositoryState {
  /// Holds a write if it is still pending.
  ///
  /// - Parameters:
  ///   - request: the oldest write or transaction that awaited an answer.
  ///   - milliseconds: the time to wait.
  /// - Returns: false if the application has given the write up.
  func hold(_ request: SentRequest, for milliseconds: Int64, _ error: WireError) -> Bool {
    guard isPending(request) else { return false }
    if held.isEmpty {
      options.logger.warning(
        "the server refuses a write for now; will send it again",
        metadata: ["milliseconds": "\(milliseconds)", "error": "\(error.sentence)"])
    }
    if held.add(request), let owner {
      owner.after(min(max(1, milliseconds), HeldWrites.waitMax)) { $0.held.endWait() }
    }
    return true
  }

  private func isPending(_ request: SentRequest) -> Bool {
    switch request {
    case .write(let id, _, _): tree.writes[id] != nil
    case .compareAndSet(let id, _, _, _): tree.transactions[id] != nil
    default: false
    }
  }

  /// Ends the wait if it is over and no earlier write awaits an answer, so that the order is kept.
  func releaseHeldWrites() {
    guard held.isOver, deferredReplies.isEmpty,
      !sentRequests.contains(where: { $0.encoded != nil || $0.isDeferred })
    else { return }
    held.release()
  }

  /// Records an answer that does not name a time to wait.
  ///
  /// If the server has made a write, the held ones that were sent before it and wrote there end. Otherwise they would
  /// replace it.
  func noteAnswer(_ answer: Result<[UInt8], WireError>, to request: SentRequest) {
    guard request.encoded != nil else { return }
    held.noteAnswer()
    guard !held.isEmpty, case .success(let json) = answer, isMade(request, json) else { return }
    let paths = paths(of: request)
    let overtaken = held.removeRefused { request in
      self.paths(of: request).contains { heldPath in
        paths.contains { madePath in heldPath.hasPrefix(madePath) || madePath.hasPrefix(heldPath) }
      }
    }
    let error = WireError(
      .unavailable,
      "the server refused the write for a time, and has made a later one of this client there")
    for request in overtaken { finish(request, .failure(error)) }
  }

  /// Whether a reply without an error says that a write was made.
  private func isMade(_ request: SentRequest, _ json: [UInt8]) -> Bool {
    guard case .compareAndSet = request, !endpoint.isRealtime else { return true }
    return (try? members(json) { $0.isCommitted }) ?? false
  }

  private func paths(of request: SentRequest) -> [Path] {
    switch request {
    case .write(let id, _, _): tree.writes[id]?.assignments.map(\.location.path) ?? []
    case .compareAndSet(_, let path, _, _): [path]
    default: []
    }
  }

  /// Drops the held writes, which the application has given up. The server waits for none of them.
  func purgeHeldWrites() {
    for request in held.removeAll() {
      switch request {
      // With persistence, the write counts as ended only once that is recorded.
      case .write(_, let number, _): if persistence == nil { writeNumbers.endWrite(number) }
      case .compareAndSet(_, _, let number, _): writeNumbers.endTransaction(number)
      default: break
      }
    }
  }
}
