package import CanopyTree

/// The remaining work of writing one batch of a checkpoint to `leaves`.
///
/// Each location that the commits of the batch wrote is one of these cases:
/// - A row at or above the path covers it, and the row's subtree still fits into a row: that row is replaced.
/// - A row above the path covers it, but its subtree has grown: the row is replaced by a row for each of its
///   children, with the old contents. Then the location is tried again.
/// - No row covers the path: the old rows below it are removed, then rows for its subtree are inserted, in as many
///   steps as necessary. If the process dies in between, the commit that wrote the path is still in the journal, and
///   a start applies it.
/// - No row covers the path, and the location is a priority: only the row of the priority is written.
///
/// No other rows change. If a write removes the last child of a branch, and with it the priority that the branch has
/// in a row of its own, `Tree.apply` returns the branch as a removed location.
package struct Fold: Sendable {
  /// The maximum size of a branch in a new row, in bytes of JSON. An existing row may grow to twice that.
  package static let rowBytes = 8 * 1024

  private let root: Node
  /// The locations to write, in order, none below another. Never changed, so that a copy of the fold is cheap.
  private let locations: [Location]
  /// The maximum number of locations that a store receives ahead.
  private static let preparedMax = 256

  /// The index after the locations that the store has received ahead.
  private var prepared = 0
  /// The index of the next location to write.
  private var next = 0
  /// The number of keys in the path of the row that was found last.
  private var rowDepth = 0
  /// A path such that no row exists at or above it.
  private var rowless: Path?
  /// A range of the table that had no rows.
  private var gap: RowGap?
  private var clearing: RowsBelow?
  private var emitting: RowEmitter?
  private var waiting: RowEmitter?
  /// The path of the row that was replaced last. The other locations below it are written with it.
  private var rewritten: Path?

  /// Creates a fold that has not begun.
  ///
  /// - Parameter locations: the locations to write, in order, none at or below another.
  package init(root: Node, locations: [Location]) {
    self.root = root
    self.locations = locations
  }

  /// Writes rows until the budget is spent. Returns whether the fold is complete.
  package mutating func step(
    _ table: inout some LeafRows, _ budget: inout StepBudget
  ) throws -> Bool {
    var isPrepared = false
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
        if next >= prepared || !isPrepared {
          isPrepared = true
          prepared = min(locations.count, next + Fold.preparedMax)
          try table.prepare(locations[next..<prepared])
        }
        next += 1
        budget.spend(bytes: try begin(&table, locations[next - 1]))
      } else {
        return true
      }
    }
    return false
  }

  /// Begins to write a location, and completes it if it is one row. Returns the number of bytes written.
  private mutating func begin(_ table: inout some LeafRows, _ location: Location) throws -> Int {
    let path = location.path
    if let rewritten, path.hasPrefix(rewritten) { return 0 }
    if let covering = try likelyRow(&table, above: path) {
      return try change(&table, covering, for: location)
    }
    let isFree = try !location.isPriority && isFree(&table, path)
    if let covering = try coveringRow(&table, path, butAbove: isFree) {
      return try change(&table, covering, for: location)
    }
    if location.isPriority {
      return try table.put(location, root.at(path).priority)
    }
    let rows = RowsBelow(path)
    let emitter = RowEmitter(path, root.at(path), rowBytes: Fold.rowBytes)
    // A look-up costs a fraction of a DELETE that finds no row.
    if try isFree || table.isEmpty(rows) {
      emitting = emitter
    } else {
      clearing = rows
      waiting = emitter
    }
    return 0
  }

  /// Replaces the row at or above a location, or splits the row if its subtree has become too large for one.
  private mutating func change(
    _ table: inout some LeafRows, _ covering: Path, for location: Location
  ) throws -> Int {
    let node = root.at(covering)
    if node.isAbsent || node.isLeaf || node.fits(bytes: Fold.rowBytes * 2) {
      rewritten = covering
      return try table.put(Location(covering), node)
    }
    if location == Location(covering) {
      // A commit in the journal has all of it, so a step may end when only a part is written.
      try table.remove(location)
      emitting = RowEmitter(covering, node, rowBytes: Fold.rowBytes)
      return 0
    }
    next -= 1
    return try split(&table, covering, node)
  }

  /// Replaces a row by rows for its children with the same contents. New contents would be wrong: if the process died
  /// before the last location below is written, the old values of the others would be lost.
  ///
  /// - Parameter node: the present branch at the path.
  private mutating func split(
    _ table: inout some LeafRows, _ path: Path, _ node: Node
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
      // A leaf has become a branch, and the branch has kept the leaf's priority, which no commit mentions. The row of
      // a priority counts only if the branch has another row, so a child is written as well.
      var emitter = RowEmitter(path, node, rowBytes: Fold.rowBytes)
      if let (location, first) = emitter.next() {
        bytes += try table.insert(location, first)
      }
      bytes += try table.insert(Location(path, isPriority: true), node.priority)
    }
    return bytes
  }

  /// Whether it is certain that no row exists at or below a path. New keys usually sort after all of their siblings, so
  /// one look-up of the next row answers for many paths.
  private mutating func isFree(_ table: inout some LeafRows, _ path: Path) throws -> Bool {
    guard !path.isRoot else { return false }
    let text = Array(path.text.utf8)
    if let gap, gap.holds(text) { return true }
    let gap = RowGap(from: text, to: try table.firstRow(from: path.text))
    self.gap = gap
    return gap.holds(text)
  }

  /// Returns the path of the row above a path if the row is as deep as the last one. Rows of one list have one depth, so
  /// a look-up usually finds the row of a location in a list that is already stored.
  private mutating func likelyRow(
    _ table: inout some LeafRows, above path: Path
  ) throws -> Path? {
    guard rowDepth > 0, rowDepth < path.count, rowDepth >= depthMin(of: path) else { return nil }
    let candidate = path.prefix(rowDepth)
    guard try table.contains(Location(candidate)) else { return nil }
    rowless = path.prefix(rowDepth - 1)
    return candidate
  }

  /// Returns the least number of keys that the path of a row at or above a path can have.
  private func depthMin(of path: Path) -> Int {
    guard let rowless else { return 0 }
    return zip(rowless.keys, path.keys).prefix { $0 == $1 }.count + 1
  }

  /// Returns the path of the row at or above the given path; nil if there is none.
  ///
  /// At most one such row exists. It is usually as deep as the last one, so that depth is tried first. Paths at or above
  /// which no row exists, because the location before had the same ancestors, are not looked up again.
  ///
  /// - Parameter isFree: whether no row exists at the path itself.
  private mutating func coveringRow(
    _ table: inout some LeafRows, _ path: Path, butAbove isFree: Bool
  ) throws -> Path? {
    let last = isFree ? path.count - 1 : path.count
    let first = depthMin(of: path)
    guard first <= last else {
      if isFree { rowless = path }
      return nil
    }
    let likely = first...last ~= rowDepth ? rowDepth : first
    for count in [likely] + (first...last).reversed().filter({ $0 != likely }) {
      let candidate = path.prefix(count)
      if try table.contains(Location(candidate)) {
        rowDepth = count
        rowless = count > 0 ? path.prefix(count - 1) : nil
        return candidate
      }
    }
    rowless = path
    return nil
  }
}

/// A range of the table that had no rows when it was looked up. The fold may have inserted rows since. They do not
/// affect its later locations, because none of its locations is at or below another.
struct RowGap: Sendable {
  /// The lower bound of the range, inclusive, as bytes.
  let from: [UInt8]
  /// The upper bound of the range, exclusive: the location of the next row; nil if there is no next row.
  let to: [UInt8]?

  /// Whether the range includes the path and all texts that begin with `path/`.
  func holds(_ path: [UInt8]) -> Bool {
    guard !path.lexicographicallyPrecedes(from) else { return false }
    guard let to else { return true }
    return !to.lexicographicallyPrecedes(path + [UInt8(ascii: "0")])
  }
}
