/// The indexes to keep: patterns of locations, with the orders of their children.
///
/// Indexes are declared by the application and by `.indexOn`; others are added the first time that
/// a query needs them. A pattern may have wildcards (`/user-posts/$uid`). A location keeps the
/// indexes of every pattern that matches it.
///
/// The patterns form a trie, so the plan is at most as large as the text that declares it. Several
/// patterns may match one location: a lookup costs O(depth × matching levels). Usually one matches.
public struct IndexPlan: Sendable, Equatable {
  /// The declarations of all patterns with the same prefix: at this level and below.
  struct Level: Sendable, Equatable {
    var orders: [Order] = []
    var exact: [Key: Level] = [:]
    /// The level of a wildcard: an array of at most one, because a struct cannot contain itself.
    var wildcard: [Level] = []

    /// Calls `body` with each order and the pattern that declares it.
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

    /// The most orders of one location by its depth below this one, or more.
    var ordersMax: [Int] {
      var below: [Int] = []
      for level in exact.values { below = IndexPlan.merge(below, level.ordersMax, max) }
      for level in wildcard { below = IndexPlan.merge(below, level.ordersMax, +) }
      return [orders.count] + below
    }

    /// The number of levels, this one included.
    var count: Int {
      exact.values.reduce(1 + (wildcard.first?.count ?? 0)) { $0 + $1.count }
    }
  }

  /// The levels that match one location; at least one. A single match needs no allocation.
  struct Matches: Equatable {
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

    /// Returns the levels that match a child of the location; nil if none does.
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

    /// The orders of the children at this location, without duplicates.
    var orders: [Order] {
      var orders = first.orders
      for level in others {
        for order in level.orders where !orders.contains(order) { orders.append(order) }
      }
      return orders
    }

    /// Adds the indexes of this location to its node, without those below.
    func attachHere(_ node: inout Node) {
      for order in first.orders { node.addIndex(order) }
      for level in others {
        for order in level.orders { node.addIndex(order) }
      }
    }

    /// Adds the indexes of this location and of all locations below it to its node.
    ///
    /// - Complexity: O(size of the subtrees that the plan covers).
    func attach(_ node: inout Node) {
      attachHere(&node)
      guard node.isBranch else { return }
      for key in matchingKeys(of: node) {
        let child = child(key)
        node.modifyChild(key) { child?.attach(&$0) }
      }
    }

    /// Adds the indexes of this location and of the locations on a path below it.
    ///
    /// - Complexity: O(depth × log n), besides the indexes that are added.
    func attach(_ node: inout Node, along keys: ArraySlice<Key>) {
      attachHere(&node)
      guard node.isBranch, let key = keys.first, let child = child(key) else { return }
      node.modifyChild(key) { child.attach(&$0, along: keys.dropFirst()) }
    }

    /// Returns the keys of the children that may need indexes at or below them.
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

  private static func merge(_ a: [Int], _ b: [Int], _ body: (Int, Int) -> Int) -> [Int] {
    (0..<max(a.count, b.count)).map { depth in
      body(depth < a.count ? a[depth] : 0, depth < b.count ? b[depth] : 0)
    }
  }

  /// Creates a plan without indexes.
  public init() {}

  /// The most indexes that one location may keep, or more.
  ///
  /// - Complexity: O(levels × depth).
  var ordersMax: Int { root.ordersMax.max() ?? 0 }

  /// The number of levels: one for the root, and one for each distinct prefix of the patterns.
  ///
  /// - Complexity: O(levels).
  public var levelCount: Int { root.count }

  /// The levels that match the root.
  var matches: Matches { Matches(root) }

  /// Declares an index.
  ///
  /// - Parameters:
  ///   - order: the order of the children. Key order needs no index and is ignored.
  ///   - pattern: the keys of the location; nil stands for any key.
  /// - Complexity: O(length of the pattern).
  public mutating func declare(_ order: Order, at pattern: [Key?]) {
    if order != .key { root.add(order, at: pattern[...]) }
  }

  /// Adds all declarations of another plan.
  ///
  /// - Complexity: O(declarations of `other`).
  public mutating func formUnion(_ other: IndexPlan) {
    other.root.forEach(at: []) { declare($0, at: $1) }
  }

  /// Whether a location keeps an index of this order. Key order needs no index.
  public func declares(_ order: Order, at path: Path) -> Bool {
    order == .key || matches(at: path)?.orders.contains(order) == true
  }

  /// The levels that match a location; nil if there are none.
  func matches(at path: Path) -> Matches? {
    var matches: Matches? = matches
    for key in path.keys { matches = matches?.child(key) }
    return matches
  }

  /// Returns the number of entries that the assignments of an update may change: one for each location, and one in each
  /// index of a branch above it. The branches above the common path count once.
  ///
  /// - Parameters:
  ///   - path: the common path.
  ///   - locations: the locations below it.
  /// - Complexity: O(keys of all paths).
  public func entriesChanged(below path: Path, by locations: some Sequence<Location>) -> Int {
    entries(above: path.keys[...], locations.lazy.map { $0.path.keys[...] })
  }

  /// Returns the number of entries that the assignments of a write may change. The branches above the path that all
  /// locations share count once.
  ///
  /// - Complexity: O(keys of all paths).
  public func entriesChanged(by write: Write) -> Int {
    guard let first = write.items.first?.location.path else { return 0 }
    let shared = write.items.reduce(first.count) {
      min($0, first.sharedCount(with: $1.location.path))
    }
    return entries(
      above: first.keys.prefix(shared),
      write.items.lazy.map { $0.location.path.keys.dropFirst(shared) })
  }

  private func entries(
    above shared: ArraySlice<Key>, _ locations: some Sequence<ArraySlice<Key>>
  ) -> Int {
    var matches: Matches? = matches
    var sum = 0
    for key in shared {
      sum += matches?.orders.count ?? 0
      matches = matches?.child(key)
    }
    for keys in locations { sum += entries(at: keys, below: matches) }
    return sum
  }

  private func entries(at keys: ArraySlice<Key>, below matches: Matches?) -> Int {
    var (sum, here) = (1, matches)
    for key in keys {
      guard let level = here else { break }
      sum += level.orders.count
      here = level.child(key)
    }
    return sum
  }

  /// Whether two locations keep the same indexes, at and below them.
  ///
  /// - Complexity: O(plan).
  func hasSameIndexes(at path: Path, _ other: Path) -> Bool {
    matches(at: path) == matches(at: other)
  }
}
