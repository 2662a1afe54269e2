internal import Foundation
internal import GRDB
internal import Synchronization

/// The two ways in which the store writes.
///
/// A connection has one level of synchronisation at a time, and background steps lower it. So every
/// transaction that must be durable goes through `writeDurably`, which restores the level first where a step
/// could not.
extension SQLiteStore {
  /// Runs a transaction that is durable, as the configuration defines it, when this returns, and then notes the
  /// end of what is stored in `canopy.tail`.
  ///
  /// Blocks the caller's thread. Adds two `fstat` calls and a `pwrite` of 72 bytes to the transaction.
  ///
  /// - Parameter body: changes the tail as it changes the database.
  /// - Throws: `StoreError.inaccessible` if a file of the database was removed; then nothing is written.
  func writeDurably<R>(_ body: (Database, inout Tail) throws -> R) throws -> R {
    try pool.writeWithoutTransaction { try durably($0, body) }
  }

  /// Runs a durable transaction without blocking the caller's thread. Cancelling the task rolls it back.
  func writeDurably<R: Sendable>(
    _ body: @escaping @Sendable (Database, inout Tail) throws -> R
  ) async throws -> R {
    try await pool.writeWithoutTransaction { [self] in try durably($0, body) }
  }

  /// Runs a durable transaction that changes accounts, tokens or on-disconnect writes: those changes are counted, so
  /// that a lost one is noticed as a lost commit is.
  func writeCounted<R: Sendable>(
    _ body: @escaping @Sendable (Database) throws -> R
  ) async throws -> R {
    try await writeDurably { db, tail in
      let changes = db.totalChangesCount
      let result = try body(db)
      guard db.totalChangesCount != changes else { return result }
      var meta = try Meta.read(db)
      meta[.revision] += 1
      meta.lastCommit = tail.sequence
      try meta.write(db)
      tail.revision = meta[.revision]
      return result
    }
  }

  private func durably<R>(
    _ db: Database, _ body: (Database, inout Tail) throws -> R
  ) throws -> R {
    try files.checkRemain()
    try restoreDurability(db)
    // Read and written by the writing connection alone; the lock is never waited for.
    let before = tail.withLock { $0 }
    var after = before
    let result = try SQLiteStore.transaction(db) { try body($0, &after) }
    if after != before {
      tailFile.write(after)
      tail.withLock { $0 = after }
    }
    return result
  }

  /// Runs a background transaction that does not wait for the disk. Its effect is durable, and in order, with
  /// the next durable one: both are in the same write-ahead log.
  ///
  /// Cancelling the task has an effect before the transaction only. The transaction itself runs outside of
  /// the task, so that no cancellation can come between it and the statement that restores the level.
  func writeInBackground<R: Sendable>(
    _ body: @escaping @Sendable (Database) throws -> R
  ) async throws -> R {
    try Task.checkCancellation()
    return try await withCheckedThrowingContinuation { continuation in
      pool.asyncWriteWithoutTransaction { [self] db in
        continuation.resume(with: Result { try withoutSync(db, body) })
      }
    }
  }

  private func withoutSync<R>(_ db: Database, _ body: (Database) throws -> R) throws -> R {
    isUnsynced.withLock { $0 = true }
    // If this fails, the next durable transaction tries it again before it begins.
    defer { try? restoreDurability(db) }
    try db.execute(sql: "PRAGMA synchronous = NORMAL")
    return try SQLiteStore.transaction(db, body)
  }

  private func restoreDurability(_ db: Database) throws {
    try isUnsynced.withLock { isUnsynced in
      guard isUnsynced else { return }
      try db.execute(sql: "PRAGMA synchronous = \(configuration.durability.pragma)")
      isUnsynced = false
    }
  }

  private static func transaction<R>(_ db: Database, _ body: (Database) throws -> R) throws -> R {
    var result: R?
    try db.inTransaction(.immediate) {
      result = try body(db)
      return .commit
    }
    guard let result else { throw CancellationError() }
    return result
  }
}
