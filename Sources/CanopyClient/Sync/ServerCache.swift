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
  /// Of a filtered cache: the children that were told of to other listeners only, and that the query
  /// shows. Those of which its own listen tells, that listen also takes away.
  private var extras: Set<Key> = []
  /// Whether something else told of it after its own listen did.
  private var isAhead = false

  /// Whether it is what its own listen has told, and nothing else: what changed after the commit of
  /// which that told last brings it up to date.
  var isExact: Bool { extras.isEmpty && !isAhead }

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
    // Releases the other reference to the set, so that it is not copied.
    extent = .whole
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
      isAhead = !isNarrow
      let touched = Set(below.compactMap(\.location.path.keys.first))
      if isNarrow { extras.subtract(touched) }
      for key in evict(old, isNarrow ? [] : touched, spec.query) {
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
    extras = []
    isAhead = false
  }

  /// Whether what the server says of a place below is of use: a whole child always is, a part only of
  /// what is known otherwise.
  private mutating func accepts(_ rest: Path, _ isPriority: Bool) -> Bool {
    guard let key = rest.keys.first, extent != .whole else { return true }
    guard rest.count == 1, !isPriority else { return knows(key) }
    if case .parts(var told, let isAssumed) = extent {
      // Releases the other reference to the set, so that it is not copied for each child.
      extent = .whole
      told.insert(key)
      extent = .parts(told: told, isAssumed: isAssumed)
    }
    return true
  }

  /// Forgets children of which only other listens tell and that the query does not show: its own listen
  /// will not tell of them. What its own listen told of stays until that takes it away, also where
  /// something seems to have taken its place: other listens may be ahead.
  ///
  /// - Parameter others: children of which another listen has just told.
  private mutating func evict(_ old: Node, _ others: Set<Key>, _ query: Query) -> [Key] {
    let new = others.filter { old.child($0).isAbsent && !root.child($0).isAbsent }
    guard !new.isEmpty || !extras.isEmpty else { return [] }
    extras.formUnion(new)
    var gone = new
    for change in query.changes(from: old, to: root) {
      if change.kind == .removed, extras.contains(change.key) { gone.insert(change.key) }
      if change.kind == .added { gone.remove(change.key) }
    }
    extras.subtract(gone)
    let present = gone.sorted().filter { !root.child($0).isAbsent }
    if !present.isEmpty { tree.apply(present.map { Assignment(Path.root.child($0), .absent) }) }
    return present
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
