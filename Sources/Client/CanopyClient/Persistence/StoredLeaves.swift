internal import CanopyTree
internal import GRDB

/// The rows with the received data of one query.
struct StoredLeaves {
  let query: Int64
  /// The growth of the rows, in bytes.
  private(set) var bytesAdded = 0
  private let db: GRDB.Database

  init(_ query: Int64, _ db: GRDB.Database) {
    self.query = query
    self.db = db
  }

  /// Sets the value of a location.
  ///
  /// - Complexity: O(rows at and below the location + depth).
  mutating func put(_ assignment: Assignment) throws {
    let location = assignment.location
    if location.isPriority { return try putPriority(assignment.value, location.path) }
    try remove(below: location.path)
    try insert(assignment.value, location.path)
    if !assignment.value.isAbsent { try openLeaves(above: location.path) }
  }

  /// Sets a priority. A leaf's row includes it; a branch has a row for it.
  private mutating func putPriority(_ priority: Node, _ path: Path) throws {
    if let leaf = try value(path.text) {
      try setRow(path.text, leaf.withPriority(priority))
    } else {
      try setRow(Location(path, isPriority: true).text, priority)
    }
  }

  /// Converts leaves above a path to branches, which keep their priorities.
  private mutating func openLeaves(above path: Path) throws {
    for depth in 0..<path.count {
      let ancestor = path.prefix(depth)
      guard let leaf = try value(ancestor.text) else { continue }
      try setRow(ancestor.text, .absent)
      try setRow(Location(ancestor, isPriority: true).text, leaf.priority)
    }
  }

  private mutating func insert(_ node: Node, _ path: Path) throws {
    guard node.isBranch else { return try setRow(path.text, node) }
    try setRow(Location(path, isPriority: true).text, node.priority)
    var children: [(Key, Node)] = []
    node.forEachChild { key, child in
      children.append((key, child))
      return true
    }
    for (key, child) in children { try insert(child, path.child(key)) }
  }

  private func value(_ path: String) throws -> Node? {
    let text = try String.fetchOne(
      db, sql: "SELECT value FROM leaves WHERE query = ? AND path = ?", arguments: [query, path])
    return try text.map { try Node(json: $0, limits: .none) }
  }

  /// Replaces one row; an absent node has none.
  private mutating func setRow(_ path: String, _ node: Node) throws {
    let old = try Int.fetchOne(
      db,
      sql: """
        SELECT length(CAST(path AS BLOB)) + length(CAST(value AS BLOB)) FROM leaves
        WHERE query = ? AND path = ?
        """, arguments: [query, path])
    if let old {
      bytesAdded -= old
      try db.execute(
        sql: "DELETE FROM leaves WHERE query = ? AND path = ?", arguments: [query, path])
    }
    guard !node.isAbsent else { return }
    let text = node.json(.export)
    bytesAdded += path.utf8.count + text.utf8.count
    try db.execute(
      sql: "INSERT INTO leaves(query, path, value) VALUES(?, ?, ?)",
      arguments: [query, path, text])
  }

  private mutating func remove(below path: Path) throws {
    let text = path.text
    // `0` is the character after `/`.
    let (range, arguments): (String, StatementArguments) =
      path.isRoot
      ? ("query = ?", [query])
      : (
        "query = ? AND (path = ? OR path >= ? AND path < ?)", [query, text, text + "/", text + "0"]
      )
    bytesAdded -=
      try Int.fetchOne(
        db,
        sql: """
          SELECT CAST(total(length(CAST(path AS BLOB)) + length(CAST(value AS BLOB))) AS INTEGER)
          FROM leaves WHERE \(range)
          """, arguments: arguments) ?? 0
    try db.execute(sql: "DELETE FROM leaves WHERE \(range)", arguments: arguments)
  }

  /// Returns the received data of a query.
  static func load(_ query: Int64, _ db: GRDB.Database) throws -> Node {
    var builder = TreeBuilder()
    let rows = try Row.fetchCursor(
      db, sql: "SELECT path, value FROM leaves WHERE query = ? ORDER BY path", arguments: [query])
    while let row = try rows.next() {
      let value = try Node(json: row.value("value") as String, limits: .none)
      var path: String = try row.value("path")
      try path.withUTF8 { try builder.add(value, at: UnsafeRawBufferPointer($0)) }
    }
    return try builder.finish()
  }
}
