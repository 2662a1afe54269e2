internal import CanopyTree

/// The id of a view. Ids ascend in the order of creation.
struct ViewID: Hashable, Comparable, Sendable {
  var number: Int

  static func < (a: ViewID, b: ViewID) -> Bool { a.number < b.number }
}

/// One query that is listened to: the server's data, that data with the pending writes applied, and
/// the listeners.
///
/// The result is updated incrementally, at the locations that a step affects. It always equals the
/// server's data with all pending writes applied in order.
struct View: Sendable {
  /// The data that listeners see.
  struct Shown: Sendable {
    enum Extent: Sendable {
      /// Some children, each completely.
      case parts
      /// The query's result.
      case filtered
      /// The whole location.
      case whole
    }

    var tree: Tree
    var extent: Extent

    var root: Node { tree.root }
    var isReady: Bool { extent != .parts }
  }

  let spec: QuerySpec
  private(set) var server: ServerCache
  private(set) var shown: Shown
  private(set) var listeners: [(id: ListenerID, kinds: DataEvent.Kinds)] = []
  private(set) var kinds: DataEvent.Kinds = []

  /// Creates a view of known data.
  init(_ spec: QuerySpec, server: ServerCache, _ writes: PendingWrites) {
    self.spec = spec
    self.server = server
    shown = Shown(tree: server.tree, extent: .parts)
    rebuild(writes)
  }

  /// Returns the indexes that a query needs at its location. Key order needs none, and a location
  /// with priorities always keeps an index by priority.
  static func indexPlan(_ query: Query) -> IndexPlan {
    var plan = IndexPlan()
    switch query.order {
    case .key, .priority: break
    case .value, .child: plan.declare(query.order, at: [])
    }
    return plan
  }

  mutating func add(_ listener: ListenerID, _ kinds: DataEvent.Kinds) {
    listeners.append((listener, kinds))
    self.kinds.formUnion(kinds)
  }

  mutating func remove(_ listener: ListenerID) {
    listeners.removeAll { $0.id == listener }
    kinds = listeners.reduce(into: []) { $0.formUnion($1.kinds) }
  }
}

extension View {
  /// Changes the view in place.
  mutating func change(_ body: (inout View) -> Void) {
    body(&self)
  }

  /// Applies a new write, the newest, which is already among the pending ones.
  mutating func write(_ assignments: [Assignment], _ writes: PendingWrites) {
    var below: [Assignment] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, let rest = spec.path.relative(to: location.path) {
        let node = assignment.value.at(rest)
        shown = Shown(tree: Tree(root: node, indexPlan: shown.tree.indexPlan), extent: .whole)
        return
      }
      guard let rest = location.path.relative(to: spec.path) else { continue }
      if let key = rest.keys.first, rest.count > 1 || location.isPriority,
        !isShownWhole(key, writes)
      {
        continue
      }
      below.append(Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
    }
    shown.tree.apply(below)
  }

  /// Whether a child is completely known, with the writes applied.
  private func isShownWhole(_ key: Key, _ writes: PendingWrites) -> Bool {
    shown.extent == .whole || server.knows(key) || !shown.root.child(key).isAbsent
      || writes.hasEntry(at: spec.path.child(key))
  }

  /// Applies data from the server; see `ServerCache.apply`.
  mutating func serverChanged(
    _ assignments: [Assignment], isNarrow: Bool, patched: Path?, _ writes: PendingWrites
  ) {
    let old = server.root
    let change = server.apply(assignments, of: spec, isNarrow: isNarrow, patched: patched)
    refresh(change, old, writes)
  }

  /// Handles a write that was confirmed or withdrawn, and is no longer pending.
  mutating func removed(_ assignments: [Assignment], isConfirmed: Bool, _ writes: PendingWrites) {
    let old = server.root
    if isConfirmed, case .everything = server.applyConfirmed(assignments, of: spec) {
      rebuild(writes)
      return
    }
    refresh(.locations(assignments.map(\.location.path)), old, writes)
  }

  private mutating func refresh(_ change: CacheChange, _ old: Node, _ writes: PendingWrites) {
    switch change {
    case .nothing: break
    case .everything: rebuild(writes)
    case .locations(let paths):
      for path in paths { refresh(path, old, writes) }
    }
  }

  /// Recomputes the whole result.
  ///
  /// - Complexity: O(writes at and below the location), and O(depth) for those above.
  private mutating func rebuild(_ writes: PendingWrites) {
    let path = spec.path
    let shadow = writes.shadow(path)
    let groups = writes.groups(below: path, after: shadow?.id)
    if let shadow {
      shown = Shown(tree: Tree(root: shadow.node, indexPlan: server.tree.indexPlan), extent: .whole)
    } else {
      let extent: Shown.Extent =
        switch server.extent {
        case .whole, .parts(_, isAssumed: true): .whole
        case .filtered: .filtered
        case .parts: .parts
        }
      shown = Shown(tree: server.tree, extent: extent)
    }
    guard shown.extent != .whole else {
      for group in groups { shown.tree.apply(group) }
      return
    }
    var written: Set<Key> = []
    for group in groups {
      var known: [Assignment] = []
      for assignment in group {
        let location = assignment.location
        if let key = location.path.keys.first {
          if location.path.count == 1, !location.isPriority {
            written.insert(key)
          } else if !server.knows(key), !written.contains(key) {
            continue
          }
        }
        known.append(assignment)
      }
      shown.tree.apply(known)
    }
  }

  /// Recomputes the result at one location.
  ///
  /// The new value is the server's data with the writes at, above and below the location. Nodes
  /// above it stay unchanged, unless they depend on their children: a leaf that a child would
  /// replace, a priority that ends with the last child, or other writes above. Then the
  /// recomputation starts at the uppermost of those.
  ///
  /// - Parameter old: the server's data of the view's location before the step.
  private mutating func refresh(_ path: Path, _ old: Node, _ writes: PendingWrites) {
    let top = spec.path.count
    guard path.count > top, path.hasPrefix(spec.path) else {
      if spec.path.hasPrefix(path) { rebuild(writes) }
      return
    }
    var depth = path.count
    if let first = writes.depthOfFirst(above: path) { depth = max(first, top) }
    depth = min(depth, fragileDepth(server.root, path), fragileDepth(old, path))
    guard depth > top else { return rebuild(writes) }
    let start = path.prefix(depth)
    guard let rest = start.relative(to: spec.path), let key = rest.keys.first else { return }
    var value = Node.absent
    if shown.extent == .whole || server.knows(key) || writes.hasEntry(at: spec.path.child(key)) {
      value = writes.value(of: start, over: server.root.at(rest))
    } else if rest.count > 1 {
      return
    }
    shown.tree.apply([Assignment(rest, value)])
  }

  /// Returns the depth of the uppermost leaf or prioritized node strictly above a path, in data of
  /// this location; the length of the path if there is none.
  private func fragileDepth(_ root: Node, _ path: Path) -> Int {
    var node = root
    for depth in spec.path.count..<path.count {
      if node.isLeaf || !node.priority.isAbsent { return depth }
      if node.isAbsent { break }
      node = node.child(path.keys[depth])
    }
    return path.count
  }
}
