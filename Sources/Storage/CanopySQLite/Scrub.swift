public import CanopyEngine
internal import CanopyRows
internal import Foundation
internal import GRDB

/// A pass over all rows of a data folder that checks them one by one, also while a server writes to it.
///
/// Each step is a read transaction of its own on a connection of its own, so the write-ahead log does not have to grow
/// while a pass goes on for hours. A step checks the checksums of the rows of the checkpoint and of accounts, sessions
/// and on-disconnect writes, and the chain of the commits, and the first one the first bytes of the file. Indexes are
/// compared with the rows of their tables, in both directions. Rows that change between two steps are checked as they
/// are. `canopy verify` also checks sums over whole tables and the structure of the tree, which need one moment.
public struct Scrub: Sendable {
  /// The result of a step.
  public struct Step: Equatable, Sendable {
    /// The number of rows that were checked, and of entries of indexes.
    public var rows = 0
    /// The bytes of these rows and entries.
    public var bytes = 0
    /// One sentence for each problem.
    public var problems: [String] = []
    /// Whether no row has a checksum, because no start has updated the file of an older version yet. Then the pass ends
    /// without having read it.
    public var isOlder = false
  }

  /// The rows that come next.
  private enum Place {
    case leaves(after: [UInt8]?)
    case commits(after: Int64?)
    case table(Int, after: [DatabaseValue]?)
    case index(Int, after: [DatabaseValue]?)
    case end

    /// The first position after the rows of this one.
    var next: Place {
      switch self {
      case .leaves: .commits(after: nil)
      case .commits: .table(0, after: nil)
      case .table(let index, _):
        index + 1 < SealedTable.allCases.count
          ? .table(index + 1, after: nil) : .index(0, after: nil)
      case .index(let index, _):
        index + 1 < StoredIndex.all.count ? .index(index + 1, after: nil) : .end
      case .end: .end
      }
    }
  }

  private let queue: DatabaseQueue
  private let path: String
  private let rowsMax: Int
  private let bytesMax: Int
  private var place = Place.leaves(after: nil)

  /// Whether all rows are checked.
  public var isDone: Bool { if case .end = place { true } else { false } }

  /// Opens a connection to the database of a folder.
  ///
  /// - Parameters:
  ///   - rowsMax: the most rows in a step.
  ///   - bytesMax: the bytes of rows after which a step ends.
  /// - Throws: `StoreError`.
  public init(folder: String, rowsMax: Int = 256, bytesMax: Int = 256 * 1024) throws(StoreError) {
    path = folder + "/canopy.sqlite"
    self.rowsMax = max(1, rowsMax)
    self.bytesMax = max(1, bytesMax)
    try Opening.checkFiles(in: folder)
    guard access(path, F_OK) == 0 else { throw .withoutDatabase(folder) }
    try Opening.refuseEmptied(path)
    var settings = GRDB.Configuration()
    settings.label = "canopy.store.scrub"
    // A connection that cannot write does not remove the log, either, when it is closed last.
    settings.readonly = true
    settings.busyMode = .timeout(5)
    do { queue = try DatabaseQueue(path: literalPath(path), configuration: settings) } catch {
      throw .opening(path, error)
    }
  }

  /// Closes the connection.
  public func close() {
    try? queue.close()
  }

  /// Returns the record of the rules in force; nil without one, also for a file of an older version.
  public func rulesRecord() async throws -> RulesRecord? {
    try await queue.read { db in
      try db.tableExists("rules_record") ? SQLiteStore.rulesRecord(db) : nil
    }
  }

  /// Checks the next rows, as many as a step may have.
  ///
  /// Damage that SQLite itself finds ends the table in which it is, and the next step continues with the next table.
  ///
  /// - Throws: `CancellationError`; an error of SQLite if the database is busy. The step can be tried again.
  public mutating func step() async throws -> Step {
    let (place, path, rowsMax, bytesMax) = (place, path, rowsMax, bytesMax)
    do {
      let (step, after) = try await queue.read { db in
        if case .leaves(after: nil) = place, try !DatabaseHead(path, openIn: db).isSound {
          throw StoreError.damagedHead(of: path)
        }
        let version: Schema.Version
        do { version = try Opening.checkProgram(db, path, acceptsLoss: false) } catch let error
          as StoreError
        {
          // It would be found again in each table.
          return (Step(problems: [error.sentence]), Place.end)
        }
        if version == .empty { return (Step(), Place.end) }
        // The update of an older file computes its checksums first.
        let state = try Sealing.state(db, isSealedOnce: false)
        guard version == .current, state != .missing else {
          return (Step(isOlder: true), Place.end)
        }
        var walk = Walk(db: db, rowsMax: rowsMax, bytesMax: bytesMax)
        let next = try walk.run(from: place)
        return (walk.step, next)
      }
      self.place = after
      return step
    } catch let error as DatabaseError where Scrub.isDamage(error) {
      self.place = place.next
      return Step(problems: [StoreError.reading(path, error).sentence])
    } catch let error as StoreError {
      self.place = place.next
      return Step(problems: [error.sentence])
    }
  }

  /// Whether an error shows that a part of the database cannot be read. A lock of another process does not, and neither
  /// does a statement that was interrupted because the task of the scrub was cancelled.
  static func isDamage(_ error: DatabaseError) -> Bool {
    error.resultCode != .SQLITE_BUSY && error.resultCode != .SQLITE_INTERRUPT
  }

