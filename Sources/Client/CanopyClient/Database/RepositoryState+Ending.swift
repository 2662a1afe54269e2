internal import DequeModule
internal import Dispatch

/// The end of a database: its app was deleted.
extension RepositoryState {
  /// Fails all operations that have not finished, and refuses later ones. Keeps the recorded state.
  ///
  /// - Parameter completion: called when the files of persistence are closed.
  func end(_ error: DatabaseError, completion: @escaping @Sendable () -> Void) {
    guard ending == nil else { return completion() }
    ending = error
    failWrites(error)
    goOffline(error.sentence)
    failRequests(error)
    endObservers(error)
    tree = SyncTree()
    record()
    guard let persistence else { return completion() }
    self.persistence = nil
    persistence.queue.async {
      try? persistence.store.close()
      completion()
    }
  }

  private func failWrites(_ error: DatabaseError) {
    let writes = writeCompletions.sorted { $0.key < $1.key }
    writeCompletions = [:]
    for (_, completion) in writes { completion(error, self) }
    let transactions = transactions.sorted { $0.key < $1.key }
    self.transactions = [:]
    transactionRuns = []
    for (_, context) in transactions { refuse(context, error) }
  }

  /// Fails the requests that wait for a connection.
  private func failRequests(_ error: DatabaseError) {
    unanswered = []
    deferredReplies = []
    held = HeldWrites()
    let gets = waitingGets
    waitingGets = []
    for get in gets { get.answer(.failure(error), self) }
    let disconnects = disconnectRequests
    disconnectRequests = []
    for operation in disconnects { operation.completion?(error, self) }
    let sessions = sessionRequests
    sessionRequests = []
    for request in sessions { fail(request, AuthError(.networkError, error.sentence)) }
  }

  private func endObservers(_ error: DatabaseError) {
    let all = registrations.merging(infos.mapValues(\.registration)) { one, _ in one }
    let ended = all.sorted { $0.key.number < $1.key.number }
    registrations = [:]
    keptSynced = [:]
    infos = [:]
    for (id, registration) in ended where registration.type != nil {
      observers.forget(id, registration)
      if !cancel(registration, error) { registration.remove() }
    }
  }
}

extension Database {
  /// Fails all operations that have not finished, and refuses later ones. Returns when the files of persistence
  /// are closed.
  func end(_ error: DatabaseError) async {
    await withCheckedContinuation { continuation in
      repository.use { state in state.end(error) { continuation.resume() } }
    }
  }
}
