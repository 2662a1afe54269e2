internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// A table whose rows have a checksum over their columns: every table except `leaves`, `commits` and `meta`.
enum SealedTable: String, CaseIterable {
  case accounts
  case tokens
  case disconnectWrites = "disconnect_writes"
  case clientWrites = "client_writes"
  case rulesRecord = "rules_record"
  case accountDetails = "account_details"
  case customSessions = "custom_sessions"
  case accountCodes = "account_codes"
  case disconnectExceptions = "disconnect_exceptions"
  case disconnectGroups = "disconnect_groups"
  case deletedAccounts = "deleted_accounts"

  /// The tables of a file whose last migration is `sealed-sums`. Migrations up to it change these.
  static let first: [SealedTable] = [
    .accounts, .tokens, .disconnectWrites, .clientWrites, .rulesRecord,
  ]

  /// The columns that the checksum covers.
  var columns: [String] {
    switch self {
    case .accounts:
      [
        "uid", "email", "email_normalized", "username", "password_hash", "created_at",
        "is_disabled", "is_pending",
      ]
    case .tokens: ["hash", "uid", "expires_at"]
    case .disconnectWrites: ["id", "identity", "request", "exceptions"]
    case .clientWrites: ["client", "number", "sequence", "time", "seen"]
    case .rulesRecord: ["digest", "sequence"]
    case .accountDetails:
      [
        "uid", "display_name", "photo_url", "claims", "is_email_verified", "is_custom",
        "valid_since", "last_login_at", "last_refresh_at",
      ]
    case .customSessions: ["hash", "claims"]
    case .accountCodes: ["hash", "uid", "purpose", "email", "expires_at"]
    case .disconnectExceptions: ["write", "path"]
    case .disconnectGroups: ["write", "first"]
    case .deletedAccounts: ["uid", "end_of_logins", "deleted_at"]
    }
  }

  /// The name of a row in messages. It reveals no data.
  private var title: String {
    switch self {
    case .accounts: "an account"
    case .tokens: "a session token"
    case .disconnectWrites: "an on-disconnect write"
    case .clientWrites: "a write that a client may send again"
    case .rulesRecord: "the record of the rules in force"
    case .accountDetails: "the further data of an account"
    case .customSessions: "the claims of a session"
    case .accountCodes: "a code of an e-mail"
    case .disconnectExceptions: "an exception of an on-disconnect write"
    case .disconnectGroups: "the group of an on-disconnect write"
    case .deletedAccounts: "the end of logins of a deleted account"
    }
  }

  /// The SQL function that computes the checksum: `canopy_checksum('accounts', uid, …)`.
  static let function = DatabaseFunction("canopy_checksum", pure: true) { values in
    SealedTable.checksum(values).stored
  }

  /// The SQL expression for the checksum of a row.
  var expression: String {
    "canopy_checksum('\(rawValue)', \(columns.map { "\(rawValue).\($0)" }.joined(separator: ", ")))"
  }

  /// The checksum of a row of which no value was added.
  var emptyChecksum: Checksum { SealedTable.checksum([rawValue.databaseValue]) }

  /// The error for a row whose checksum does not match.
  var altered: StoreError { .altered(title) }

  /// The error for an index of the table whose entries are not those of the rows.
  var damagedIndex: StoreError {
    .damaged("an index of the table \(rawValue) is damaged: \(StoreError.waysOut)")
  }

  /// Returns the checksum of a table's name and a row's values.
  static func checksum(_ values: [DatabaseValue]) -> Checksum {
    var checksum = Checksum(seed: 3)
    for value in values {
      switch value.storage {
      case .null: checksum.add(0)
      case .int64(let number): checksum.add(integer: number)
      case .double(let number):
        checksum.add(2)
        checksum.add(Int64(bitPattern: number.bitPattern))
      case .string(var text): text.withUTF8 { checksum.add(text: UnsafeRawBufferPointer($0)) }
      case .blob(let data):
        checksum.add(4)
        data.withUnsafeBytes { checksum.add($0) }
      }
    }
    return checksum
  }

  /// Computes and stores the checksums of the rows that satisfy a condition. Call after each change of a row.
  func seal(_ db: Database, where condition: String, _ arguments: StatementArguments) throws {
    try db.cachedStatement(
      sql: "UPDATE \(rawValue) SET checksum = \(expression) WHERE \(condition)"
    ).execute(arguments: arguments)
  }

