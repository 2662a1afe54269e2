internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Synchronization

/// The persistent state in one SQLite file.
///
/// Each call of `record` is one transaction: after a crash of the process or of the machine, all of
/// it is there or nothing. It costs the changed rows, not the stored ones. One process at a time
/// uses a file; a second one is refused.
package final class SQLitePersistence: PersistenceStore {
  /// The default size limit for leaves, in bytes.
  package static let bytesMax = 10 * 1024 * 1024

  private let queue: DatabaseQueue
  private let bytesMax: Int
  /// The rows of the queries in use. Empty when the process starts.
  private let inUse = Mutex<Set<Int64>>([])

  /// Opens a file, creating it if necessary.
  ///
  /// - Parameters:
  ///   - path: the path of the file; its folder is created if it is missing.
  ///   - bytesMax: the bytes of data to keep beyond the data in use or to be kept.
  /// - Throws: `PersistenceError`.
  package init(path: String, bytesMax: Int = SQLitePersistence.bytesMax) throws {
    self.bytesMax = bytesMax
    do {
      try FileManager.default.createDirectory(
        atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
      var settings = GRDB.Configuration()
      settings.label = "canopy.client"
      settings.prepareDatabase { db in
        // Lock the file from the first read on: writes of another process would be lost in this
        // one.
        try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
      }
      queue = try DatabaseQueue(path: path, configuration: settings)
      try queue.writeWithoutTransaction { db in
        let id = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        let tables = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") ?? 0
        guard id == PersistenceSchema.applicationID || tables == 0 else {
          throw PersistenceError("\(path) is a database of another program; name another file")
        }
        if try PersistenceSchema.migrator.hasBeenSuperseded(db) {
          throw PersistenceError(
            "\(path) was written by a newer version of this library; use that, or name another file"
          )
        }
        _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL")
        try db.execute(sql: "PRAGMA synchronous = FULL")
      }
      try PersistenceSchema.migrator.migrate(queue)
      for suffix in ["", "-wal"] { chmod(path + suffix, 0o600) }
    } catch let error as PersistenceError {
      throw error
    } catch let error as GRDB.DatabaseError where error.resultCode == .SQLITE_BUSY {
      throw PersistenceError(
        "\(path) is in use by another process; name another folder, or wait until that has ended")
    } catch {
      throw PersistenceError("\(path) cannot be opened: \(error)")
    }
  }

  package func load() throws -> SavedState {
    do {
      return try queue.read { db in
        SavedState(
          writes: try Self.writes(db), queries: try Self.queries(db),
          lastWrite: try Self.lastWrite(db))
      }
    } catch {
      throw PersistenceError(
        "\(queue.path) cannot be read; move it away to start without its pending writes: "
          + "\(error)")
    }
  }

  package func record(_ changes: [StateChange]) throws -> [QuerySpec] {
    var used = inUse.withLock { $0 }
    let dropped = try queue.write { [bytesMax] db in
      for change in changes { try Self.record(change, &used, db) }
      try Self.recordLastWrite(changes, db)
      return try Self.prune(db, bytesMax, used)
    }
    inUse.withLock { $0 = used }
    return dropped
  }

  package func close() throws {
    try queue.close()
  }
}

extension SQLitePersistence {
  private static func record(
    _ change: StateChange, _ used: inout Set<Int64>, _ db: GRDB.Database
  ) throws {
    switch change {
    case .writeAdded(let id, let write, let milliseconds):
      try db.execute(
        sql: "INSERT INTO writes(id, milliseconds) VALUES(?, ?)",
        arguments: [id.number, milliseconds])
      for (position, item) in write.items.enumerated() {
        var output = JSONOutput()
        output.append(item.value)
        try db.execute(
          sql: "INSERT INTO write_items(write, position, location, value) VALUES(?, ?, ?, ?)",
          arguments: [id.number, position, item.location.text, output.text])
      }
    case .writeRemoved(let id):
      try db.execute(sql: "DELETE FROM writes WHERE id = ?", arguments: [id.number])
      try db.execute(sql: "DELETE FROM write_items WHERE write = ?", arguments: [id.number])
    case .received(let spec, let assignments, let sequence):
      var leaves = StoredLeaves(try row(of: spec, db), db)
      for assignment in assignments.sorted(by: { $0.location < $1.location }) {
        try leaves.put(assignment)
      }
      try db.execute(
        sql: "UPDATE queries SET sequence = ?, bytes = bytes + ? WHERE id = ?",
        arguments: [sequence, leaves.bytesAdded, leaves.query])
    case .listening(let spec, let isAsked):
      let id = try row(of: spec, db)
      try db.execute(
        sql: "UPDATE queries SET used = 1 + (SELECT max(used) FROM queries) WHERE id = ?",
        arguments: [id])
      if isAsked { used.insert(id) } else { used.remove(id) }
    case .kept(let spec, let isKept):
      try db.execute(
        sql: "UPDATE queries SET is_kept = ? WHERE id = ?",
        arguments: [isKept, try row(of: spec, db)])
    }
  }

  private static func recordLastWrite(_ changes: [StateChange], _ db: GRDB.Database) throws {
    let added = changes.compactMap { change in
      if case .writeAdded(let id, _, _) = change { id.number } else { nil }
    }
    guard let last = added.max() else { return }
    try db.execute(
      sql: "UPDATE progress SET last_write = max(last_write, ?)", arguments: [last])
  }

  /// Returns the row of a query, which is created if necessary.
  private static func row(of spec: QuerySpec, _ db: GRDB.Database) throws -> Int64 {
    let (path, options) = (spec.path.text, options(spec.query))
    let found = try Int64.fetchOne(
      db, sql: "SELECT id FROM queries WHERE path = ? AND options = ?", arguments: [path, options])
    if let found { return found }
    try db.execute(
      sql: "INSERT INTO queries(path, options, used, is_kept, bytes) VALUES(?, ?, 0, 0, 0)",
      arguments: [path, options])
    return db.lastInsertedRowID
  }

  private static func options(_ query: Query) -> String {
    var output = JSONOutput()
    output.append("{\"version\":1")
    output.append(optionsOf: query)
    output.append("}")
    return output.text
  }

  /// Drops the least recently used queries until the size limit holds.
  private static func prune(
    _ db: GRDB.Database, _ bytesMax: Int, _ used: Set<Int64>
  ) throws -> [QuerySpec] {
    var bytes = try Int.fetchOne(db, sql: "SELECT total(bytes) FROM queries") ?? 0
    guard bytes > bytesMax else { return [] }
    var dropped: [QuerySpec] = []
    let rows = try Row.fetchAll(
      db, sql: "SELECT id, path, options, bytes FROM queries WHERE NOT is_kept ORDER BY used, id")
    for row in rows {
      let id: Int64 = try row.value("id")
      guard bytes > bytesMax, !used.contains(id) else { continue }
      bytes &-= try row.value("bytes")
      try db.execute(sql: "DELETE FROM leaves WHERE query = ?", arguments: [id])
      try db.execute(sql: "DELETE FROM queries WHERE id = ?", arguments: [id])
      dropped.append(try spec(row))
    }
    return dropped
  }
}

// MARK: - Loading

extension SQLitePersistence {
  private static func writes(_ db: GRDB.Database) throws -> [SavedState.SavedWrite] {
    var items: [Int64: [Write.Item]] = [:]
    let rows = try Row.fetchCursor(
      db, sql: "SELECT write, location, value FROM write_items ORDER BY write, position")
    while let row = try rows.next() {
      let location = try Location(row.value("location") as String)
      let value = try WriteValue(json: row.value("value") as String, limits: .none)
      items[try row.value("write"), default: []].append(Write.Item(location, value))
    }
    return try Row.fetchAll(db, sql: "SELECT id, milliseconds FROM writes ORDER BY id").map { row in
      let id: Int64 = try row.value("id")
      // Numbers continue from the last one and must not overflow.
      guard 0...Int64.max / 2 ~= id else {
        throw PersistenceError("a write cannot have the number \(id)")
      }
      return try SavedState.SavedWrite(
        id: WriteID(id), write: Write(items[id] ?? []), milliseconds: row.value("milliseconds"))
    }
  }

  private static func lastWrite(_ db: GRDB.Database) throws -> WriteID {
    guard let row = try Row.fetchOne(db, sql: "SELECT last_write FROM progress") else {
      throw PersistenceError("a row is missing; the file is damaged")
    }
    let id: Int64 = try row.value("last_write")
    guard -1...Int64.max / 2 ~= id else {
      throw PersistenceError("a write cannot have the number \(id)")
    }
    return WriteID(id)
  }

  private static func queries(
    _ db: GRDB.Database
  ) throws -> [QuerySpec: SavedState.SavedQuery] {
    var result: [QuerySpec: SavedState.SavedQuery] = [:]
    let rows = try Row.fetchAll(
      db, sql: "SELECT id, path, options, sequence FROM queries WHERE sequence IS NOT NULL")
    for row in rows {
      result[try spec(row)] = try SavedState.SavedQuery(
        node: StoredLeaves.load(row.value("id"), db), sequence: row.value("sequence"))
    }
    return result
  }

  private static func spec(_ row: Row) throws -> QuerySpec {
    let options = try JSONValue(json: row.value("options") as String)
    return QuerySpec(try Path(row.value("path") as String), try Query(options: options))
  }
}

extension Row {
  /// Returns the value of a column. In a damaged file a column may hold any type, whatever the
  /// table says; GRDB's subscript would trap.
  ///
  /// - Throws: `PersistenceError` if the value is not of the type.
  func value<T: DatabaseValueConvertible>(_ column: String) throws -> T {
    guard let value = T.fromDatabaseValue(self[column] as DatabaseValue) else {
      throw PersistenceError("the column \(column) has a wrong type; the file is damaged")
    }
    return value
  }
}
