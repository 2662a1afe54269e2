internal import CanopyTree

/// A read of a query's current value.
struct GetRequest: Sendable {
  var number: Int
  var spec: QuerySpec
  var answer: Answer<Result<Node, DatabaseError>>
}

/// Single reads, from the server if there is a connection.
extension RepositoryState {
  /// Reads the current value of a query from the server. Answers with the local value if there is
  /// no connection in time.
  func get(_ spec: QuerySpec, _ answer: @escaping Answer<Result<Node, DatabaseError>>) {
    connectIfWanted()
    lastGet += 1
    let request = GetRequest(number: lastGet, spec: spec, answer: answer)
    // Send earlier writes first, so that the read includes them.
    sendWrites()
    if phase.isReady { return send(request) }
    guard isOnlineWanted else { return answerLocally(request) }
    waitingGets.append(request)
    owner?.after(options.requestMilliseconds) { state in
      guard let index = state.waitingGets.firstIndex(where: { $0.number == request.number }) else {
        return
      }
      state.answerLocally(state.waitingGets.remove(at: index))
    }
  }

  /// Sends the reads that waited for a connection.
  func sendWaitingGets() {
    let waiting = waitingGets
    waitingGets = []
    for request in waiting { send(request) }
  }

  private func send(_ request: GetRequest) {
    if !send(.get(request), .get(request.spec)) {
      request.answer(
        .failure(DatabaseError(.tooLarge, "the query is longer than a line may be")), self)
    }
  }

  private func answerLocally(_ request: GetRequest) {
    if let node = tree.value(of: request.spec) { return request.answer(.success(node), self) }
    request.answer(
      .failure(
        DatabaseError(.disconnected, "there is no connection, and the data are not known here")),
      self)
  }
}
