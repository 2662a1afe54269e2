internal import CanopyTree

/// What is known of a location from the server, for one query of it.
///
/// What is not known is never taken for absent: there are four states of knowledge.
struct ServerCache: Sendable {
  enum Extent: Sendable, Equatable {
    /// Some children, each completely.
    ///
    /// - told: those that the server told of, there or not, because something else is listened to.
    /// - isAssumed: everything was written here and confirmed, and the server has not told of it yet.
    case parts(told: Set<Key>, isAssumed: Bool)
    /// The children that the query shows, and of no others whether they exist.
    case filtered
    /// All of it.
    case whole
  }

  private(set) var tree: Tree
  private(set) var extent: Extent

  /// Nothing known.
  init(_ plan: IndexPlan) {
    tree = Tree(root: .absent, indexPlan: plan)
    extent = .parts(told: [], isAssumed: false)
  }

  /// All of it known.
  init(whole node: Node, _ plan: IndexPlan) {
    tree = Tree(root: node, indexPlan: plan)
    extent = .whole
  }

  /// What a query shows is known.
  init(filtered node: Node, _ plan: IndexPlan) {
    tree = Tree(root: node, indexPlan: plan)
    extent = .filtered
  }

  var root: Node { tree.root }

  /// Whether the query can be answered.
  var isReady: Bool { extent == .filtered || extent == .whole }

  /// Whether nothing at all is known.
  var isEmpty: Bool {
    extent == .parts(told: [], isAssumed: false) && root.isAbsent
  }

  /// Whether a child is known completely, be it there or not.
  func knows(_ key: Key) -> Bool {
    switch extent {
    case .whole, .parts(_, isAssumed: true): true
    case .filtered: !root.child(key).isAbsent
    case .parts(let told, _): told.contains(key) || !root.child(key).isAbsent
    }
  }

  /// Notes children that the server told of to other listeners.
  mutating func tell(_ children: [(key: Key, node: Node)]) {
    guard case .parts(var told, let isAssumed) = extent else { return }
    for (key, node) in children {
      told.insert(key)
      tree.apply([Assignment(Path.root.child(key), node)])
    }
    extent = .parts(told: told, isAssumed: isAssumed)
  }
}

/// What a step did to a cache.
enum CacheChange {
  case nothing
  /// Only these places, from the root down, may differ.
  case places([Path])
  case everything
}

extension ServerCache {
  /// Takes what the server says.
  ///
  /// - Parameters:
  ///   - assignments: from the root down; those elsewhere count for nothing.
  ///   - isNarrow: whether they are of just what `spec` shows.
  ///   - patched: where the server had sent data before, to which this adds; nil for new data.
  mutating func apply(
    _ assignments: [Assignment], of spec: QuerySpec, isNarrow: Bool, patched: Path?
  ) -> CacheChange {
    if let patched, patched == spec.path, isEmpty {
      // Meant for an earlier listen, whose data is not here any more.
      return .nothing
    }
    var below: [Assignment] = []
    var places: [Path] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, let rest = spec.path.relative(to: location.path) {
        replace(assignment.value.at(rest), spec.query, isNarrow: isNarrow)
        return .everything
      }
      guard let rest = location.path.relative(to: spec.path), accepts(rest, location.isPriority)
      else { continue }
      below.append(Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
      places.append(location.path)
    }
    guard !below.isEmpty else { return .nothing }
    let old = root
    tree.apply(below)
    if extent == .filtered {
      for key in evict(old, touched: Set(below.compactMap(\.location.path.keys.first)), spec.query)
      {
        places.append(spec.path.child(key))
      }
    }
    return .places(places)
  }

  private mutating func replace(_ node: Node, _ query: Query, isNarrow: Bool) {
    let isFiltered = isNarrow && !query.isUnbounded
    let shown = isFiltered ? query.value(of: node) : node
    tree = Tree(root: shown, indexPlan: tree.indexPlan)
    extent = isFiltered ? .filtered : .whole
  }

  /// Whether what the server says of a place below is of use: a whole child always is, a part only of
  /// what is known otherwise.
  private mutating func accepts(_ rest: Path, _ isPriority: Bool) -> Bool {
    guard let key = rest.keys.first, extent != .whole else { return true }
    guard rest.count == 1, !isPriority else { return knows(key) }
    if case .parts(var told, let isAssumed) = extent {
      told.insert(key)
      extent = .parts(told: told, isAssumed: isAssumed)
    }
    return true
  }

  /// Forgets children that the query does not show any more: the server does not tell of them.
  private mutating func evict(_ old: Node, touched: Set<Key>, _ query: Query) -> [Key] {
    var gone: [Key] = []
    var added: Set<Key> = []
    for change in query.changes(from: old, to: root) {
      switch change.kind {
      case .removed where !root.child(change.key).isAbsent: gone.append(change.key)
      case .added: added.insert(change.key)
      default: break
      }
    }
    for key in touched.sorted()
    where old.child(key).isAbsent && !root.child(key).isAbsent && !added.contains(key) {
      gone.append(key)
    }
    if !gone.isEmpty { tree.apply(gone.map { Assignment(Path.root.child($0), .absent) }) }
    return gone
  }

  /// Takes what was written here and confirmed where the server has not told of it, so that it stays
  /// seen. The server's answer to the listen, which is on its way, replaces it.
  mutating func settle(_ assignments: [Assignment], of spec: QuerySpec) -> CacheChange {
    guard case .parts(let told, let isAssumed) = extent else { return .nothing }
    var below: [Assignment] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, let rest = spec.path.relative(to: location.path) {
        let known = told.sorted().map { Assignment(Path.root.child($0), root.child($0)) }
        tree = Tree(root: assignment.value.at(rest), indexPlan: tree.indexPlan)
        tree.apply(known)
        extent = .parts(told: told, isAssumed: true)
        return .everything
      }
      guard let rest = location.path.relative(to: spec.path) else { continue }
      if let key = rest.keys.first {
        guard !told.contains(key) else { continue }
        guard knows(key) || (rest.count == 1 && !location.isPriority) else { continue }
      } else if !isAssumed {
        continue
      }
      below.append(Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
    }
    guard !below.isEmpty else { return .nothing }
    tree.apply(below)
    return .places(below.map { spec.path.appending($0.location.path) })
  }
}