  /// Checks a row that has all columns of the table.
  ///
  /// - Parameter prefix: the beginning of the names of the columns in the row.
  /// - Throws: `StoreError.damaged`.
  func check(_ row: Row, prefix: String = "") throws {
    let values = [rawValue.databaseValue] + columns.map { row[prefix + $0] as DatabaseValue }
    guard SealedTable.checksum(values).stored == row.number(prefix + "checksum") else {
      throw altered
    }
  }

  /// Returns one sentence for each problem of the table's structure and indexes. O(size), without computing checksums.
  func structureProblems(_ db: Database) throws -> [String] {
    let structure = try String.fetchAll(db, sql: "PRAGMA integrity_check(\(rawValue))")
    return structure.filter { !$0.hasSameBytes(as: "ok") }.prefix(3).map {
      StoreError.damaged("the table of \(title)s is damaged (\($0)): \(StoreError.waysOut)")
        .sentence
    }
  }

  /// Returns one sentence for each problem of the table's structure, indexes and rows. O(size).
  func problems(_ db: Database) throws -> [String] {
    let problems = try structureProblems(db)
    guard problems.isEmpty else { return problems }
    let rows = try Row.fetchCursor(db, sql: "SELECT checksum, \(expression) FROM \(rawValue)")
    var (altered, sum) = (0, Int64(0))
    while let row = try rows.next() {
      let checksum = row.number(0) ?? 0
      if row.number(1) != checksum { altered += 1 }
      sum = SealedTable.add(checksum, to: sum)
    }
    guard altered == 0 else { return [StoreError.altered("\(altered) × \(title)").sentence] }
    guard try !hasSum(sum, db) else { return [] }
    return [StoreError.missingRows(of: "the table of \(title)s").sentence]
  }
}

/// The sum of a table's checksums, in `meta`. It proves that no row is missing.
///
/// Triggers update it, so that no statement can forget to. It has 62 bits, because sums in SQLite do not wrap around.
extension SealedTable {
  private static let sumMask: Int64 = (1 << 62) - 1

  /// The name of the sum; nil for `client_writes`. Commits of clients change that table, and a sum would cost them another
  /// page.
  var sumName: String? { self == .clientWrites ? nil : "sum_" + rawValue }

  /// Creates the triggers that update the sum, and computes the sum.
  func beginSum(_ db: Database) throws {
    guard let name = sumName else { return }
    let (mask, old, new) = (SealedTable.sumMask, "old.checksum", "new.checksum")
    for (event, added) in [
      ("INSERT", "+ (\(new) & \(mask))"), ("DELETE", "- (\(old) & \(mask))"),
      ("UPDATE OF checksum", "- (\(old) & \(mask)) + (\(new) & \(mask))"),
    ] {
      try db.execute(
        sql: """
          CREATE TRIGGER \(name)_\(event.prefix(6).lowercased()) AFTER \(event) ON \(rawValue) BEGIN
            UPDATE meta SET value = (value \(added)) & \(mask) WHERE name = '\(name)';
          END
          """)
    }
    try writeSum(db)
  }

  /// Computes the sum from all rows, and stores it. O(rows).
  func writeSum(_ db: Database) throws {
    guard let name = sumName else { return }
    try db.execute(
      sql: "INSERT OR REPLACE INTO meta VALUES (?, ?)", arguments: [name, try sum(db)])
  }

  /// Whether the stored sum is that of the rows; true for a table without a sum. O(rows).
  func hasSumOfRows(_ db: Database) throws -> Bool { try hasSum(sum(db), db) }

  private func hasSum(_ sum: Int64, _ db: Database) throws -> Bool {
    try sumName.map { try Meta.readUnchecked(db).number($0) == sum } ?? true
  }

  private func sum(_ db: Database) throws -> Int64 {
    var sum: Int64 = 0
    let checksums = try Optional<Int64>.fetchCursor(db, sql: "SELECT checksum FROM \(rawValue)")
    while let checksum = try checksums.next() { sum = SealedTable.add(checksum ?? 0, to: sum) }
    return sum
  }

  private static func add(_ checksum: Int64, to sum: Int64) -> Int64 {
    (sum &+ (checksum & sumMask)) & sumMask
  }
}

extension Checksum {
  /// Adds an integer of a row.
  mutating func add(integer: Int64) {
    add(1)
    add(integer)
  }

  /// Adds a text of a row.
  mutating func add(text utf8: UnsafeRawBufferPointer) {
    add(3)
    add(utf8)
  }
}
