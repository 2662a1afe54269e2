internal import CanopyTree
internal import GRDB

/// The rows below a path: all whose texts begin with `path/`. `0` is the character after `/`.
struct RowsBelow {
  /// A condition of SQL.
  let condition: String
  /// Its arguments.
  let arguments: StatementArguments

  init(_ path: Path) {
    condition = path.isRoot ? "path >= :from" : "path >= :from AND path < :to"
    arguments = path.isRoot ? ["from": ""] : ["from": path.text + "/", "to": path.text + "0"]
  }

  /// Whether there is none, or none but those of priorities.
  func isEmpty(_ db: Database, butPriorities: Bool = false) throws -> Bool {
    let kind = butPriorities ? "AND substr(path, -9) <> '.priority'" : ""
    let statement = try db.cachedStatement(
      sql: "SELECT 1 FROM leaves WHERE \(condition) \(kind) LIMIT 1")
    return try Int.fetchOne(statement, arguments: arguments) == nil
  }
}

/// The rows that a subtree is stored in, one after the other.
struct RowEmitter {
  private var stack: [(location: Location, node: Node)]
  private let rowBytes: Int

  init(_ path: Path, _ node: Node, rowBytes: Int) {
    stack = node.isAbsent ? [] : [(Location(path), node)]
    self.rowBytes = rowBytes
  }

  mutating func next() -> (Location, Node)? {
    while let (location, node) = stack.popLast() {
      if node.isLeaf || node.fits(bytes: rowBytes) { return (location, node) }
      let start = stack.count
      node.forEachChild { key, child in
        stack.append((Location(location.path.child(key)), child))
        return true
      }
      if !node.priority.isAbsent {
        stack.append((Location(location.path, isPriority: true), node.priority))
      }
      stack[start...].reverse()
    }
    return nil
  }
}
