internal import CanopyTree
internal import GRDB

/// The correction of altered definitions of tables, indexes and triggers.
///
/// SQLite reads rows and keeps sums as the definitions in the file say. An altered one may give rows other columns, or
/// a trigger another effect, and one that is invalid keeps SQLite from reading any row. The definitions are part of this
/// program, so those of a damaged file are never used: they are compared with those of each version of the schema, and
/// the version with the fewest differences is that of the file. Only the numbers of the first pages of tables are those
/// of the file.
///
///     guard let repair = try DefinitionRepair(db) else { return }  // The definitions are right.
///     try repair.write(db)
struct DefinitionRepair {
  /// A definition in the file.
  private struct Found {
    /// The number of the first page of a table or an index.
    let root: Int64
    /// Whether the columns have the types that SQLite gives them.
    let hasTypes: Bool
    let definition: Definition
  }

  /// The definitions that the file must have.
  let expected: [Definition]
  /// The names of the migrations of a file with these definitions.
  let record: Set<ByteString>
  /// The number of the first page of each table that is found, by the place of the definition in `expected`.
  private var roots: [Int: Int64] = [:]

  /// Compares the definitions; nil if they are those of a version, or if it is not known of which version they must be.
  ///
  /// Precondition: the connection tolerates invalid definitions (see `Opening.tolerateDefinitions`).
  ///
  /// - Parameters:
  ///   - pages: the pages with the definitions; nil for those that SQLite reads.
  ///   - areRefused: whether SQLite refuses the definitions, so that they are never right.
  init?(_ db: Database, _ pages: DefinitionPages? = nil, areRefused: Bool = false) throws {
    let found = try Row.fetchAll(
      db,
      sql: """
        SELECT rootpage, \(Definition.hasTypes) AS hasTypes, \(Definition.columns)
        FROM sqlite_schema ORDER BY rowid
        """
    ).map {
      Found(
        root: $0.number(0) ?? 0, hasTypes: $0.number(1) == 1, definition: Definition($0))
    }
    let canBeRight = !areRefused && found.allSatisfy(\.hasTypes)
    guard let version = try Self.version(found.map(\.definition), canBeRight: canBeRight, db)
    else { return nil }
    expected = version.definitions
    record = Set(version.record)
    let count = try Int64.fetchOne(db, sql: "PRAGMA page_count") ?? 0
    roots = roots(in: found, pages: count)
    for (index, definition) in expected.enumerated() where definition.isTable {
      if let root = pages?.root(of: definition) { roots[index] = root }
    }
  }

  /// Finds the definitions in pages that SQLite cannot read; nil if there is no version of which all tables are there.
  init?(_ pages: DefinitionPages) throws {
    let versions = try Schema.versions()
    let found = Set(versions.flatMap(\.definitions)).filter { pages.contains($0) }
    let differences = versions.map { version in
      // SQLite creates the others, and keeps no text of them.
      Set(version.definitions.filter { $0.sql != nil }).symmetricDifference(found).count
    }
    guard let least = differences.min(),
      let version = zip(versions, differences).filter({ $0.1 == least }).last?.0
    else { return nil }
    expected = version.definitions
    record = Set(version.record)
    for (index, definition) in expected.enumerated() where definition.isTable {
      guard let root = pages.root(of: definition) else { return nil }
      roots[index] = root
    }
  }

  /// Returns the names of the migrations of a file; nil if they cannot be read.
  static func record(of db: Database) -> Set<ByteString>? {
    try? Schema.record(db)
  }

  /// Returns the version that a file is of; nil if the file has its definitions, or if the version is not known.
  ///
  /// - Parameter canBeRight: whether the file may have them.
  private static func version(
    _ found: [Definition], canBeRight: Bool, _ db: Database
  ) throws -> Schema.VersionDefinitions? {
    let versions = try Schema.versions()
    let differences = versions.map { Set($0.definitions).symmetricDifference(found).count }
    guard let least = differences.min(), let newest = versions.last else { return nil }
    let record = record(of: db)
    // A newer version has other definitions.
    if let record, record.isStrictSuperset(of: newest.record) { return nil }
    let nearest = versions.indices.filter { differences[$0] == least }
    let recorded = versions.lastIndex { Set($0.record) == record }
    guard var index = nearest.last else { return nil }
    // A file without some definitions looks like one of an older version.
    if let recorded, nearest.contains(recorded) || recorded > index { index = recorded }
    let version = versions[index]
    let definitions = version.definitions
    if canBeRight, least == 0, found.count == definitions.count { return nil }
    // Without a right record, a file with more definitions may be one of another program.
    let isKnown = versions.contains { Set($0.record) == record }
    guard isKnown || found.count == definitions.count, least < definitions.count else { return nil }
    return version
  }

  /// Returns the number of the first page of each table, by the place of its definition.
  private func roots(in found: [Found], pages: Int64) -> [Int: Int64] {
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
          // A trigger has no page, and no table begins with the first page of the file.
          (definition.type == "trigger" || $0.root >= 2 && $0.root <= pages)
            && isSame($0.definition, definition)
        }
        if let place { rows[index] = rest.remove(at: place) }
      }
    }
    return rows.filter { expected[$0.key].isTable }.mapValues(\.root)
  }

  /// Writes the definitions of the tables that are found into a file without definitions. Indexes and triggers are left
  /// out: `Salvage` creates new ones.
  ///
  /// Precondition: the connection tolerates invalid definitions.
  func write(_ db: Database) throws {
    for (index, definition) in expected.enumerated() {
      guard let root = roots[index] else { continue }
      try db.execute(
        sql: """
          INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, ?, ?)
          """,
        arguments: [
          definition.type.text, definition.name.text, definition.table.text, root,
          definition.sql?.text,
        ])
    }
  }
}
