internal import CanopyRows
internal import GRDB

/// The numbers of the table `meta`. They are read and written together, and have a common checksum.
///
/// The sums of other tables (see `SealedTable.sumName`) are in `meta` as well. The checksum does not cover them.
struct Meta: Equatable {
  /// The name of each number.
  enum Name: String, CaseIterable {
    /// The sequence number up to which all commits are in `leaves`.
    case checkpoint
    /// The greatest time of those commits and in a key that was generated while the clock was set back, in milliseconds
    /// since 1970.
    case keyTime = "key_time"
    /// The sequence number of the last commit that was removed. The journal begins after it.
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
    /// 1 if all rows have checksums. A file of an older schema gets them step by step.
    case isSealed = "sealed"
  }

  private static let checksumName = "checksum"
  private static let lastCommitName = "last_commit"
  private static let deletedLoginName = "deleted_login"
  private static let newNumbersName = "new_numbers"
  private static let baseTimeName = "base_time"
  private static let baseTimeSumName = "base_time_sum"
  /// The name of the number whose write takes the place of an append that failed: see `SQLiteStore.resolveAppend`.
  static let settledName = "settled"

  private var values: [String: Int64]
  private let original: [String: Int64]

  /// Reads the numbers. O(1).
  ///
  /// - Throws: `StoreError.damaged` if a number is missing or the checksum does not match.
  static func read(_ db: Database) throws -> Meta {
    let meta = try readUnchecked(db)
    guard Name.allCases.allSatisfy({ $0 == .keyTime || meta.values[$0.rawValue] != nil }),
      meta.original[checksumName] == meta.checksum.stored,
      [.checkpoint, .base, .revision].allSatisfy({ SequenceRange.contains(meta[$0]) })
    else {
      throw StoreError.damagedMeta
    }
    return meta
  }

  /// Reads the numbers without checking them.
  static func readUnchecked(_ db: Database) throws -> Meta {
    let rows = try Row.fetchCursor(db.cachedStatement(sql: "SELECT name, value FROM meta"))
    var values: [String: Int64] = [:]
    while let row = try rows.next() {
      // In a damaged page a column can be null, in spite of the definition.
      guard let name: String = row[0], let value: Int64 = row[1] else { continue }
      values[name] = value
    }
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

  /// The sequence number of the last commit at the last change of accounts, tokens or on-disconnect writes; 0 if it is
  /// unknown. It ties the commits to those tables, so that pages of different times are found.
  ///
  /// The checksum does not cover it, because a folder of an older version does not have it. A number that no commit can
  /// have is damage, and counts as unknown.
  var lastCommit: Int64 {
    get { values[Meta.lastCommitName].flatMap { SequenceRange.contains($0) ? $0 : nil } ?? 0 }
    set { values[Meta.lastCommitName] = newValue }
  }

  /// The latest login of a deleted account, in seconds since 1970; nil if none was deleted. A new account with the uid
  /// of a deleted one must not accept its tokens.
  ///
  /// The checksum does not cover it, as that of ``lastCommit``. An invalid time counts as missing. One in the future is
  /// damage: see ``hasFutureLogin(at:)``.
  var deletedLogin: Int64? {
    values[Meta.deletedLoginName].flatMap { (0..<Int64.max).contains($0) ? $0 : nil }
  }

  /// Whether the latest login of a deleted account is more than a day after a time, so that the clock was wrong then or
  /// the number was altered.
  ///
  /// - Parameter second: the present time, or that of a login, in seconds since 1970.
  func hasFutureLogin(at second: Int64) -> Bool {
    (deletedLogin ?? 0) - max(0, second) > 86_400
  }

  /// Lowers the latest login of a deleted account to `second`.
  mutating func correctDeletedLogin(to second: Int64) {
    values[Meta.deletedLoginName] = max(0, second)
  }

  /// Whether the next server must continue with new sequence numbers, because a repair was interrupted before it had: see
  /// `NewNumbers`. The checksum does not cover it, as that of ``lastCommit``.
  var needsNewNumbers: Bool {
    get { (values[Meta.newNumbersName] ?? 0) != 0 }
    set { values[Meta.newNumbersName] = newValue ? 1 : 0 }
  }

  /// The time from which on the tree at ``Name/base`` was that of the folder, in milliseconds since 1970; nil if it is
  /// unknown.
  ///
  /// An import, a restore, a move and new numbers write it. Retention moves the base without it, and earlier versions do not
  /// know it. So it has a checksum of its own with the base, and counts only for that one.
  var baseTime: Int64? {
    guard let time = values[Meta.baseTimeName],
      values[Meta.baseTimeSumName] == baseTimeSum(time).stored
    else { return nil }
    return time
  }

  /// Notes the time of the base, after the other numbers of the base.
  mutating func noteBaseTime(_ time: Int64) {
    values[Meta.baseTimeName] = time
    values[Meta.baseTimeSumName] = baseTimeSum(time).stored
  }

  private func baseTimeSum(_ time: Int64) -> Checksum {
    var sum = Checksum(seed: 6)
    for number in [self[.base], self[.baseChecksum], time] { sum.add(number) }
    return sum
  }

  /// Raises the latest login of a deleted account to `second`, if that is later.
  mutating func noteDeletedLogin(_ second: Int64) {
    if deletedLogin ?? 0 < second { values[Meta.deletedLoginName] = second }
  }

  /// Returns a number that the checksum does not cover; nil if it is missing.
  func number(_ name: String) -> Int64? { values[name] }

  /// Whether all rows have checksums. Two numbers prove it. So damage to one of them does not lead to new checksums, which
  /// would make damaged rows valid.
  var isSealed: Bool { self[.isSealed] == 1 || original[Meta.checksumName] != nil }

  /// Whether these are the numbers of a file whose rows have no checksums yet. Its programs and the migrations write a
  /// number of the checkpoint, and only some of the others.
  var isUnsealed: Bool {
    guard values[Name.checkpoint.rawValue] != nil else { return false }
    let sums = SealedTable.allCases.compactMap(\.sumName)
    let possible = Set([Name.checkpoint.rawValue, Name.keyTime.rawValue, Meta.settledName] + sums)
    return values.keys.allSatisfy(possible.contains)
  }

  /// Whether a file with these numbers can become one with the numbers `later` in an update to this version.
  func isSame(asBeforeUpdate later: Meta) -> Bool {
    let changed = Set([Name.schema.rawValue, Meta.checksumName])
    let added = Set([Name.keyTime.rawValue] + SealedTable.allCases.compactMap(\.sumName))
    return values.allSatisfy { changed.contains($0.key) || later.values[$0.key] == $0.value }
      && later.values.keys.allSatisfy { values[$0] != nil || added.contains($0) }
  }

  /// Notes that all rows have checksums, although numbers are lost. New checksums would make damaged rows valid.
  static func setSealed(_ db: Database) throws {
    try db.execute(
      sql: "INSERT OR REPLACE INTO meta VALUES (?, 1)", arguments: [Name.isSealed.rawValue])
  }

  /// The greatest time in a key; nil if no key has one.
  var keyTime: Int64? { values[Name.keyTime.rawValue] }

  /// Raises the greatest time in a key to `time`, if that is later.
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
