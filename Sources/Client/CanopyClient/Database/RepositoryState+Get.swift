internal import CanopyTree
internal import CanopyWire
internal import Logging

/// A read of a query's current value.
struct GetRequest: Sendable {
  var number: Int
  var spec: QuerySpec
  /// Whether the server is asked for the whole location, because the rules declare no index for the
  /// query. The library filters the reply.
  var isUnfiltered = false
  /// Whether the read ends without a connection.
  var endsOffline = true
  var answer: Answer<Result<Node, DatabaseError>>
}

/// Single reads, from the server if there is a connection.
extension RepositoryState {
  /// Reads the current value of a query from the server. Answers with the local value if there is
  /// no connection in time.
  func get(_ spec: QuerySpec, _ answer: @escaping Answer<Result<Node, DatabaseError>>) {
    if let ending { return answer(.failure(ending), self) }
    connectIfWanted()
    lastGet += 1
    let request = GetRequest(number: lastGet, spec: spec, answer: answer)
    // Send earlier writes first, so that the read includes them.
    sendWrites()
    if phase.isReady { return send(request) }
    wait(request)
  }

  /// Keeps a read until there is a connection, or answers it from the local data: at once after `goOffline`, else
  /// after a timeout.
  func wait(_ request: GetRequest) {
    guard request.endsOffline else { return waitingGets.append(request) }
    if let ending { return request.answer(.failure(ending), self) }
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

  func send(_ request: GetRequest) {
    let asked = request.isUnfiltered ? QuerySpec(request.spec.path) : request.spec
    if !send(.get(request), .get(asked)) {
      request.answer(
        .failure(DatabaseError(.tooLarge, "the query is longer than a line may be")), self)
    }
  }

  /// Logs that the library filters a query itself, once for each index that the rules lack.
  func warn(ofMissingIndex error: WireError) {
    guard missingIndexes.insert(error.sentence).inserted else { return }
    options.logger.warning(
      "the rules declare no index for a query, so it downloads its whole location and is filtered here",
      metadata: ["advice": "\(error.sentence)"])
  }

  private func answerLocally(_ request: GetRequest) {
    if let node = tree.value(of: request.spec) { return request.answer(.success(node), self) }
    request.answer(
      .failure(
        DatabaseError(
          .disconnected,
          "there is no connection, and the data are not known here; \(reasonForNoConnection)")),
      self)
  }
}
