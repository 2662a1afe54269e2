public import CanopyEngine
internal import CanopySystem
internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Logging

extension SQLiteStore {
  /// Reads a page of the history backwards. See `Journal`.
  ///
  /// Ends before a commit that was altered or whose predecessor is missing: the history does not reach back further.
  /// The tree does not need such a commit, and a client that resumes gets the present state. Logs a warning.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    // The client asks for long work: so its thread stands back behind the event loops and the writer. A synchronous read
    // runs on the thread of its caller.
    try await withCheckedThrowingContinuation { continuation in
      let read = { @Sendable [self] in
        continuation.resume(
          with: Result { try readHistory(after: first, through: last, where: isAsked) })
      }
      if !WorkerThread.start(niceness: 5, read) { read() }
    }
  }

  private func readHistory(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) throws -> HistoryPage {
    try pool.read { [configuration] db in
      let rows = try Row.fetchCursor(
        db.cachedStatement(
          sql: """
            SELECT \(CommitRow.columns) FROM commits
            WHERE sequence > ? AND sequence <= ? ORDER BY sequence DESC
            """), arguments: [first, last])
      var page = HistoryPage()
      while !page.isFull, let row = try rows.next() {
        do {
          guard try SQLiteStore.add(row, db, to: &page, where: isAsked) else { break }
        } catch let error as StoreError {
          configuration.logger.warning(
            "the history ends at a damaged commit, so clients that resume from before it get the present state",
            metadata: ["error": "\(error.sentence)"])
          break
        }
      }
      return page
    }
  }

  /// Checks a row and adds it to a page. Returns false if the row does not come right before the last one.
  private static func add(
    _ row: Row, _ db: Database, to page: inout HistoryPage, where isAsked: HistoryFilter
  ) throws -> Bool {
    let sequence: Int64 = row[0]
    guard SequenceRange.contains(sequence), sequence > 0 else {
      throw StoreError.missing(commit: sequence)
    }
    _ = try CommitRow.check(row, after: CommitRow.chain(db, after: sequence - 1))
    var bytes = try row.withUnsafeData(atIndex: 2) { $0?.count ?? 0 }
    var commit: Commit?
    if isAsked(try readLocations(row)) {
      commit = try CommitRow.commitAndImage(row)
      bytes += try row.withUnsafeData(atIndex: 3) { $0?.count ?? 0 }
    }
    return page.add(sequence, bytes: bytes, commit)
  }

  private static func readLocations(_ row: Row) throws -> [Location] {
    do {
      return try row.withUnsafeData(atIndex: 2) { data in
        try (data ?? Data()).withUnsafeBytes { try AssignmentCodec.decodeLocations($0) }
      }
    } catch {
      throw StoreError.damagedRow("commit \(row[0] as Int64)", error)
    }
  }
}

extension SQLiteStore: RulesRecordStore {
  /// Returns the record of the rules in force: since which commit they hold.
  ///
  /// - Throws: `StoreError.damaged` if it was altered.
  public func rulesRecord() async throws -> RulesRecord? {
    try await pool.read { try Self.rulesRecord($0) }
  }

  static func rulesRecord(_ db: Database) throws -> RulesRecord? {
    guard
      let row = try Row.fetchOne(db, sql: "SELECT digest, sequence, checksum FROM rules_record")
    else { return nil }
    try SealedTable.rulesRecord.check(row)
    return RulesRecord(digest: row[0], sequence: row[1])
  }

  /// Replaces the record of the rules in force, in one transaction.
  public func setRulesRecord(_ record: RulesRecord?) async throws {
    try await writeCounted { [tailFile] db in
      try Self.setRulesRecord(record, db)
      tailFile.set(.rulesFile, record?.origin == .file)
    }
  }

  static func setRulesRecord(_ record: RulesRecord?, _ db: Database) throws {
    try db.execute(sql: "DELETE FROM rules_record")
    guard let record else { return }
    try db.execute(
      sql: "INSERT INTO rules_record(digest, sequence) VALUES (?, ?)",
      arguments: [record.digest, record.sequence])
    try SealedTable.rulesRecord.seal(db, where: "TRUE", [])
  }
}
