internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// The computation of all checksums of a file of an older schema, which has none, in bounded steps.
///
/// If the process dies in between, the file stays unsealed, and the next start goes on. A row that has a checksum keeps it,
/// because a new one would make an altered row valid.
struct Sealing {
  /// Whether the rows of a file have checksums.
  enum State {
    /// All rows have one.
    case complete
    /// No row has one yet, or only the first rows of the checkpoint and the journal: their computation was interrupted.
    case missing
    /// Rows have checksums, but the numbers in `meta` that say so are missing or altered.
    case damaged
  }

  /// Finds out whether the rows of a file have checksums. O(rows of accounts and the like) unless `meta` says so.
  ///
  /// The last transaction of the computation writes the numbers of `meta` and the checksums of all tables except
  /// `commits` and `leaves`. So before it there are none of these.
  ///
  /// - Parameter isSealedOnce: whether it is known that all rows had checksums once, if the tables have columns for them.
  static func state(_ db: Database, isSealedOnce: Bool) throws -> State {
    guard try db.tableExists("meta") else { return .missing }
    let meta = try Meta.readUnchecked(db)
    if meta.isSealed { return .complete }
    guard
      try db.tableExists("leaves"),
      try db.columns(in: "leaves").contains(where: { $0.name.hasSameBytes(as: "checksum") })
    else { return .missing }
    guard !isSealedOnce, meta.isUnsealed else { return .damaged }
    for table in SealedTable.allCases where try db.tableExists(table.rawValue) {
      let sql = "SELECT 1 FROM \(table.rawValue) WHERE checksum <> 0"
      if try Row.fetchOne(db, sql: sql) != nil { return .damaged }
    }
    return .missing
  }

  private static let rowsMax = 2_000

  private let pool: DatabasePool
  private let report: (String) -> Void
  private var meta: Meta
  private var done = 0

  /// Computes and stores the checksums. O(size).
  ///
  /// - Parameter report: receives a sentence about the progress for every 100,000 rows.
  static func run(_ pool: DatabasePool, report: (String) -> Void = { _ in }) throws {
    try withoutActuallyEscaping(report) { report in
      var sealing = Sealing(
        pool: pool, report: report, meta: try pool.read { try Meta.readUnchecked($0) })
      try sealing.sealLeaves()
      try sealing.sealCommits()
      try sealing.finish()
    }
  }

  private mutating func advance(_ rows: Int) {
    let step = 100_000
    done += rows
    if done / step != (done - rows) / step {
      report("\(done) rows of the data folder have received a checksum")
    }
  }

  private mutating func sealLeaves() throws {
    var sums = LeafSums()
    var last: String?
    while true {
      let rows = try pool.writeWithoutTransaction { db in
        var rows = 0
        try db.inTransaction(.immediate) {
          let cursor = try Row.fetchAll(
            db.cachedStatement(
              sql: """
                SELECT path, value, checksum FROM leaves WHERE ?1 IS NULL OR path > ?1
                ORDER BY path LIMIT \(Sealing.rowsMax)
                """), arguments: [last])
          let update = try db.cachedStatement(sql: "UPDATE leaves SET checksum = ? WHERE path = ?")
          for row in cursor {
            last = row[0]
            if let stored = row.number(2), stored != 0 {
              sums.add(Checksum(stored: stored))
              continue
            }
            let (path, value): (Data, Data) = (
              try row.withUnsafeData(atIndex: 0) { $0 ?? Data() },
              try row.withUnsafeData(atIndex: 1) { $0 ?? Data() }
            )
            let checksum = path.withUnsafeBytes { path in
              value.withUnsafeBytes { Checksum.leaf(path, $0) }
            }
            try update.execute(arguments: [checksum.stored, row[0] as String])
            sums.add(checksum)
          }
          rows = cursor.count
          return .commit
        }
        return rows
      }
      advance(rows)
      if rows < Sealing.rowsMax { break }
    }
    meta.leaves = sums
  }

  private mutating func sealCommits() throws {
    var (last, checksum) = (Int64?.none, Checksum())
    while true {
      let rows = try pool.writeWithoutTransaction { db in
        var rows = 0
        try db.inTransaction(.immediate) {
          let update = try db.cachedStatement(
            sql: "UPDATE commits SET checksum = ? WHERE sequence = ?")
          var budget = StepBudget(
            StepBudget.Limits(
              rows: Sealing.rowsMax, bytes: 4 * 1024 * 1024, seconds: .infinity, uptime: { 0 }))
          while !budget.isSpent {
            guard
              let row = try Row.fetchOne(
                db.cachedStatement(
                  sql: """
                    SELECT \(CommitRow.columns) FROM commits
                    WHERE ?1 IS NULL OR sequence > ?1 ORDER BY sequence LIMIT 1
                    """), arguments: [last])
            else { break }
            let commit = try CommitRow.checksum(row, after: checksum)
            if last == nil {
              try SequenceRange.check(db)
              meta[.base] = row[0] - 1
            }
            last = row[0]
            if let stored = row.number(4), stored != 0 {
              checksum = Checksum(stored: stored)
            } else {
              checksum = commit.checksum
              try update.execute(arguments: [checksum.stored, last])
            }
            budget.spend(bytes: commit.bytes)
            rows += 1
          }
          return .commit
        }
        return rows
      }
      advance(rows)
      if rows == 0 { break }
    }
    if last == nil { meta[.base] = meta[.checkpoint] }
    meta.baseChecksum = Checksum()
  }

  private mutating func finish() throws {
    meta[.revision] += 0
    meta[.isSealed] = 1
    let sealed = meta
    try pool.writeWithoutTransaction { db in
      try db.inTransaction(.immediate) {
        for table in SealedTable.allCases {
          try table.seal(db, where: "TRUE", [])
          try table.writeSum(db)
        }
        var meta = sealed
        meta[.schema] = try Schema.checksum(db).stored
        try meta.write(db)
        return .commit
      }
    }
  }
}
