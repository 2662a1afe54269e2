internal import GRDB

/// The sequence numbers that a folder may have. Arithmetic on them cannot overflow.
///
/// A server that makes a million commits in each second reaches the end after more than a hundred thousand years.
/// So a number outside of the range was altered.
enum SequenceRange {
  /// The greatest sequence number.
  static let max: Int64 = 1 << 62

  /// Whether a number may be that of the last commit: 0 if there is none.
  static func contains(_ sequence: Int64) -> Bool { (0...max).contains(sequence) }

  /// Checks the numbers of all commits. O(log commits).
  ///
  /// - Throws: `StoreError.damaged`.
  static func check(_ db: Database) throws {
    let range = try Row.fetchOne(db, sql: "SELECT min(sequence), max(sequence) FROM commits")
    guard let range, let first: Int64 = range[0], let last: Int64 = range[1] else { return }
    guard first >= 1, last <= max else {
      throw StoreError.damaged(
        "a commit has the number \(first < 1 ? first : last), which no commit can have: "
          + StoreError.waysOut)
    }
  }

  /// Removes the commits that are outside of the range. Returns their number.
  static func removeOthers(_ db: Database) throws -> Int {
    try db.execute(
      sql: "DELETE FROM commits WHERE sequence < 1 OR sequence > ?", arguments: [max])
    return db.changesCount
  }
}
