/// The effect of one commit on one child in a query's result.
public struct ChildChange: Sendable, Equatable {
  /// The kinds, in the sequence in which one commit's changes are sent.
  public enum Kind: Int, Sendable, Comparable, CaseIterable {
    /// The child left the result.
    case removed
    /// The child entered the result.
    case added
    /// The child's order value changed. A `changed` follows.
    case moved
    /// The child or a node below it changed.
    case changed

    /// Whether `a` is sent before `b`.
    public static func < (a: Kind, b: Kind) -> Bool { a.rawValue < b.rawValue }
  }

  /// The kind of change.
  public var kind: Kind
  /// The key of the child.
  public var key: Key
  /// The child's data now; for a removed child, its last data.
  public var node: Node
  /// The preceding child in the result; nil for the first and for a removed child.
  public var previous: Key?

  /// Creates a change.
  public init(kind: Kind, key: Key, node: Node, previous: Key?) {
    self.kind = kind
    self.key = key
    self.node = node
    self.previous = previous
  }
}

/// The forms of the events that notify a client of changes. A LISTEN names them by their raw values.
public enum EventForm: String, Sendable, CaseIterable {
  /// An event for each child that was removed, added, moved or changed: a `ChildChange`.
  case child
  /// An event with the whole value, whenever it has changed.
  case value
  /// Events with the writes that a copy needs to stay equal: the locations that changed, with their present values.
  case sync
}

extension Query {
  /// Returns the changes of the query's result between two versions of a location.
  ///
  /// In this sequence: removed, added, moved, changed; removed children in the order of the old
  /// version, all others in that of the new. Applied to the old result, they give the new one. A
  /// child that enters or leaves a limited window counts as added or removed even if it did not
  /// change itself.
  ///
  /// - Complexity: O(log n) for each child that changed or crossed an edge of the window, if both
  ///   versions keep the index of the order.
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

  /// Returns the query's result as a node: the location itself if the query is unbounded, else a
  /// branch of the selected children.
  ///
  /// - Complexity: O(result), and sorting it by key.
  public func value(of node: Node) -> Node {
    isUnbounded ? node : Node(children: children(of: node).map { ($0.key, $0.node) })
  }
}
