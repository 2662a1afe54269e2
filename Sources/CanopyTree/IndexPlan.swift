/// Which indexes are kept where: patterns of locations, with the orders of their children.
///
/// Declared ones come from the application and from `.indexOn`; others are added the first time that
/// a query needs them. A pattern may have wildcards (`/user-posts/$uid`); a location keeps the indexes of
/// every pattern that matches it. A value type.
///
/// The plan has a level for each key or wildcard of its patterns, those that begin alike sharing theirs:
/// its size is at most that of the text that declares it. Several patterns may match one location, so
/// looking up a location costs O(depth × matching levels); mostly one matches.
public struct IndexPlan: Sendable, Equatable {
  /// What is declared by patterns that begin with the same keys and wildcards: here and below.
  struct Level: Sendable, Equatable {
    var orders: [Order] = []
    var exact: [Key: Level] = [:]
    /// The level of a wildcard; an array of one or none, as a struct cannot hold itself.
    var wildcard: [Level] = []

    /// Calls `body` with each order, and the pattern at which it is declared.
    func forEach(at pattern: [Key?], _ body: (Order, [Key?]) -> Void) {
      for order in orders { body(order, pattern) }
      for level in wildcard { level.forEach(at: pattern + [nil], body) }
      for (key, level) in exact { level.forEach(at: pattern + [key], body) }
    }

    mutating func add(_ order: Order, at pattern: ArraySlice<Key?>) {
      guard let first = pattern.first else {
        if !orders.contains(order) { orders.append(order) }
        return
      }
      let rest = pattern.dropFirst()
      if let key = first {
        exact[key, default: Level()].add(order, at: rest)
      } else {
        if wildcard.isEmpty { wildcard.append(Level()) }
        wildcard[0].add(order, at: rest)
      }
    }

    /// The number of levels, this one included.
    var count: Int {
      exact.values.reduce(1 + (wildcard.first?.count ?? 0)) { $0 + $1.count }
    }
  }

  /// The levels that match one location, at least one. Nothing is allocated for one.
  struct Matches {
    private let first: Level
    private let others: [Level]

    init(_ level: Level) {
      first = level
      others = []
    }

    private init?(_ levels: [Level]) {
      guard let first = levels.first else { return nil }
      self.first = first
      others = Array(levels.dropFirst())
    }

    /// The levels that match a child of the location; nil if none does.
    func child(_ key: Key) -> Matches? {
      if others.isEmpty {
        let wildcard = first.wildcard.first
        guard !first.exact.isEmpty, let exact = first.exact[key] else {
          return wildcard.map { Matches($0) }
        }
        return wildcard.map { Matches([exact, $0]) } ?? Matches(exact)
      }
      var levels: [Level] = []
      forEach { level in
        if let exact = level.exact[key] { levels.append(exact) }
        if let wildcard = level.wildcard.first { levels.append(wildcard) }
      }
      return Matches(levels)
    }

    private func forEach(_ body: (Level) -> Void) {
      body(first)
      for level in others { body(level) }
    }

    /// The orders of the children there, each once.
    var orders: [Order] {
      var orders = first.orders
      for level in others {
        for order in level.orders where !orders.contains(order) { orders.append(order) }
      }
      return orders
    }

    /// Gives a node that takes this place its indexes, without those below.
    func attachHere(_ node: inout Node) {
      for order in first.orders { node.addIndex(order) }
      for level in others {
        for order in level.orders { node.addIndex(order) }
      }
    }

    /// Gives a node that takes this place its indexes and those below. O(size of what the plan covers).
    func attach(_ node: inout Node) {
      attachHere(&node)
      guard node.isBranch else { return }
      for key in matchingKeys(of: node) {
        let child = child(key)
        node.modifyChild(key) { child?.attach(&$0) }
      }
    }

    /// The keys of the children below which indexes may be wanted, each once.
    private func matchingKeys(of node: Node) -> [Key] {
      var keys: [Key] = []
      if first.wildcard.isEmpty, others.allSatisfy({ $0.wildcard.isEmpty }) {
        var named = Set(first.exact.keys)
        for level in others { named.formUnion(level.exact.keys) }
        keys += named.filter { node.child($0).isBranch }
      } else {
        node.forEachChild { key, child in
          if child.isBranch { keys.append(key) }
          return true
        }
      }
      return keys
    }
  }

  private(set) var root = Level()

  /// A plan without indexes.
  public init() {}

  /// The number of levels: one for the root, and one for each key or wildcard of the patterns, which
  /// patterns that begin alike share. O(levels).
  public var levelCount: Int { root.count }

  /// The levels that match the root.
  var matches: Matches { Matches(root) }

  /// Declares an index. O(length of the pattern).
  ///
  /// - Parameters:
  ///   - order: of the children there. By key there is nothing to keep.
  ///   - pattern: the keys of the location; nil stands for any key.
  public mutating func declare(_ order: Order, at pattern: [Key?]) {
    if order != .key { root.add(order, at: pattern[...]) }
  }

  /// Declares all that another plan does. O(what that declares).
  public mutating func formUnion(_ other: IndexPlan) {
    other.root.forEach(at: []) { declare($0, at: $1) }
  }

  /// Whether an index of this order is kept at a location. By key none is needed.
  public func declares(_ order: Order, at path: Path) -> Bool {
    if order == .key { return true }
    var matches: Matches? = matches
    for key in path.keys { matches = matches?.child(key) }
    return matches?.orders.contains(order) == true
  }
}
