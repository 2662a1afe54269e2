internal import CanopyRows
internal import CanopyTree
internal import GRDB
internal import GRDBSQLite

/// A copy of all rows that can be read from a database with damaged pages into a new one.
///
/// A scan of a table ends at the first damaged page. So each table is read forward up to that page, and backward from the
/// end of the table. A damaged page can have any keys, so the last keys say nothing about the other rows. So all of the
/// table is then read page by page, in both directions (see `SalvagePages`), and pages that are damaged in part row by
/// row. A row is found if a search for its key does not meet a damaged page; for a row in an inner page, this needs one of
/// the two leaf pages beside it. Altered rows are copied too, and removed later. But a row whose checksum is right
/// takes the place of an altered one with the same key or the same unique value, and never the other way round.
///
/// Complexity: O(size), and a table with damaged pages has at most two scans for each of its leaf pages and one for each row
/// of a page that is damaged in part.
struct Salvage {
  /// The path of the damaged file, for errors.
  let path: String
  let source: Database
  let target: Database
  /// The keys in the inner pages of the damaged file.
  private let pages: SalvagePages?
  /// The number of scans so far.
  private(set) var scans = 0
  /// The number of rows that a table can have at most; a damaged page could lead to the same rows again and again.
  private var rowsMax = 0

  init(path: String, from source: Database, to target: Database) {
    self.path = path
    self.source = source
    self.target = target
    pages = SalvagePages(path: path)
  }

  /// Copies the definitions and all rows that can be read. Returns a sentence for each table that has lost rows.
  ///
  /// Indexes and triggers are created at the end, from the rows that are there.
  ///
  /// - Parameter definitions: those of the target; nil for those of the source.
  /// - Throws: `StoreError.damaged` if the definitions cannot be read; an error of the target.
  mutating func run(with definitions: [Definition]? = nil) throws -> [String] {
    let created: [Definition]
    var roots: [ByteString: Int] = [:]
    do {
      rowsMax = (try Int.fetchOne(source, sql: "PRAGMA page_count") ?? 0) * 2_048
      created = try (definitions ?? Definition.all(source)).filter { $0.sql != nil }
      let rows = try Row.fetchAll(
        source, sql: "SELECT rootpage, \(Definition.columns) FROM sqlite_schema")
      for row in rows where Definition(row).isTable {
        roots[Definition(row).name] = Int(clamping: row.number(0) ?? 0)
      }
      for name in ["application_id", "user_version"] {
        let number = try Int32.fetchOne(source, sql: "PRAGMA \(name)") ?? 0
        try target.execute(sql: "PRAGMA \(name) = \(number)")
      }
    } catch let error as DatabaseError where Salvage.isUnreadable(error) {
      throw StoreError.damagedDefinitions(of: path, error)
    }
    // SQLite creates its own tables with the first ones that need them.
    for definition in created where definition.isTable && !definition.isOfSQLite {
      try create(definition)
    }
    var (lost, missing): ([String], [String]) = ([], [])
    for definition in created where definition.isTable {
      let name = definition.name.text
      guard let root = roots[definition.name] else {
        missing.append(name)
        continue
      }
      if try !copy(Table(name, root: root, target)) { lost.append(name) }
    }
    for definition in created where !definition.isTable { try create(definition) }
    try keepSealed(lost + missing)
    return lost.map { "the unreadable rows of the table \($0), whose pages are damaged" }
      + missing.map { "the rows of the table \($0), whose definition is missing" }
  }

  private func create(_ definition: Definition) throws {
    if let sql = definition.sql { try target.execute(sql: sql.text) }
  }

  /// Notes that all rows have checksums, if rows with the numbers that say so are lost. See also `Sealing.state`.
  private func keepSealed(_ lost: [String]) throws {
    guard lost.contains(where: { $0.hasSameBytes(as: "meta") }),
      try target.columns(in: "leaves").contains(where: { $0.name.hasSameBytes(as: "checksum") }),
      try !Meta.readUnchecked(target).isSealed
    else { return }
    try Meta.setSealed(target)
  }

  private static func isUnreadable(_ error: DatabaseError) -> Bool {
    switch error.resultCode {
    case .SQLITE_CORRUPT, .SQLITE_IOERR, .SQLITE_TOOBIG: true
    default: false
    }
  }

