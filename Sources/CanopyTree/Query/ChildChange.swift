/// What one commit did to one child of what a query shows.
public struct ChildChange: Sendable, Equatable {
  /// The kinds, in the sequence in which the changes of one commit are told.
  public enum Kind: Int, Sendable, Comparable, CaseIterable {
    /// It is shown no more.
    case removed
    /// It is shown now.
    case added
    /// What it is ordered by has changed. A `changed` comes as well.
    case moved
    /// It, or something below it, has changed.
    case changed

    /// Whether `a` is told before `b`.
    public static func < (a: Kind, b: Kind) -> Bool { a.rawValue < b.rawValue }
  }

  /// What happened.
  public var kind: Kind
  /// To which child.
  public var key: Key
  /// Its data now; for one that was removed, its last data.
  public var node: Node
  /// The shown child before it in the query's order; nil for the first, and for one that was removed.
  public var previous: Key?

  /// A change.
  public init(kind: Kind, key: Key, node: Node, previous: Key?) {
    self.kind = kind
    self.key = key
    self.node = node
    self.previous = previous
  }
}

extension Query {
  /// What happened, between two versions of a location, to the children that the query shows.
  ///
  /// Removed, added, moved, changed, in that sequence; the removed in the order of the old version,
  /// the others in that of the new. Applied to what the query showed before, they lead to what it
  /// shows now. What crosses the edge of a limited window without having changed itself is removed or
  /// added.
  ///
  /// O(log n) for each child that changed or crossed an edge, however many there are, where both
  /// versions keep the index that the order needs.
  public func changes(from old: Node, to new: Node) -> [ChildChange] {
    let before = old.children ?? Children()
    let after = new.children ?? Children()
    if before.isIdentical(to: after) { return [] }
    let oldWindow = QueryWindow(self, of: old)
    let newWindow = QueryWindow(self, of: new)
    var found: [(change: ChildChange, position: Position)] = []
    func add(_ kind: ChildChange.Kind, _ position: Position, _ node: Node) {
      let previous = kind == .removed ? nil : newWindow.previous(to: position)
      found.append(
        (ChildChange(kind: kind, key: position.key, node: node, previous: previous), position))
    }

    var different: Set<Key> = []
    Children.forEachDifference(from: before, to: after, isSame: { $0.node == $1.node }) { a, b in
      let oldPosition = a.map { oldWindow.position(of: $0.key, $0.node) }
      let newPosition = b.map { newWindow.position(of: $0.key, $0.node) }
      let shownBefore = oldPosition.map(oldWindow.contains) ?? false
      let shownAfter = newPosition.map(newWindow.contains) ?? false
      if let key = a?.key ?? b?.key, limit != nil { different.insert(key) }
      if shownBefore, shownAfter, let a, let b, let position = newPosition {
        if order.value(of: a.node) != order.value(of: b.node) { add(.moved, position, b.node) }
        add(.changed, position, b.node)
      } else if shownBefore, let a, let position = oldPosition {
        add(.removed, position, a.node)
      } else if shownAfter, let b, let position = newPosition {
        add(.added, position, b.node)
      }
      return true
    }
    if limit != nil {
      for (position, node) in oldWindow.outside(newWindow) where !different.contains(position.key) {
        add(.removed, position, node)
      }
      for (position, node) in newWindow.outside(oldWindow) where !different.contains(position.key) {
        add(.added, position, node)
      }
    }
    found.sort {
      $0.change.kind != $1.change.kind
        ? $0.change.kind < $1.change.kind : $0.position < $1.position
    }
    return found.map(\.change)
  }

  /// What the query shows of a location, as a value: all of it when nothing narrows the query down,
  /// else a branch of the children shown. O(answer), and sorting them by key.
  public func value(of node: Node) -> Node {
    isUnbounded ? node : Node(children: children(of: node).map { ($0.key, $0.node) })
  }
}
