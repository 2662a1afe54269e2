internal import CanopyRows
internal import CanopyTree
internal import GRDB

/// The table `leaves`, the rows of the checkpoint, with the changes that one transaction makes to it.
///
/// Each row has the checksum of its path and value. `meta` has the number of rows and the sum of their checksums, which
/// `finish` updates. So a lost row is found, as well as an altered one.
struct LeafTable: LeafRows {
  let db: Database
  private var added = LeafSums()
  private var removed = LeafSums()
  /// The row that was looked up last, and not changed since. A row is usually looked up before it is replaced.
  private var lookedUp: (location: Location, checksum: Checksum?)?

  init(_ db: Database) {
    self.db = db
  }

  /// Updates the number and the sum of the rows in `meta`. Call once, at the end of the transaction.
  ///
  /// - Parameter change: changes other numbers in `meta` as well.
  func finish(_ change: (inout Meta) throws -> Void = { _ in }) throws {
    var meta = try Meta.read(db)
    meta.leaves.count += added.count - removed.count
    meta.leaves.sum = meta.leaves.sum &+ added.sum &- removed.sum
    try change(&meta)
    try meta.write(db)
  }

  /// Inserts a row. Returns its size in bytes. Precondition: no row exists at the location.
  mutating func insert(_ location: Location, _ node: Node) throws -> Int {
    try write(location, node, "INSERT INTO leaves VALUES (?, ?, ?)")
  }

  /// Inserts or replaces the row at a location, or removes it if the node is absent. Returns the size of the new row in
  /// bytes.
  mutating func put(_ location: Location, _ node: Node) throws -> Int {
    guard let old = try lookUp(location) else {
      return node.isAbsent ? 0 : try insert(location, node)
    }
    removed.add(old)
    if node.isAbsent {
      lookedUp = nil
      try delete(location)
      return 0
    }
    return try write(
      location, node, "UPDATE leaves SET value = ?2, checksum = ?3 WHERE path = ?1")
  }

  /// Whether a row exists at a location.
  mutating func contains(_ location: Location) throws -> Bool { try lookUp(location) != nil }

  private mutating func lookUp(_ location: Location) throws -> Checksum? {
    if let lookedUp, lookedUp.location == location { return lookedUp.checksum }
    let checksum = try checksum(location)
    lookedUp = (location, checksum)
    return checksum
  }

  /// Returns the location of the first row at or after a text.
  func firstRow(from text: String) throws -> [UInt8]? {
    let statement = try ByteStatement(
      db, "SELECT path FROM leaves WHERE path >= ? ORDER BY path LIMIT 1")
    var text = text
    return try text.withUTF8 { text in
      try statement.bind(UnsafeRawBufferPointer(text), at: 1)
      defer { statement.end() }
      return try statement.next() ? Array(statement.text(0)) : nil
    }
  }

  /// Whether no row exists below a path.
  func isEmpty(_ rows: RowsBelow) throws -> Bool { try rows.isEmpty(db) }

  private func delete(_ location: Location) throws {
    try db.cachedStatement(sql: "DELETE FROM leaves WHERE path = ?")
      .execute(arguments: [location.text])
  }

  private mutating func write(_ location: Location, _ node: Node, _ sql: String) throws -> Int {
    lookedUp = nil
    let statement = try ByteStatement(db, sql)
    var output = JSONOutput(capacity: 1024)
    output.append(node, style: .export)
    var text = location.text
    return try text.withUTF8 { text in
      let path = UnsafeRawBufferPointer(text)
      return try output.withBytes { value in
        let checksum = Checksum.leaf(path, value)
        try statement.bind(path, at: 1)
        try statement.bind(value, at: 2)
        try statement.bind(checksum.stored, at: 3)
        try statement.run()
        added.add(checksum)
        return path.count + value.count
      }
    }
  }

  /// Returns the stored checksum of the row at a location; nil if there is no row.
  func checksum(_ location: Location) throws -> Checksum? {
    let statement = try ByteStatement(db, "SELECT checksum FROM leaves WHERE path = ?")
    var text = location.text
    return try text.withUTF8 { text in
      try statement.bind(UnsafeRawBufferPointer(text), at: 1)
      defer { statement.end() }
      return try statement.next() ? Checksum(stored: statement.number(0)) : nil
    }
  }

  /// Returns the value of the row at a path; absent if there is no row.
  ///
  /// - Throws: `StoreError.damaged` if it is unreadable or its checksum does not match.
  func node(_ path: Path) throws -> Node {
    let statement = try ByteStatement(db, "SELECT path, value, checksum FROM leaves WHERE path = ?")
    var text = path.text
    return try text.withUTF8 { text in
      try statement.bind(UnsafeRawBufferPointer(text), at: 1)
      defer { statement.end() }
      guard try statement.next() else { return .absent }
      try LeafTable.check(statement.text(0), statement.text(1), statement.number(2))
      do throws(TreeError) {
        return try WriteValue(json: statement.text(1), limits: .none).node
      } catch {
        throw StoreError.damagedRow("the row /\(path.text) of the checkpoint", error)
      }
    }
  }

  /// Checks a row against its stored checksum. Returns the checksum.
  ///
  /// - Throws: `StoreError.damaged`.
  @discardableResult
  static func check(
    _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stored: Int64
  ) throws(StoreError) -> Checksum {
    let checksum = Checksum.leaf(path, value)
    guard checksum.stored == stored else {
      throw .altered("the row /\(String(decoding: path, as: UTF8.self)) of the checkpoint")
    }
    return checksum
  }

  /// Removes rows in order until the budget is spent. Returns whether all rows are removed.
  mutating func clear(_ rows: RowsBelow, _ budget: inout StepBudget) throws -> Bool {
    lookedUp = nil
    let select = try db.cachedStatement(
      sql: "SELECT path, value, checksum FROM leaves WHERE \(rows.condition) ORDER BY path")
    var last: String?
    var isWhole = true
    let cursor = try Row.fetchCursor(select, arguments: rows.arguments)
    while let row = try cursor.next() {
      if budget.isSpent {
        isWhole = false
        break
      }
      // In a damaged page a column can be null, in spite of the definition.
      guard let path: String = row[0], let checksum = row.number(2) else {
        throw StoreError.altered("a row of the checkpoint")
      }
      last = path
      removed.add(Checksum(stored: checksum))
      budget.spend(
        bytes: path.utf8.count + (try row.withUnsafeData(atIndex: 1) { $0?.count ?? 0 }))
    }
    if let last {
      try db.cachedStatement(
        sql: "DELETE FROM leaves WHERE \(rows.condition) AND path <= :last"
      ).execute(arguments: rows.arguments + ["last": last])
    }
    return isWhole
  }
}

extension RowsBelow {
  /// The condition in SQL.
  var condition: String { to == nil ? "path >= :from" : "path >= :from AND path < :to" }

  /// The arguments of the condition.
  var arguments: StatementArguments { to.map { ["from": from, "to": $0] } ?? ["from": from] }

  /// Whether no such row exists.
  ///
  /// - Parameter butPriorities: whether to ignore rows of priorities.
  func isEmpty(_ db: Database, butPriorities: Bool = false) throws -> Bool {
    let kind = butPriorities ? "AND substr(path, -9) <> '.priority'" : ""
    let statement = try db.cachedStatement(
      sql: "SELECT 1 FROM leaves WHERE \(condition) \(kind) LIMIT 1")
    return try Int.fetchOne(statement, arguments: arguments) == nil
  }
}
