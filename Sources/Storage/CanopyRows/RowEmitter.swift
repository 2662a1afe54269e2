package import CanopyTree

/// An iterator over the rows that store a subtree.
///
/// It takes children from a branch in small groups, so that a call of `next` or a copy of the emitter costs the same
/// for a branch of any size.
package struct RowEmitter: Sendable {
  /// A branch that is spread over rows, and the position in it.
  private struct Level {
    let path: Path
    let node: Node
    /// The next children, in reverse order.
    var piece: [(key: Key, node: Node)] = []
    /// The last key that was taken from the branch.
    var last: Key?
    var hasPriority: Bool
  }

  private static let pieceMax = 64

  private var top: (location: Location, node: Node)?
  private var levels: [Level] = []
  private let rowBytes: Int

  /// Creates an emitter for the node at a path.
  ///
  /// - Parameters:
  ///   - rowBytes: the maximum size of a branch in one row, in bytes of JSON.
  ///   - splittingTop: whether to spread the node itself over rows even if it fits into one.
  package init(_ path: Path, _ node: Node, rowBytes: Int, splittingTop: Bool = false) {
    self.rowBytes = rowBytes
    if splittingTop, node.isBranch {
      open(path, node)
    } else if !node.isAbsent {
      top = (Location(path), node)
    }
  }

  /// Returns the next row; nil after the last one.
  package mutating func next() -> (Location, Node)? {
    if let (location, node) = top.take() {
      if isRow(node) { return (location, node) }
      open(location.path, node)
    }
    while let i = levels.indices.last {
      if let child = nextChild(&levels[i]) {
        let path = levels[i].path.child(child.key)
        if isRow(child.node) { return (Location(path), child.node) }
        open(path, child.node)
      } else if levels[i].hasPriority {
        levels[i].hasPriority = false
        return (Location(levels[i].path, isPriority: true), levels[i].node.priority)
      } else {
        levels.removeLast()
      }
    }
    return nil
  }

  private func isRow(_ node: Node) -> Bool { node.isLeaf || node.fits(bytes: rowBytes) }

  private mutating func open(_ path: Path, _ node: Node) {
    levels.append(Level(path: path, node: node, hasPriority: !node.priority.isAbsent))
  }

  private func nextChild(_ level: inout Level) -> (key: Key, node: Node)? {
    if level.piece.isEmpty {
      level.piece = level.node.children(after: level.last, limit: RowEmitter.pieceMax).reversed()
      level.last = level.piece.first?.key ?? level.last
    }
    return level.piece.popLast()
  }
}
