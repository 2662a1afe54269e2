internal import CanopyEngine
internal import Foundation
internal import GRDB
internal import Synchronization

/// The two kinds of transaction: durable ones and background ones.
///
/// A connection has one level of synchronization at a time, and background steps lower it. So every transaction that
/// must be durable goes through `writeDurably`, or through `beginDurably` and `endDurably` as an append does. They
/// first restore the level if a step failed to.
extension SQLiteStore {
  /// Runs a transaction that is durable, as the configuration defines it, when this returns. Then writes the end of the
  /// durable data to `canopy.tail`.
  ///
  /// Blocks the caller's thread. Adds two `lstat` calls and a `pwrite` of 72 bytes to the transaction.
  ///
  /// - Parameter body: changes the database, and the tail with it.
  /// - Throws: `StoreError.inaccessible` if a file of the database was moved, removed or replaced; then nothing is written.
  func writeDurably<R>(_ body: (Database, inout Tail) throws -> R) throws -> R {
    try pool.writeWithoutTransaction { try durably($0, body) }
  }

  /// Runs a durable transaction without blocking the caller's thread. Cancelling the task rolls it back.
  func writeDurably<R: Sendable>(
    _ body: @escaping @Sendable (Database, inout Tail) throws -> R
  ) async throws -> R {
    try await pool.writeWithoutTransaction { [self] in try durably($0, body) }
  }

  /// Runs a durable transaction that changes accounts, tokens, on-disconnect writes or the record of the rules. Counts
  /// such changes, so that the next start finds a lost one, as it finds a lost commit.
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

  /// Runs a durable transaction that changes accounts, tokens or codes, when it is its turn.
  ///
  /// Only one of them at a time is in the queue of the writing connection, where transactions run in the order in which
  /// they came. So an append waits for at most one, however many clients change accounts.
  func writeAccounts<R: Sendable>(
    _ body: @escaping @Sendable (Database) throws -> R
  ) async throws -> R {
    try await accountTurns.withTurn { try await writeCounted(body) }
  }

  private func durably<R>(
    _ db: Database, _ body: (Database, inout Tail) throws -> R
  ) throws -> R {
    try notingErrors {
      var tail = try beginDurably(db)
      let result = try SQLiteStore.transaction(db) { try body($0, &tail) }
      endDurably(with: tail)
      return result
    }
  }

  /// Prepares the connection for a durable transaction. Returns the end of the durable data, for `endDurably`.
  ///
  /// - Throws: `StoreError.inaccessible` if a file of the database was moved, removed or replaced; the error of a repair
  ///   after an error of the disk; the error of the check of all pages.
  func beginDurably(_ db: Database) throws -> Tail {
    try throwPageError()
    try files.checkRemain()
    try repairLog(db)
    try restoreDurability(db)
    // Only the writing connection uses the tail, so this never waits for the lock.
    return tail.withLock { $0 }
  }

  /// Notes that a durable transaction is on the disk, and writes the new end of the durable data to `canopy.tail`.
  func endDurably(with after: Tail) {
    // The transaction synchronized the whole log, with the steps before it.
    logCopier?.noteSynced()
    guard tail.withLock({ $0 != after }) else { return }
    let isFirst = configuration.durability == .full && tailFile.set(.log)
    tailFile.write(after)
    tail.withLock { $0 = after }
    // If this fails, only a log that is missing as a whole would not be noticed.
    if isFirst { try? tailFile.synchronize() }
  }

  /// Runs a background transaction that does not wait for the disk. It becomes durable with the next durable
  /// transaction, and in order, because both are in the same write-ahead log.
  ///
  /// A step of a database that was removed or replaced could overwrite commits that only its log has, so it is refused.
  ///
  /// Cancelling the task has an effect only before the transaction. The transaction itself runs outside of the task,
  /// so that no cancellation can prevent the statement that restores the level of synchronization.
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
    try throwPageError()
    try files.checkRemain()
    return try notingErrors {
      try repairLog(db)
      isUnsynced.withLock { $0 = true }
      // If this fails, the next durable transaction tries again before it begins.
      defer { try? restoreDurability(db) }
      try db.execute(sql: "PRAGMA synchronous = NORMAL")
      let frames = logCopier?.frames ?? 0
      let result = try SQLiteStore.transaction(db, body)
      logCopier?.noteStep(after: frames)
      return result
    }
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
