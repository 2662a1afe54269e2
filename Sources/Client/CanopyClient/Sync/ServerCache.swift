internal import CanopyTree

/// The server's data of a location, for one query.
///
/// Unknown data is never treated as absent: the cache distinguishes four extents.
struct ServerCache: Sendable {
  enum Extent: Sendable, Equatable {
    /// Some children, each completely.
    ///
    /// - reported: the children that other listens reported, present or absent.
    /// - isAssumed: whether local confirmed writes cover everything, and the server has not
    ///   reported the location yet.
    case parts(reported: Set<Key>, isAssumed: Bool)
    /// The query's result. Other children are unknown.
    case filtered
    /// The whole location.
    case whole
  }

  private(set) var tree: Tree
  private(set) var extent: Extent
  /// For a filtered cache: children in the result that only other listens reported. The query's own
  /// listen removes the children that it reported itself.
  private var extras: Set<Key> = []
  /// Whether another listen changed the cache after its own listen did.
  private var isAhead = false

  /// Whether the cache is exactly the data of its own listen, so that the changes after that
  /// listen's last commit bring it up to date.
  var isExact: Bool { extras.isEmpty && !isAhead }

  /// Creates a cache without data.
  init(_ plan: IndexPlan) {
    tree = Tree(root: .absent, indexPlan: plan)
    extent = .parts(reported: [], isAssumed: false)
  }

  /// Creates a cache of the whole location.
  init(whole node: Node, _ plan: IndexPlan) {
    tree = Tree(root: node, indexPlan: plan)
    extent = .whole
  }

  /// Creates a cache of the query's result.
  init(filtered node: Node, _ plan: IndexPlan) {
    tree = Tree(root: node, indexPlan: plan)
    extent = .filtered
  }

  var root: Node { tree.root }

  /// Whether the cache can answer the query.
  var isReady: Bool { extent == .filtered || extent == .whole }

  /// Whether there is no data at all.
  var isEmpty: Bool {
    extent == .parts(reported: [], isAssumed: false) && root.isAbsent
  }

  /// Whether a child is completely known, present or absent.
  func knows(_ key: Key) -> Bool {
    switch extent {
    case .whole, .parts(_, isAssumed: true): true
    case .filtered: !root.child(key).isAbsent
    case .parts(let reported, _): reported.contains(key) || !root.child(key).isAbsent
    }
  }

  /// Adds children that other listens reported.
  mutating func addReported(_ children: [(key: Key, node: Node)]) {
    guard case .parts(var reported, let isAssumed) = extent else { return }
    // Releases the other reference to the set, so that it is not copied.
    extent = .whole
    for (key, node) in children {
      reported.insert(key)
      tree.apply([Assignment(Path.root.child(key), node)])
    }
    extent = .parts(reported: reported, isAssumed: isAssumed)
  }
}

/// The effect of a step on a cache.
enum CacheChange {
  case nothing
  /// Only these locations, as absolute paths, may differ.
  case locations([Path])
  case everything
}

extension ServerCache {
  /// Applies data from the server.
  ///
  /// - Parameters:
  ///   - assignments: with absolute locations; those outside the query's location are ignored.
  ///   - isNarrow: whether they come from a listen to exactly `spec`.
  ///   - patched: the location of earlier data that this extends; nil for new data.
  mutating func apply(
    _ assignments: [Assignment], of spec: QuerySpec, isNarrow: Bool, patched: Path?
  ) -> CacheChange {
    if let patched, patched == spec.path, isEmpty {
      // The data was meant for an earlier listen and is gone.
      return .nothing
    }
    var below: [Assignment] = []
    var paths: [Path] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, let rest = spec.path.relative(to: location.path) {
        replace(assignment.value.at(rest), spec.query, isNarrow: isNarrow)
        return .everything
      }
      guard let rest = location.path.relative(to: spec.path), accepts(rest, location.isPriority)
      else { continue }
      below.append(Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
      paths.append(location.path)
    }
    guard !below.isEmpty else { return .nothing }
    let old = root
    tree.apply(below)
    if extent == .filtered {
      isAhead = !isNarrow
      let touched = Set(below.compactMap(\.location.path.keys.first))
      if isNarrow { extras.subtract(touched) }
      for key in evict(old, isNarrow ? [] : touched, spec.query) {
        paths.append(spec.path.child(key))
      }
    }
    return .locations(paths)
  }

  private mutating func replace(_ node: Node, _ query: Query, isNarrow: Bool) {
    let isFiltered = isNarrow && !query.isUnbounded
    let shown = isFiltered ? query.value(of: node) : node
    tree = Tree(root: shown, indexPlan: tree.indexPlan)
    extent = isFiltered ? .filtered : .whole
    extras = []
    isAhead = false
  }

  /// Whether the server's data at a path below is usable: a whole child always is, a part only if
  /// the rest is known.
  private mutating func accepts(_ rest: Path, _ isPriority: Bool) -> Bool {
    guard let key = rest.keys.first, extent != .whole else { return true }
    guard rest.count == 1, !isPriority else { return knows(key) }
    if case .parts(var reported, let isAssumed) = extent {
      // Releases the other reference to the set, so that it is not copied for each child.
      extent = .whole
      reported.insert(key)
      extent = .parts(reported: reported, isAssumed: isAssumed)
    }
    return true
  }

  /// Removes children that only other listens reported and that are outside the query's result: the
  /// query's own listen will not report them. Keeps children that its own listen reported until
  /// that listen removes them, even if others seem to have replaced them: other listens may be
  /// ahead.
  ///
  /// - Parameter others: the children that another listen has just reported.
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

  /// Applies local, confirmed assignments to data that the server has not reported yet, so that
  /// they stay visible. The pending reply to the listen replaces them.
  mutating func applyConfirmed(_ assignments: [Assignment], of spec: QuerySpec) -> CacheChange {
    guard case .parts(let reported, let isAssumed) = extent else { return .nothing }
    var below: [Assignment] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, let rest = spec.path.relative(to: location.path) {
        let known = reported.sorted().map { Assignment(Path.root.child($0), root.child($0)) }
        tree = Tree(root: assignment.value.at(rest), indexPlan: tree.indexPlan)
        tree.apply(known)
        extent = .parts(reported: reported, isAssumed: true)
        return .everything
      }
      guard let rest = location.path.relative(to: spec.path) else { continue }
      if let key = rest.keys.first {
        guard !reported.contains(key) else { continue }
        guard knows(key) || (rest.count == 1 && !location.isPriority) else { continue }
      } else if !isAssumed {
        continue
      }
      below.append(Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
    }
    guard !below.isEmpty else { return .nothing }
    tree.apply(below)
    return .locations(below.map { spec.path.appending($0.location.path) })
  }
}
