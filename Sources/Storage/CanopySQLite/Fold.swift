internal import CanopyTree
internal import GRDB

/// The writing of one portion of a checkpoint: the part of it that is still to be done.
///
/// Each location that the portion's commits wrote is one of these cases:
/// - A row stands above the path, and the row's subtree still fits into a row: that row is replaced.
/// - A row stands above the path, and its subtree has grown: the row is replaced by a row for each of its
///   children, with the same contents. Then the location is looked at again.
/// - Otherwise the path's own subtree is written: its old rows are removed, then the new ones are inserted, in
///   as many steps as it takes. Should the process die in between, the commit that wrote the path is still in
///   the journal and repairs it.
/// - For a priority, without such a row: only the row of the priority.
///
/// Nothing else changes: when a write takes a branch's last child, and with it the priority that the
/// branch has in a row of its own, `Tree.apply` names the branch as removed.
struct Fold {
  /// Bytes of JSON up to which a subtree is one row, when rows are split; an existing row may grow to
  /// twice that.
  static let rowBytes = 8 * 1024

  private let root: Node
  /// The locations to write, in order, none below another. Not changed, so that a copy of this is cheap.
  private let locations: [Location]
  /// The index of the first location that is to be done.
  private var next = 0
  /// The number of keys in the path of the row that was found last.
  private var rowDepth = 0
  /// A path at and above which there was no row.
  private var rowless: Path?
  /// A stretch of the table in which there was no row.
  private var gap: RowGap?
  private var clearing: RowsBelow?
  private var emitting: RowEmitter?
  private var waiting: RowEmitter?
  /// The row that was replaced last; all other locations below it are done with it.
  private var rewritten: Path?

  /// Creates a fold of which nothing is done yet.
  ///
  /// - Parameter locations: the locations to write, in order, none at or below another.
  init(root: Node, locations: [Location]) {
    self.root = root
    self.locations = locations
  }

  /// Writes rows until the budget is spent. Returns whether nothing is left to do.
  mutating func step(_ table: inout LeafTable, _ budget: inout StepBudget) throws -> Bool {
    while !budget.isSpent {
      if var emitter = emitting.take() {
        while !budget.isSpent {
          guard let (location, node) = emitter.next() else { break }
          budget.spend(bytes: try table.insert(location, node))
        }
        emitting = budget.isSpent ? emitter : nil
      } else if let rows = clearing {
        if try table.clear(rows, &budget) {
          clearing = nil
          emitting = waiting
        }
      } else if next < locations.count {
        next += 1
        budget.spend(bytes: try begin(&table, locations[next - 1]))
      } else {
        return true
      }
    }
    return false
  }

  /// Begins with a location, or does all of it. Returns the bytes that this wrote.
  private mutating func begin(_ table: inout LeafTable, _ location: Location) throws -> Int {
    let path = location.path
    if let rewritten, path.hasPrefix(rewritten) { return 0 }
    let isFree = try !location.isPriority && isFree(table.db, path)
    if let covering = try coveringRow(table, path, butAbove: isFree) {
      return try change(&table, covering, for: location)
    }
    if location.isPriority {
      return try table.put(location, root.at(path).priority)
    }
    let rows = RowsBelow(path)
    let emitter = RowEmitter(path, root.at(path), rowBytes: Fold.rowBytes)
    // To look costs a fraction of removing nothing.
    if try isFree || rows.isEmpty(table.db) {
      emitting = emitter
    } else {
      clearing = rows
      waiting = emitter
    }
    return 0
  }

  /// Replaces the row at or above a location, or splits it if its subtree has grown too large for a row.
  private mutating func change(
    _ table: inout LeafTable, _ covering: Path, for location: Location
  ) throws -> Int {
    let node = root.at(covering)
    if node.isAbsent || node.isLeaf || node.fits(bytes: Fold.rowBytes * 2) {
      rewritten = covering
      return try table.put(Location(covering), node)
    }
    if location == Location(covering) {
      // All of it is in the journal, so that it may be there in part when a step ends.
      try table.remove(location)
      emitting = RowEmitter(covering, node, rowBytes: Fold.rowBytes)
      return 0
    }
    next -= 1
    return try split(&table, covering, node)
  }

