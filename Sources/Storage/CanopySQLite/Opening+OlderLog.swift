internal import CanopyRows
internal import GRDB

/// The end of the data in a database: the last commit, and the number of changes to other tables.
struct ProvenEnd: Equatable {
  var sequence: Int64
  var revision: Int64

  /// An end than which no other is later.
  static let unknown = ProvenEnd(sequence: .max, revision: .max)

  /// Whether the commit or the number is later than in `other`.
  func isLater(than other: ProvenEnd) -> Bool {
    sequence > other.sequence || revision > other.revision
  }
}

/// The search for a write-ahead log that is older than the database file, or whose end was cut.
///
/// SQLite reads such a log, and its pages hide newer ones of the file. No crash leaves this: SQLite may copy pages of the
/// log into the file at any time, so each page of the file is as it was when the log began, or after one of its
/// transactions. The pages may be of several times, so the file alone may be unreadable. But it never proves a later
/// commit or change than the log has.
extension Opening {
  /// A log without which the database file has more.
  struct OlderLog {
    /// A sentence for the loss that the log would cause.
    var loss: String
    /// Whether the file without the log is sound and has all that the log has.
    var canBeRemoved: Bool
  }

  /// Compares the database file with its log; nil if the log is not older.
  ///
  /// O(1) if it is not. Otherwise O(size).
  ///
  /// - Parameter isThorough: whether to read all commits, so that a gap in them counts as their end.
  func olderLog(_ scan: LogScan?, isThorough: Bool = false) -> OlderLog? {
    guard let scan, scan.transactions > 0, !hasFirstJournal, var file = try? endOfFile() else {
      return nil
    }
    guard var log = try? endWithLog() else {
      // The view through the log cannot be read. The log may go if the file alone has everything that the log has.
      guard scan.lostTransactions == 0, hasAll(file), isSound(hasLog: false) else { return nil }
      return olderLog("which is sound without it", file, canBeRemoved: true)
    }
    if isThorough, log != .unknown, let provenLog = try? provenEnd(hasLog: true),
      let provenFile = try? provenEnd(hasLog: false)
    {
      (log, file) = (provenLog, provenFile)
    }
    guard file.isLater(than: log) else { return nil }
    let canBeRemoved =
      scan.lostTransactions == 0 && !log.isLater(than: file) && !isTailLater(than: file)
      && isSound(hasLog: false)
    return olderLog(
      "and hides \(changes(of: file, after: log))", file, canBeRemoved: canBeRemoved)
  }

  private func changes(of file: ProvenEnd, after log: ProvenEnd) -> String {
    guard file.sequence > log.sequence else {
      let count = file.revision - log.revision
      return count == 1
        ? "a change to accounts, sessions or on-disconnect writes"
        : "\(count) changes to accounts, sessions or on-disconnect writes"
    }
    let first = log.sequence + 1
    return first == file.sequence ? "commit \(first)" : "the commits \(first) to \(file.sequence)"
  }

  private func olderLog(_ reason: String, _ file: ProvenEnd, canBeRemoved: Bool) -> OlderLog {
    let isTailOlder = tail.map { $0.tail.sequence < file.sequence } ?? false
    // Without the log, the next start would refuse the folder by such a tail.
    let demandsLog = tail.map { !$0.isOfThisBoot && $0.marks.contains(.log) } ?? false
    let advice =
      "move the file out of the data folder"
      + (isTailOlder || demandsLog
        ? ", and canopy.tail with it, so that the commits get new numbers" : "")
    return OlderLog(
      loss: "\(path)-wal was cut or is older than canopy.sqlite, \(reason): "
        + (canBeRemoved ? advice : StoreError.waysOut),
      canBeRemoved: canBeRemoved)
  }

  /// Removes an older log that is intact, if nothing is lost without it. Returns a sentence for the report. See
  /// `removeOutdatedLog` for a damaged one.
  ///
  /// If the file alone is damaged, or lacks another part of what the log has, the log stays in use, which counts as a loss.
  /// The folder keeps a copy of the files in both cases. O(size of the journal) if the folder has a log.
  func removeOlderLog(_ found: inout FoundFiles) throws -> [String] {
    let scan = try LogScan.scan(database: path)
    guard scan?.lostTransactions == 0, let older = olderLog(scan, isThorough: true) else {
      return []
    }
    try found.keep()
    guard older.canBeRemoved else { return [] }
    try removeLog()
    return ["canopy.sqlite-wal was cut or is older than canopy.sqlite, and is not used"]
  }

  /// Returns the end of the data with the log. O(1).
  ///
  /// - Throws: an error of SQLite or `StoreError` if it cannot be read.
  private func endWithLog() throws -> ProvenEnd {
    let pool = try readingPool(hasLog: true)
    defer { try? pool.close() }
    return try pool.unsafeRead { db in
      try refuseForeignDefinitions(db)
      return try end(db)
    }
  }

  private func end(_ db: Database) throws -> ProvenEnd {
    let meta = try Meta.read(db)
    // A repair that was interrupted has removed commits, which the file may still have.
    guard !meta.needsNewNumbers else { return .unknown }
    try SequenceRange.check(db)
    return ProvenEnd(sequence: try CommitRow.last(db).sequence, revision: meta[.revision])
  }

  /// Returns the end of the data in the file alone. O(1).
  ///
  /// The pages may be of several times. So the last commit counts only if its checksum follows from the one before, and
  /// the number of changes only with the checksum of `meta`.
  ///
  /// - Throws: an error of SQLite or `StoreError` if the file proves nothing.
  private func endOfFile() throws -> ProvenEnd {
    let pool = try readingPool(hasLog: false)
    defer { try? pool.close() }
    return try pool.unsafeRead { db in
      try refuseForeignDefinitions(db)
      try SequenceRange.check(db)
      let meta = try Meta.read(db)
      let last = try CommitRow.last(db).sequence
      let row = try Row.fetchOne(
        db, sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence = ?", arguments: [last])
      if let row { _ = try CommitRow.check(row, after: CommitRow.chain(db, after: last - 1)) }
      return ProvenEnd(sequence: last, revision: meta[.revision])
    }
  }

  /// Whether `canopy.tail` shows a commit or a change that a file does not have.
  private func isTailLater(than file: ProvenEnd) -> Bool {
    guard let tail = tail?.tail else { return false }
    return ProvenEnd(sequence: tail.sequence, revision: tail.revision).isLater(than: file)
  }

  /// Whether a file has the commits and changes that `canopy.tail` and the pages of the log show. O(bytes of the log).
  private func hasAll(_ file: ProvenEnd) -> Bool {
    guard !isTailLater(than: file) else { return false }
    var change = DurableChange()
    do throws(StoreError) {
      guard let frames = try LogFrames(database: path) else { return false }
      while let frame = try frames.next()?.bytes {
        change.add(Array(frame[LogFrames.frameHeaderBytes...]))
      }
    } catch { return false }
    let log = ProvenEnd(sequence: change.sequence ?? 0, revision: change.revision ?? 0)
    return !log.isLater(than: file)
  }
}
