internal import GRDB

/// The numbers of the table `meta`, which are read and written together and have a checksum of their own.
///
/// The sums of other tables (see `SealedTable.sumName`) are in `meta` as well. The checksum does not cover them.
struct Meta: Equatable {
  /// The name of each number.
  enum Name: String, CaseIterable {
    /// The sequence number up to which all commits are in `leaves`.
    case checkpoint
    /// The greatest time of those commits, and in any key that was made while the clock was set back, in
    /// milliseconds since 1970.
    case keyTime = "key_time"
    /// The sequence number after which the journal begins: that of the last commit that was dropped.
    case base
    /// The checksum of that commit, with which the chain begins.
    case baseChecksum = "base_checksum"
    /// The number of rows of `leaves`.
    case leafCount = "leaf_count"
    /// The sum of the checksums of those rows.
    case leafSum = "leaf_sum"
    /// The number of changes to accounts, tokens and on-disconnect writes.
    case revision
    /// The checksum of the tables' definitions.
    case schema
    /// 1 when all rows have their checksums: a file of an older schema gets them bit by bit.
    case isSealed = "sealed"
  }

  private static let checksumName = "checksum"
  private static let lastCommitName = "last_commit"

  private var values: [String: Int64]
  private let original: [String: Int64]

  /// Reads the numbers. O(1).
  ///
  /// - Throws: `StoreError.damaged` if one is missing or their checksum is another.
  static func read(_ db: Database) throws -> Meta {
    let meta = try readUnchecked(db)
    guard Name.allCases.allSatisfy({ $0 == .keyTime || meta.values[$0.rawValue] != nil }),
      meta.original[checksumName] == meta.checksum.stored,
      SequenceRange.contains(meta[.checkpoint]), SequenceRange.contains(meta[.base])
    else {
      throw StoreError.damaged(
        "the table of the checkpoint's number and sums is damaged: \(StoreError.waysOut)")
    }
    return meta
  }

  /// Reads the numbers without a check.
  static func readUnchecked(_ db: Database) throws -> Meta {
    let rows = try Row.fetchCursor(db.cachedStatement(sql: "SELECT name, value FROM meta"))
    var values: [String: Int64] = [:]
    while let row = try rows.next() { values[row[0]] = row[1] }
    return Meta(values: values, original: values)
  }

  private init(values: [String: Int64], original: [String: Int64]) {
    self.values = values
    self.original = original
  }

  /// Writes the numbers that were changed, and the checksum.
  func write(_ db: Database) throws {
    var changed = values
    changed[Meta.checksumName] = checksum.stored
    let statement = try db.cachedStatement(
      sql: "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value")
    for (name, value) in changed where original[name] != value {
      try statement.execute(arguments: [name, value])
    }
  }

  private var checksum: Checksum {
    var checksum = Checksum(seed: 2)
    for name in Name.allCases {
      checksum.add(name.rawValue)
      // A missing number is not the same as 0.
      checksum.add(values[name.rawValue] == nil ? 0 : 1)
      checksum.add(values[name.rawValue] ?? 0)
    }
    return checksum
  }

  /// A number; 0 if it is missing.
  subscript(name: Name) -> Int64 {
    get { values[name.rawValue] ?? 0 }
    set { values[name.rawValue] = newValue }
  }

  /// The sequence number of the last commit when accounts, tokens or on-disconnect writes were last changed; 0 if it is
  /// not known. It ties the commits to those tables: pages of different times do not fit together.
  ///
  /// The checksum does not cover it, because a folder of an older version has none. A number that no commit can have
  /// was altered, and counts as not known.
  var lastCommit: Int64 {
    get { values[Meta.lastCommitName].flatMap { SequenceRange.contains($0) ? $0 : nil } ?? 0 }
    set { values[Meta.lastCommitName] = newValue }
  }

  /// A number that the checksum does not cover; nil if it is missing.
  func number(_ name: String) -> Int64? { values[name] }

  /// Whether all rows have their checksums. Two things tell it, so that damage to one does not have them made anew.
  var isSealed: Bool { self[.isSealed] == 1 || original[Meta.checksumName] != nil }

  /// The greatest time in a key; nil if there is none.
  var keyTime: Int64? { values[Name.keyTime.rawValue] }

  /// Keeps a time as the greatest one in any key, if it is.
  mutating func noteKeyTime(_ time: Int64) {
    if keyTime.map({ $0 < time }) ?? true { self[.keyTime] = time }
  }

  /// The count and the sum of the rows of `leaves`.
  var leaves: LeafSums {
    get { LeafSums(count: self[.leafCount], sum: UInt64(bitPattern: self[.leafSum])) }
    set {
      self[.leafCount] = newValue.count
      self[.leafSum] = Int64(bitPattern: newValue.sum)
    }
  }

  /// The checksum with which the chain of commits begins.
  var baseChecksum: Checksum {
    get { Checksum(stored: self[.baseChecksum]) }
    set { self[.baseChecksum] = newValue.stored }
  }
}

/// The number of rows of `leaves` and the sum of their checksums: a row that is missing, or there twice, changes them.
struct LeafSums: Equatable, Sendable {
  var count: Int64 = 0
  var sum: UInt64 = 0

  /// Counts a row that is there.
  mutating func add(_ checksum: Checksum) {
    count &+= 1
    sum &+= checksum.value
  }

  /// Counts a row that is removed.
  mutating func subtract(_ checksum: Checksum) {
    count &-= 1
    sum &-= checksum.value
  }
}