  /// Replaces a row by rows for its children, which have the same contents: other contents than the journal's
  /// would be lost if the process died before the last of the locations below is written.
  ///
  /// - Parameter node: the branch that is there now.
  private mutating func split(
    _ table: inout LeafTable, _ path: Path, _ node: Node
  ) throws -> Int {
    let old = try table.node(path)
    try table.remove(Location(path))
    gap = nil
    rowless = path
    rowDepth = path.count + 1
    var bytes = 0
    if old.isBranch {
      var emitter = RowEmitter(path, old, rowBytes: Fold.rowBytes, splittingTop: true)
      while let (location, node) = emitter.next() {
        bytes += try table.insert(location, node)
      }
    } else if !node.priority.isAbsent {
      // A leaf has become a branch, and may have left it a priority that no commit tells. Such a row counts only
      // where the branch has another one.
      var emitter = RowEmitter(path, node, rowBytes: Fold.rowBytes)
      if let (location, first) = emitter.next() {
        bytes += try table.insert(location, first)
      }
      bytes += try table.insert(Location(path, isPriority: true), node.priority)
    }
    return bytes
  }

  /// Whether it is certain that no row stands at or below a path. What is new mostly comes behind all
  /// of its neighbours, so that one look for the next row serves many.
  private mutating func isFree(_ db: Database, _ path: Path) throws -> Bool {
    guard !path.isRoot else { return false }
    let text = Array(path.text.utf8)
    if let gap, gap.holds(text) { return true }
    let statement = try db.cachedStatement(
      sql: "SELECT path FROM leaves WHERE path >= ? ORDER BY path LIMIT 1")
    let gap = RowGap(
      from: text, to: try String.fetchOne(statement, arguments: [path.text]).map { Array($0.utf8) })
    self.gap = gap
    return gap.holds(text)
  }

  /// The path at or above the given one at which a row stands. There is at most one, and mostly as
  /// deep as the last: so that is tried first. Where it is known that there is none above, because the
  /// location before was a neighbour, it is not asked again.
  ///
  /// - Parameter isFree: whether there is none at the path itself.
  private mutating func coveringRow(
    _ table: LeafTable, _ path: Path, butAbove isFree: Bool
  ) throws -> Path? {
    let last = isFree ? path.count - 1 : path.count
    var first = 0
    if let rowless {
      first = zip(rowless.keys, path.keys).prefix { $0 == $1 }.count + 1
    }
    guard first <= last else {
      if isFree { rowless = path }
      return nil
    }
    let likely = first...last ~= rowDepth ? rowDepth : first
    for count in [likely] + (first...last).reversed().filter({ $0 != likely }) {
      let candidate = path.prefix(count)
      if try table.checksum(Location(candidate)) != nil {
        rowDepth = count
        rowless = count > 0 ? path.prefix(count - 1) : nil
        return candidate
      }
    }
    rowless = path
    return nil
  }
}

/// A stretch of the table in which there is no row but those that the fold wrote since. They do not matter
/// to a location that it comes to later: none of its locations is at or below another.
struct RowGap {
  /// The first text that no row has, in bytes, as SQLite compares them.
  let from: [UInt8]
  /// The next row; nil where there is none.
  let to: [UInt8]?

  /// Whether all the texts are in there that begin with `path/`, and that of the path itself.
  func holds(_ path: [UInt8]) -> Bool {
    guard !path.lexicographicallyPrecedes(from) else { return false }
    guard let to else { return true }
    return !to.lexicographicallyPrecedes(path + [UInt8(ascii: "0")])
  }
}