  /// The work of one step.
  private struct Walk {
    let db: Database
    let rowsMax: Int
    let bytesMax: Int
    var step = Step()

    private var isOver: Bool { step.rows >= rowsMax || step.bytes >= bytesMax }

    /// Checks rows of one table. Returns the position of the next step.
    mutating func run(from place: Place) throws -> Place {
      switch place {
      case .leaves(let after): try leaves(after)
      case .commits(let after): try commits(after)
      case .table(let index, let after): try table(index, after)
      case .index(let index, let after): try entries(index, after)
      case .end: .end
      }
    }

    private mutating func note(bytes: Int, _ check: () throws -> Void) throws {
      step.rows += 1
      step.bytes += bytes
      do { try check() } catch let error as StoreError { step.problems.append(error.sentence) }
    }

    private mutating func leaves(_ after: [UInt8]?) throws -> Place {
      let condition = after == nil ? "" : "WHERE path > ?1"
      let rows = try ByteStatement(
        db, "SELECT path, value, checksum FROM leaves \(condition) ORDER BY path")
      return try (after ?? []).withUnsafeBytes { bytes in
        if after != nil { try rows.bind(bytes, at: 1) }
        defer { rows.end() }
        while try rows.next() {
          let (path, value) = (rows.text(0), rows.text(1))
          try note(bytes: path.count + value.count) {
            try LeafTable.check(path, value, rows.number(2))
          }
          if isOver { return .leaves(after: Array(path)) }
        }
        return Place.leaves(after: after).next
      }
    }

    private mutating func commits(_ after: Int64?) throws -> Place {
      let meta = try Meta.read(db)
      // The retention may have removed the commit at which the last step ended.
      var last = max(after ?? 0, meta[.base])
      var checksum = try CommitRow.chain(db, after: last)
      let rows = try Row.fetchCursor(
        db.cachedStatement(
          sql: "SELECT \(CommitRow.columns) FROM commits WHERE sequence > ? ORDER BY sequence"),
        arguments: [last])
      while let row = try rows.next() {
        let sequence = row.number(0) ?? 0
        guard sequence > last, SequenceRange.contains(sequence) else {
          step.problems.append(
            StoreError.damaged(
              "a commit has the number \(sequence) after commit \(last): \(StoreError.waysOut)"
            ).sentence)
          break
        }
        let isNext = sequence == last + 1
        if !isNext { step.problems.append(StoreError.missing(commit: last + 1).sentence) }
        let (expected, bytes) = try CommitRow.checksum(row, after: checksum)
        try note(bytes: bytes) {
          // After a gap there is nothing to compare with.
          do {
            if isNext, expected.stored != row.number(4) {
              throw StoreError.altered("commit \(sequence), or the one before it,")
            }
            _ = try CommitRow.commitAndImage(row)
          } catch let error as StoreError {
            throw StoreError.damagedCommit(sequence, checkpoint: meta[.checkpoint], error)
          }
        }
        (last, checksum) = (sequence, Checksum(stored: row.number(4) ?? 0))
        if isOver { return .commits(after: last) }
      }
      return Place.commits(after: after).next
    }

    private mutating func table(_ index: Int, _ after: [DatabaseValue]?) throws -> Place {
      let table = SealedTable.allCases[index]
      let keys = try db.primaryKey(table.rawValue).columns
      let key = keys.joined(separator: ", ")
      let places = keys.map { _ in "?" }.joined(separator: ", ")
      let condition = after == nil ? "" : "WHERE (\(key)) > (\(places))"
      let entries = try StoredIndex.all.filter { $0.table == table }.map { try $0.hasEntry(db) }
      let hasEntries = entries.isEmpty ? "1" : entries.joined(separator: " AND ")
      let rows = try Row.fetchCursor(
        db,
        sql: """
          SELECT \(key), checksum, \(table.columns.joined(separator: ", ")),
            \(hasEntries) AS hasEntries
          FROM \(table.rawValue)
          \(condition) ORDER BY \(key)
          """,
        arguments: StatementArguments(after ?? []))
      while let row = try rows.next() {
        let bytes = table.columns.reduce(0) { $0 + row.bytes($1) }
        try note(bytes: bytes) {
          try table.check(row)
          guard row.number("hasEntries") == 1 else { throw table.damagedIndex }
        }
        if isOver { return .table(index, after: keys.map { row[$0] }) }
      }
      return Place.table(index, after: after).next
    }

    private mutating func entries(_ number: Int, _ after: [DatabaseValue]?) throws -> Place {
      let index = StoredIndex.all[number]
      let columns = try index.columns(db)
      let rows = try Row.fetchCursor(
        db, sql: try index.entries(db, isFirst: after == nil),
        arguments: StatementArguments(after ?? []))
      while let row = try rows.next() {
        try note(bytes: columns.reduce(0) { $0 + row.bytes($1) }) {
          guard row.number("isSound") == 1 else { throw index.table.damagedIndex }
        }
        if isOver { return .index(number, after: columns.map { row[$0] }) }
      }
      return Place.index(number, after: after).next
    }
  }
}

extension Row {
  /// The bytes of a text or a blob, and 8 for a number.
  fileprivate func bytes(_ column: String) -> Int {
    switch (self[column] as DatabaseValue).storage {
    case .string(let text): text.utf8.count
    case .blob(let data): data.count
    case .int64, .double, .null: 8
    }
  }
}