  /// A table with its columns and its primary key.
  private struct Table {
    let name: String
    /// The number of its first page.
    let root: Int
    let columns: [String]
    /// Whether the rows have numbers, and no key of their own.
    let hasNumbers: Bool
    /// The columns of the primary key, or the number of the row.
    let keys: [String]
    /// The least value of each of them.
    let least: SalvageKey
    /// The condition in SQL that the checksum of a row is right; nil if the row alone cannot tell.
    let intact: String?
    /// The places of the columns of the table `leaves`, whose checksum is no function in SQL; nil for other tables.
    let leafColumns: (path: Int32, value: Int32, checksum: Int32)?

    init(_ name: String, root: Int, _ db: Database) throws {
      self.name = name
      self.root = root
      let rows = try Row.fetchAll(
        db, sql: "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY pk", arguments: [name])
      let columns: [String] = rows.map { $0["name"] }
      self.columns = columns
      hasNumbers =
        try Int.fetchOne(
          db, sql: "SELECT 1 FROM pragma_table_list(?) WHERE wr", arguments: [name]) == nil
      let keyRows = hasNumbers ? [] : rows.filter { $0["pk"] as Int > 0 }
      keys = hasNumbers ? ["rowid"] : keyRows.map { $0["name"] }
      least =
        hasNumbers
        ? [.number(.min)]
        : keyRows.map { row in
          switch row["type"] as String {
          case "INTEGER": .number(.min)
          case "BLOB": .blob([])
          default: .text([])
          }
        }
      let hasChecksum = columns.contains { $0.hasSameBytes(as: "checksum") }
      // A file of an older version may lack columns.
      intact = SealedTable(rawValue: name).flatMap { sealed in
        hasChecksum && sealed.columns.allSatisfy(columns.contains)
          ? "\(name).checksum IS \(sealed.expression)" : nil
      }
      let places = ["path", "value", "checksum"].compactMap { columns.firstIndex(of: $0) }
        .map { Int32(clamping: $0) }
      leafColumns =
        name.hasSameBytes(as: "leaves") && places.count == 3
        ? (places[0], places[1], places[2]) : nil
    }

    func select(_ range: SalvageRange, backward: Bool) -> String {
      let key = keys.joined(separator: ", ")
      let places = keys.map { _ in "?" }.joined(separator: ", ")
      var conditions: [String] = []
      if range.low != nil { conditions.append("(\(key)) >= (\(places))") }
      if range.high != nil { conditions.append("(\(key)) < (\(places))") }
      let condition = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
      let order = keys.map { $0 + (backward ? " DESC" : "") }.joined(separator: ", ")
      return """
        SELECT \(key), \(columns.joined(separator: ", ")), \(intact ?? "NULL") FROM \(name) \(condition)
        ORDER BY \(order)
        """
    }

    func insert(orElse action: String) -> String {
      let places = columns.map { _ in "?" }.joined(separator: ", ")
      return """
        INSERT OR \(action) INTO \(name)(\(columns.joined(separator: ", "))) VALUES (\(places))
        """
    }
  }

  /// Copies the rows of a table. Returns whether all were read.
  private mutating func copy(_ table: Table) throws -> Bool {
    if table.name.hasSameBytes(as: "sqlite_sequence") {
      try target.execute(sql: "DELETE FROM sqlite_sequence")
    }
    var rows = 0
    let all = SalvageRange()
    if try scan(table, all, backward: false, &rows, isLeaf: false).isWhole { return true }
    _ = try scan(table, all, backward: true, &rows, isLeaf: false)
    let leaves =
      pages?.leaves(root: table.root, hasNumbers: table.hasNumbers, least: table.least) ?? []
    for (index, leaf) in leaves.enumerated() {
      let next = leaves.dropFirst(index + 1).first?.low
      let range = SalvageRange(low: leaf.low, high: next)
      guard !range.isEmpty else { continue }
      let before = rows
      let forward = try scan(table, range, backward: false, &rows, isLeaf: true)
      if forward.isWhole { continue }
      let isReached = rows > before
      // In full: the search for the first key may have begun in the page before. If that one is damaged, its keys say
      // nothing about the rows after them.
      let backward = try scan(table, range, backward: true, &rows, isLeaf: true)
      if backward.isWhole { continue }
      // The row before the page is in an inner page. If a search does not reach it, that row or one on the way has a
      // damaged page. A search for a key in the page takes the same way, so it reaches no row either.
      guard isReached || table.hasNumbers || leaf.low == nil else { continue }
      let first = range.high == nil && !table.hasNumbers ? nil : forward.last
      let rest = range.common(with: SalvageRange(low: first, high: backward.last))
      // A row of which another page is damaged separates the others of this one.
      let keys = pages?.keys(of: leaf, hasNumbers: table.hasNumbers, least: table.least) ?? []
      for (index, key) in keys.enumerated() {
        let next = keys.dropFirst(index + 1).first
        let row = SalvageRange(low: key, high: next).common(with: rest)
        guard !row.isEmpty, key != first else { continue }
        _ = try scan(table, row, backward: false, &rows, isLeaf: true)
      }
    }
    return false
  }

