/// Keeps what survives a restart of the process.
///
/// Calls block, and come from one thread at a time: a queue of the layer above, and not the thread that
/// the application waits on. What was recorded before is never mixed with part of a later call.
package protocol PersistenceStore: Sendable {
  /// What was recorded by earlier processes.
  ///
  /// - Throws: an error whose description says what to do, also where what is kept cannot be read.
  func load() throws -> SavedState

  /// Records changes, all or nothing, and drops what has not been used for longest where more is kept
  /// than may be. Pending writes, what is in use and what is to be kept are not dropped.
  ///
  /// - Returns: the queries of which nothing is kept any more; `SyncTree.forget` is to have them.
  func record(_ changes: [StateChange]) throws -> [QuerySpec]

  /// Ends. Nothing is recorded any more.
  func close() throws
}
