/// A store of the state that survives a restart of the process.
///
/// Calls block, and come from one thread at a time: a queue of the layer above, not the
/// application's thread. Each call is atomic.
package protocol PersistenceStore: Sendable {
  /// Returns the state that earlier processes recorded.
  ///
  /// - Throws: an error whose description says what to do, also if the stored state cannot be read.
  func load() throws -> SavedState

  /// Records changes, all or nothing, and drops the least recently used data beyond the size limit.
  /// Never drops pending writes, data in use, or data to be kept.
  ///
  /// - Returns: the queries whose data was dropped, for `SyncTree.forget`.
  func record(_ changes: [StateChange]) throws -> [QuerySpec]

  /// Closes the store. Records nothing afterwards.
  func close() throws
}

/// The reason why persistent state cannot be read or written. The description says what to do about
/// it.
package struct PersistenceError: Error, CustomStringConvertible {
  package let description: String

  init(_ description: String) {
    self.description = description
  }
}
