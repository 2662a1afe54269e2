internal import CanopyRows
internal import Foundation
internal import GRDB
internal import Logging

/// The choice of a damaged write-ahead log, if losses are accepted.
extension Opening {
  /// Corrects the log as far as its checksums prove the bytes: see `LogCorrection`.
  func correctLog(_ found: inout FoundFiles) throws(StoreError) {
    let corrected = try LogCorrection.correct(database: path)
    guard !corrected.isEmpty else { return }
    found.note(corrected)
    configuration.logger.warning("the write-ahead log was damaged, and is corrected")
  }

  /// Removes a damaged log if the database file has all of its pages that SQLite reads, and later ones. Returns a sentence
  /// if other transactions are only in the log, behind the damage.
  ///
  /// After SQLite has copied the log into the database file, the log stays until the next transaction. SQLite reads such a
  /// log up to the first damaged frame, and these older pages take the place of newer ones in the file. If the copy was
  /// interrupted, the log stays: the file alone has pages of two times. See `LogComparison`. O(bytes of the log), and
  /// O(size) if the log has damage behind which the file has pages.
  func removeOutdatedLog(_ found: inout FoundFiles) throws -> [String] {
    guard LogScan.exists(database: path), !hasFirstJournal,
      let copied = try? LogComparison.run(database: path),
      copied.isProven || isSound(hasLog: false), let file = try? provenEnd(hasLog: false),
      isOutdated(try? provenEnd(hasLog: true), file)
    else { return [] }
    try found.keep()
    try removeLog()
    guard copied.missingTransactions > 0 else { return [] }
    let loss =
      "the write-ahead log is damaged, and the \(copied.missingTransactions) transactions that only "
      + "it has may be lost: \(StoreError.waysOut)"
    configuration.logger.warning("the loss is accepted: \(loss)")
    return [loss]
  }

  /// Removes the log, of which there is a copy.
  func removeLog() throws(StoreError) {
    for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
    try synchronizeFolder()
    configuration.logger.warning(
      "the write-ahead log is older than the database file, and is not used")
  }

  /// Whether a file has later commits alone than with its log, or as many and no damage.
  private func isOutdated(_ log: ProvenEnd?, _ file: ProvenEnd) -> Bool {
    // With an unreadable log, only a file that has all stored commits counts.
    guard let log else { return tail.map { file.sequence >= $0.tail.sequence } ?? false }
    if (file.sequence, file.revision) != (log.sequence, log.revision) {
      return (file.sequence, file.revision) > (log.sequence, log.revision)
    }
    return !isSound(hasLog: true) && isSound(hasLog: false)
  }

  /// Whether the file has no damage, with or without its log. O(size).
  func isSound(hasLog: Bool) -> Bool {
    guard let pool = try? readingPool(hasLog: hasLog) else { return false }
    defer { try? pool.close() }
    let problems = try? pool.unsafeRead { db in
      try refuseForeignDefinitions(db)
      return try SQLiteStore.rowProblems(db, folder, [], tail?.tail)
    }
    return problems?.isEmpty ?? false
  }

  /// Refuses definitions that are those of no version: a view or a trigger may never end.
  func refuseForeignDefinitions(_ db: Database) throws {
    guard try Schema.hasKnownDefinitions(db) else {
      throw StoreError.alteredDefinition(in: path)
    }
  }

  /// Returns the end of the journal in the file, with or without its log.
  ///
  /// Without the right numbers of the checkpoint, the file alone proves nothing. With the log, the last commit that can be
  /// read counts then, so that the log stays.
  ///
  /// - Throws: an error of SQLite or `StoreError` if the file cannot be read.
  func provenEnd(hasLog: Bool) throws -> ProvenEnd {
    let pool = try readingPool(hasLog: hasLog)
    defer { try? pool.close() }
    return try pool.unsafeRead { db in
      try refuseForeignDefinitions(db)
      let meta = hasLog ? try? Meta.read(db) : try Meta.read(db)
      let base = meta?[.base] ?? 0
      var commits = ProvenCommits(
        after: base, meta.map { [$0.baseChecksum] } ?? [], isCertain: meta != nil)
      let rows = try Row.fetchCursor(
        db, sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence > ? ORDER BY sequence",
        arguments: [base])
      // A page that cannot be read ends the journal. So does a row out of order: a damaged table may have the same pages
      // in very many places.
      do { while let row = try rows.next(), try commits.add(row) {} } catch {}
      commits.end(tail?.tail)
      guard let meta else {
        return ProvenEnd(sequence: commits.runs.last?.upperBound ?? .max, revision: .max)
      }
      return ProvenEnd(
        sequence: commits.end(ofRunWith: meta[.checkpoint] + 1), revision: meta[.revision])
    }
  }
}
