/// Which indexes are kept where: patterns of locations, with the orders of their children.
///
/// Declared ones come from the application and from `.indexOn`; others are added the first time that
/// a query needs them. A pattern may have wildcards (`/user-posts/$uid`). A value type; looking up a
/// location costs O(depth).
public struct IndexPlan: Sendable, Equatable {
  /// What is declared at one level, and below it.
  struct Level: Sendable, Equatable {
    var orders: [Order] = []
    var exact: [Key: Level] = [:]
    /// The level of all children that are not in `exact`; an array of one or none, as a struct cannot
    /// hold itself.
    var wildcard: [Level] = []

    func child(_ key: Key) -> Level? { exact[key] ?? wildcard.first }

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
        var level = child(key) ?? Level()
        level.add(order, at: rest)
        exact[key] = level
      } else {
        for key in exact.keys { exact[key]?.add(order, at: rest) }
        var level = wildcard.first ?? Level()
        level.add(order, at: rest)
        wildcard = [level]
      }
    }

    /// Gives a node that takes this place the indexes of this level.
    func attachHere(_ node: inout Node) {
      for order in orders { node.addIndex(order) }
    }

    /// Gives a node that takes this place the indexes of this level and those below. O(size of what
    /// the plan covers).
    func attach(_ node: inout Node) {
      attachHere(&node)
      guard node.isBranch else { return }
      for (key, level) in exact where !node.child(key).isAbsent {
        node.modifyChild(key) { level.attach(&$0) }
      }
      guard let level = wildcard.first else { return }
      var keys: [Key] = []
      node.forEachChild { key, child in
        if child.isBranch, exact[key] == nil { keys.append(key) }
        return true
      }
      for key in keys { node.modifyChild(key) { level.attach(&$0) } }
    }
  }

  private(set) var root = Level()

  /// A plan without indexes.
  public init() {}

  /// Declares an index.
  ///
  /// - Parameters:
  ///   - order: of the children there. By key there is nothing to keep.
  ///   - pattern: the keys of the location; nil stands for any key.
  public mutating func declare(_ order: Order, at pattern: [Key?]) {
    if order != .key { root.add(order, at: pattern[...]) }
  }

  /// Declares all that another plan does.
  public mutating func formUnion(_ other: IndexPlan) {
    other.root.forEach(at: []) { declare($0, at: $1) }
  }

  /// Whether an index of this order is kept at a location. By key none is needed.
  public func declares(_ order: Order, at path: Path) -> Bool {
    var level: Level? = root
    for key in path.keys { level = level?.child(key) }
    return order == .key || level?.orders.contains(order) == true
  }
}
