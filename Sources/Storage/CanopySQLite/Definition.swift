internal import CanopyTree
internal import GRDB

/// The definition of a table, an index or a trigger: a row of `sqlite_schema` without the number of its first page.
struct Definition: Hashable {
  let type: ByteString
  let name: ByteString
  /// The table of an index or a trigger; the name of a table itself.
  let table: ByteString
  /// The statement that creates it; nil for an index that SQLite creates with its table.
  let sql: ByteString?

  /// The columns of a row. Those of a damaged one may have other values, so they are read as texts.
  static let columns = """
    coalesce(CAST(type AS TEXT), '') AS type, coalesce(CAST(name AS TEXT), '') AS name,
    coalesce(CAST(tbl_name AS TEXT), '') AS tbl_name, CAST(sql AS TEXT) AS sql
    """

  /// The condition that the columns of a row have the types that SQLite gives them.
  static let hasTypes = """
    typeof(type) = 'text' AND typeof(name) = 'text' AND typeof(tbl_name) = 'text'
    AND typeof(rootpage) = 'integer' AND typeof(sql) IN ('text', 'null')
    """

  /// Takes the definition of a row that has these columns.
  init(_ row: Row) {
    type = ByteString(row["type"])
    name = ByteString(row["name"])
    table = ByteString(row["tbl_name"])
    sql = (row["sql"] as String?).map { ByteString($0) }
  }

  /// Returns the definitions of a database in the order in which they were created.
  static func all(_ db: Database) throws -> [Definition] {
    try Row.fetchAll(db, sql: "SELECT \(columns) FROM sqlite_schema ORDER BY rowid").map {
      Definition($0)
    }
  }

  /// Whether it is that of a table.
  var isTable: Bool { type == "table" }

  /// Whether SQLite itself creates the table or the index, with another table.
  var isOfSQLite: Bool { name.text.utf8.starts(with: "sqlite_".utf8) }
}

extension Schema {
  /// The definitions of a version, and its record of migrations.
  struct VersionDefinitions {
    let record: [ByteString]
    let definitions: [Definition]
  }

  /// Creates a database in memory.
  static func inMemory() throws -> DatabaseQueue {
    var configuration = GRDB.Configuration()
    configuration.prepareDatabase { $0.add(function: SealedTable.function) }
    return try DatabaseQueue(configuration: configuration)
  }

  /// Returns the definitions of all versions, the oldest first.
  static func versions() throws -> [VersionDefinitions] {
    let new = try inMemory()
    let migrator = migrator
    var record: [ByteString] = []
    return try migrator.migrations.map { name in
      try migrator.migrate(new, upTo: name)
      record.append(ByteString(name))
      return VersionDefinitions(
        record: record, definitions: try new.read { try Definition.all($0) })
    }
  }

  /// Whether a file has no other definitions than those that the migrations of a record make, and all of these.
  ///
  /// A foreign trigger would run with a write of this program, a view in place of a table with a read, and its query may
  /// never end. So nothing but the record is read or written before.
  static func hasDefinitions(of record: Set<ByteString>, _ db: Database) throws -> Bool {
    let found = try Definition.all(db)
    guard let expected = definitions(of: record.isEmpty ? ["1"] : record) else { return false }
    guard found.allSatisfy(expected.contains), Set(found).count == found.count else { return false }
    if record.isEmpty { return found.allSatisfy { $0.table == "grdb_migrations" } }
    // The first program, which only its authors used, did not have that index.
    return expected.subtracting(found).allSatisfy { $0.name == "accounts_pending" }
  }

  /// Whether the definitions of a file are those of its record, or of some version if the record cannot be read.
  static func hasKnownDefinitions(_ db: Database) throws -> Bool {
    let found = Set(try Definition.all(db))
    if let record = try? record(db), try hasDefinitions(of: record, db) { return true }
    return try versions().contains { Set($0.definitions) == found }
  }

  /// Returns the definitions that some migrations make; nil if they cannot run without others.
  private static func definitions(of record: Set<ByteString>) -> Set<Definition>? {
    record == allMigrations ? current : computed(record)
  }

  private static let allMigrations = Set(migrator.migrations.map { ByteString($0) })
  private static let current = computed(allMigrations)

  private static func computed(_ record: Set<ByteString>) -> Set<Definition>? {
    guard let new = try? inMemory() else { return nil }
    let migrator = migrator { record.contains(ByteString($0)) }
    guard (try? migrator.migrate(new)) != nil else { return nil }
    return try? Set(new.read { try Definition.all($0) })
  }
}
