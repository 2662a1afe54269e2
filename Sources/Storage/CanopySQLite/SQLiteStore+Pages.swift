internal import GRDB
internal import Synchronization

/// The check of all pages beside the load of the tree.
extension SQLiteStore {
  /// Starts the check of all pages on the writing connection: see `Opening.refuseDamagedPages`.
  ///
  /// All writes wait in the queue of that connection until the check has ended, and readers do not. So the load of the tree
  /// runs at the same time. If the pages are damaged, each later write throws that error, and the log is not copied into the
  /// database file.
  func startPageCheck(_ opening: Opening) {
    pool.asyncWriteWithoutTransaction { [self] db in
      do {
        configuration.beforePageCheck()
        try opening.refuseDamagedPages(db)
      } catch {
        let found = error as? StoreError ?? .opening(opening.path, error)
        pageError.withLock { $0 = found }
        try? db.execute(sql: "PRAGMA query_only = ON")
      }
    }
  }

  /// Waits until all pages are checked. Throws the error of the check.
  func waitForPageCheck() async throws {
    guard logCopier != nil else { return }
    try await pool.writeWithoutTransaction { [self] _ in try throwPageError() }
  }

  /// Throws the error of the check of all pages. Call on the queue of the writing connection, before each write.
  func throwPageError() throws {
    if let error = pageError.withLock({ $0 }) { throw error }
  }
}
