internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// The computation of all checksums of a file of an older schema, which has none, in bounded steps.
///
/// If the process dies in between, the file stays unsealed, and the next start computes all checksums again.
struct Sealing {
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
                SELECT path, value FROM leaves WHERE ?1 IS NULL OR path > ?1
                ORDER BY path LIMIT \(Sealing.rowsMax)
                """), arguments: [last])
          let update = try db.cachedStatement(sql: "UPDATE leaves SET checksum = ? WHERE path = ?")
          for row in cursor {
            let (path, value): (Data, Data) = (
              try row.withUnsafeData(atIndex: 0) { $0 ?? Data() },
              try row.withUnsafeData(atIndex: 1) { $0 ?? Data() }
            )
            let checksum = path.withUnsafeBytes { path in
              value.withUnsafeBytes { Checksum.leaf(path, $0) }
            }
            try update.execute(arguments: [checksum.stored, row[0] as String])
            sums.add(checksum)
            last = row[0]
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
                    SELECT sequence, time, body, before FROM commits
                    WHERE ?1 IS NULL OR sequence > ?1 ORDER BY sequence LIMIT 1
                    """), arguments: [last])
            else { break }
            let commit = try CommitRow.checksum(row, after: checksum)
            if last == nil {
              try SequenceRange.check(db)
              meta[.base] = row[0] - 1
            }
            (last, checksum) = (row[0], commit.checksum)
            try update.execute(arguments: [checksum.stored, last])
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
