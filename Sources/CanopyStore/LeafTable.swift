internal import CanopyTree
internal import GRDB

/// The table `leaves`: the rows of the checkpoint.
enum LeafTable {
  /// Inserts or replaces the row at a location; removes it if the node is absent. Returns the bytes of the row.
  static func put(_ db: Database, _ location: Location, _ node: Node) throws -> Int {
    if node.isAbsent {
      try remove(db, location)
      return 0
    }
    let statement = try ByteStatement(
      db, "INSERT INTO leaves VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value")
    var output = JSONOutput(capacity: 1024)
    output.append(node, style: .export)
    var text = location.text
    return try text.withUTF8 { text in
      try output.withBytes { value in
        try statement.bind(UnsafeRawBufferPointer(text), at: 1)
        try statement.bind(value, at: 2)
        try statement.run()
        return text.count + value.count
      }
    }
  }

  /// Removes the row at a location, if there is one.
  static func remove(_ db: Database, _ location: Location) throws {
    try db.cachedStatement(sql: "DELETE FROM leaves WHERE path = ?")
      .execute(arguments: [location.text])
  }

  /// Returns the value of the row at a path; absent if there is no row.
  ///
  /// - Throws: `StoreError.damaged` if it cannot be read.
  static func node(_ db: Database, _ path: Path) throws -> Node {
    let statement = try db.cachedStatement(sql: "SELECT value FROM leaves WHERE path = ?")
    guard let json = try String.fetchOne(statement, arguments: [path.text]) else { return .absent }
    do throws(TreeError) {
      return try WriteValue(json: json, limits: .none).node
    } catch {
      throw StoreError.damagedRow("the row /\(path.text) of the checkpoint", error)
    }
  }

  /// Whether there is a row at a path.
  static func hasRow(_ db: Database, at path: Path) throws -> Bool {
    let statement = try ByteStatement(db, "SELECT 1 FROM leaves WHERE path = ?")
    var text = path.text
    return try text.withUTF8 { text in
      try statement.bind(UnsafeRawBufferPointer(text), at: 1)
      defer { statement.end() }
      return try statement.next()
    }
  }

  /// Removes rows in order until none is left or the budget is spent. Returns whether none is left.
  static func clear(_ db: Database, _ rows: RowsBelow, _ budget: inout StepBudget) throws -> Bool {
    let select = try db.cachedStatement(
      sql: "SELECT path, value FROM leaves WHERE \(rows.condition) ORDER BY path")
    var last: String?
    var isWhole = true
    let cursor = try Row.fetchCursor(select, arguments: rows.arguments)
    while let row = try cursor.next() {
      if budget.isSpent {
        isWhole = false
        break
      }
      last = row[0]
      budget.spend(bytes: try row.withUnsafeData(atIndex: 1) { $0?.count ?? 0 })
    }
    if let last {
      try db.cachedStatement(
        sql: "DELETE FROM leaves WHERE \(rows.condition) AND path <= :last"
      ).execute(arguments: rows.arguments + ["last": last])
    }
    return isWhole
  }
}
