internal import CanopyTree

/// A question for the present value of a query.
struct GetRequest: Sendable {
  var number: Int
  var spec: QuerySpec
  var answer: Answer<Result<Node, DatabaseError>>
}

/// Reading once, from the server where there is a connection.
extension RepositoryState {
  /// Asks the server for the present value of a query. What is known here is the answer when there is
  /// no connection, and none is made in time.
  func get(_ spec: QuerySpec, _ answer: @escaping Answer<Result<Node, DatabaseError>>) {
    connectIfWanted()
    lastGet += 1
    let request = GetRequest(number: lastGet, spec: spec, answer: answer)
    // After the writes that were made before, which it is to see.
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

  /// Sends those that waited for a connection.
  func sendWaitingGets() {
    let waiting = waitingGets
    waitingGets = []
    for request in waiting { send(request) }
  }

  private func send(_ request: GetRequest) {
    if !send(.get(request), { $0.append(get: request.spec) }) {
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
