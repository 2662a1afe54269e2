internal import CanopyTree
internal import GRDB

/// The correction of altered definitions of tables, indexes and triggers.
///
/// SQLite reads rows and keeps sums as the definitions in the file say. An altered one may give rows other columns, or
/// a trigger another effect, and one that is invalid keeps SQLite from reading any row. The definitions are part of this
/// program, so those of a damaged file are never used: they are compared with those of each version of the schema, and
/// the version with the fewest differences is that of the file.
///
///     guard let repair = try DefinitionRepair(db) else { return }  // The definitions are right.
///     let missing = try repair.write(db)
///
/// Precondition: the connection tolerates invalid definitions (see `Opening.tolerateDefinitions`).
struct DefinitionRepair {
  /// A definition in the file.
  private struct Found {
    let row: Int64
    /// The number of the first page of a table or an index.
    let root: Int64
    let definition: Definition
  }

  /// The definitions that the file must have.
  let expected: [Definition]
  private let found: [Found]
  /// The number of pages of the file.
  private let pages: Int64

  /// Compares the definitions; nil if they are those of a version, or if it is not known of which version they must be.
  init?(_ db: Database) throws {
    let found = try Row.fetchAll(
      db,
      sql: "SELECT rowid, rootpage, \(Definition.columns) FROM sqlite_schema ORDER BY rowid"
    ).map {
      Found(row: $0.number(0) ?? 0, root: $0.number(1) ?? 0, definition: Definition($0))
    }
    guard let expected = try Self.expected(found.map(\.definition), db) else { return nil }
    self.found = found
    self.expected = expected
    pages = try Int64.fetchOne(db, sql: "PRAGMA page_count") ?? 0
  }

  /// Returns the definitions of the version that a file is of; nil if the file has them, or if the version is not known.
  private static func expected(_ found: [Definition], _ db: Database) throws -> [Definition]? {
    let versions = try Schema.versions()
    let differences = versions.map { Set($0.definitions).symmetricDifference(found).count }
    guard let least = differences.min(), let newest = versions.last else { return nil }
    let names = try? DatabaseValue.fetchAll(db, sql: "SELECT identifier FROM grdb_migrations")
    let record = names.map { Set($0.map { ByteString(String.fromDatabaseValue($0) ?? "") }) }
    // A newer version has other definitions.
    if let record, record.isStrictSuperset(of: newest.record) { return nil }
    let nearest = zip(versions, differences).filter { $0.1 == least }.map(\.0)
    let recorded = nearest.first { Set($0.record) == record }
    guard let version = recorded ?? nearest.last else { return nil }
    let definitions = version.definitions
    if least == 0, found.count == definitions.count { return nil }
    // Without a right record, a file with more definitions may be one of another program.
    let isKnown = versions.contains { Set($0.record) == record }
    guard isKnown || found.count == definitions.count, least < definitions.count else { return nil }
    return definitions
  }

  /// Writes the definitions into the file. Removes others. Returns those that no row of the file can be.
  func write(_ db: Database) throws -> [Definition] {
    var rest = found
    var rows: [Int: Found] = [:]
    // The name and the statement each identify a definition. If both were altered, only the order does.
    let likenesses: [(Definition, Definition) -> Bool] = [
      { $0.type == $1.type && $0.name == $1.name },
      { $0.sql != nil && $0.sql == $1.sql },
      { found, definition in
        found.type == definition.type || !expected.contains { $0.type == found.type }
      },
    ]
    for isSame in likenesses {
      for (index, definition) in expected.enumerated() where rows[index] == nil {
        let place = rest.firstIndex {
          isUsable($0, as: definition) && isSame($0.definition, definition)
        }
        if let place { rows[index] = rest.remove(at: place) }
      }
    }
    for found in rest {
      try db.execute(sql: "DELETE FROM sqlite_schema WHERE rowid = ?", arguments: [found.row])
    }
    for (index, definition) in expected.enumerated() {
      guard let found = rows[index] else { continue }
      try db.execute(
        sql: """
          UPDATE sqlite_schema SET type = ?, name = ?, tbl_name = ?, rootpage = ?, sql = ?
          WHERE rowid = ?
          """,
        arguments: [
          definition.type.text, definition.name.text, definition.table.text,
          Self.isTrigger(definition) ? 0 : found.root, definition.sql?.text, found.row,
        ])
    }
    return expected.indices.filter { rows[$0] == nil }.map { expected[$0] }
  }

  private static func isTrigger(_ definition: Definition) -> Bool { definition.type == "trigger" }

  /// Whether a row can be that of a definition. A trigger has no page, and no table begins with the first page of the file.
  private func isUsable(_ found: Found, as definition: Definition) -> Bool {
    Self.isTrigger(definition) || found.root >= 2 && found.root <= pages
  }
}
