internal import CanopyTree
internal import Logging

/// The release of a database, after its last reference has gone.
extension RepositoryState {
  /// Keeps the repository of a released database until the server has answered all operations.
  ///
  /// An operation without a completion function references no database. Without this it would be lost
  /// with the last reference.
  func databaseReleased(_ repository: Repository) {
    released = repository
  }

  /// Whether an operation awaits an answer of the server.
  private var isBusy: Bool {
    !tree.writes.isEmpty || !transactions.isEmpty || !disconnectRequests.isEmpty
      || !sessionRequests.isEmpty || !heldRequests.isEmpty
      || sentRequests.contains { if case .session = $0 { true } else { false } }
  }

  /// Closes the connection of a released database once it has no more to do. Does so at once if it is
  /// offline, because no call of `goOnline` can follow.
  func endReleased() {
    guard released != nil, !isOnlineWanted || !isBusy else { return }
    if ending == nil, persistence == nil, !tree.writes.isEmpty || !disconnectRequests.isEmpty {
      options.logger.warning(
        "pending writes are lost: the database was released while it was offline; keep it until goOnline()",
        metadata: ["writes": "\(tree.writes.records.count + disconnectRequests.count)"])
    }
    goOffline("the database was released")
    released = nil
  }
}