  /// Copies the rows of a range in one direction up to the first that cannot be read.
  ///
  /// - Parameter isLeaf: whether the range is that of a leaf page. Then rows with other keys are left out, and the others
  ///   take the place of rows that damaged pages had with the same keys.
  /// - Returns: the key of the last row if all rows until then were in order and in the range, and whether these were all.
  private mutating func scan(
    _ table: Table, _ range: SalvageRange, backward: Bool, _ rows: inout Int, isLeaf: Bool
  ) throws -> (last: SalvageKey?, isWhole: Bool) {
    scans += 1
    var last: SalvageKey?
    var isWhole = true
    do {
      let select = try ByteStatement(source, table.select(range, backward: backward))
      defer { select.end() }
      let count = Int32(clamping: table.keys.count)
      for (index, part) in ((range.low ?? []) + (range.high ?? [])).enumerated() {
        try select.bind(part, at: Int32(clamping: index + 1))
      }
      while try select.next() {
        guard rows < rowsMax else { return (nil, false) }
        rows += 1
        let key = select.key(count)
        if let key, let last {
          let isAfter =
            backward ? SalvageRange.precedes(key, last) : SalvageRange.precedes(last, key)
          isWhole = isWhole && isAfter
        }
        last = key ?? last
        guard isLeaf else {
          // A row that violates the definition of the table is lost.
          if try !insert(select, table, from: count, isLeaf: false) { isWhole = false }
          continue
        }
        if let key, range.contains(key) {
          try insert(select, table, from: count, isLeaf: true)
        } else {
          isWhole = false
        }
      }
      return (isWhole ? last : nil, isWhole)
    } catch let error as DatabaseError where Salvage.isUnreadable(error) {
      return (isWhole ? last : nil, false)
    } catch let error as TargetError {
      throw error.error
    }
  }

  /// An error of the new file, which ends the copy.
  private struct TargetError: Error {
    let error: DatabaseError
  }

  /// Whether the checksum of a row is right; nil if the row alone cannot tell.
  private func isIntact(_ row: ByteStatement, _ table: Table, from first: Int32) -> Bool? {
    if table.intact != nil { return row.number(first + Int32(clamping: table.columns.count)) != 0 }
    guard let (path, value, checksum) = table.leafColumns else { return nil }
    return Checksum.leaf(row.text(first + path), row.text(first + value)).stored
      == row.number(first + checksum)
  }

  /// Inserts a row, unless it violates the definition of the table. Returns whether it was inserted.
  ///
  /// If there is a row with the same key or the same unique value, an intact row takes its place, and an altered one
  /// does not. A row that alone cannot tell takes it if it is where a search finds it.
  ///
  /// - Parameter isLeaf: whether the row is in the range of its leaf page.
  @discardableResult
  private func insert(
    _ row: ByteStatement, _ table: Table, from first: Int32, isLeaf: Bool
  ) throws -> Bool {
    let count = Int32(clamping: table.columns.count)
    let replaces = isIntact(row, table, from: first) ?? isLeaf
    do {
      let insert = try ByteStatement(
        target, table.insert(orElse: replaces ? "REPLACE" : "IGNORE"))
      for index in 0..<count { try insert.bind(first + index, of: row, at: index + 1) }
      try insert.run()
      return target.changesCount > 0
    } catch let error as DatabaseError where error.resultCode != .SQLITE_CONSTRAINT {
      throw TargetError(error: error)
    } catch is DatabaseError { return false }
  }
}
