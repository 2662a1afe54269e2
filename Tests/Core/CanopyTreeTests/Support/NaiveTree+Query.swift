import CanopyTree

extension NaiveTree {
  /// A position in an order; without a key, any position with the value.
  struct Position {
    var value: NaiveTree
    var key: NaiveKey?

    /// Compares by value (absent, bools, numbers, strings, objects), then by key.
    static func compare(_ a: Position, _ b: Position) -> Int {
      func rank(_ tree: NaiveTree) -> Int { tree.isAbsent ? 0 : tree.leaf == nil ? 2 : 1 }
      if rank(a.value) != rank(b.value) { return rank(a.value) - rank(b.value) }
      if let x = a.value.leaf, let y = b.value.leaf {
        let order = NaiveLeaf.compare(x, y)
        if order != 0 { return order }
      }
      guard let x = a.key, let y = b.key else { return 0 }
      return x < y ? -1 : x == y ? 0 : 1
    }

    init(value: NaiveTree, key: NaiveKey?) {
      (self.value, self.key) = (value, key)
    }

    init(_ bound: Query.Bound, _ order: Order) {
      value =
        switch bound.value {
        case _ where order == .key: NaiveTree()
        case .absent: NaiveTree()
        case .bool(let value): NaiveTree(.bool(value))
        case .integer(let value): NaiveTree(.integer(value))
        case .double(let value): NaiveTree(NaiveLeaf(value))
        case .string(let value): NaiveTree(.string(value))
        }
      key = bound.key.map { NaiveKey($0) }
    }
  }

  /// Returns the positions of all children, in order.
  func positions(_ order: Order) -> [Position] {
    keys.map { key in
      let child = self[[key]]
      let value: NaiveTree =
        switch order {
        case .key: NaiveTree()
        case .value: child
        case .priority: child.priority.map { NaiveTree($0) } ?? NaiveTree()
        case .child(let path): child[path.keys.map { NaiveKey($0) }]
        }
      return Position(value: value, key: key)
    }.sorted { Position.compare($0, $1) < 0 }
  }

  /// Returns the keys that a query selects, in its order.
  func keys(of query: Query) -> [NaiveKey] {
    NaiveTree.keys(of: query, from: positions(query.order))
  }

  /// Returns the keys that a query selects from the positions in its order.
  static func keys(of query: Query, from positions: [Position]) -> [NaiveKey] {
    let lower = query.lower.map { Position($0, query.order) }
    let upper = query.upper.map { Position($0, query.order) }
    let inRange = positions.filter { position in
      if let lower {
        let order = Position.compare(position, lower)
        if order < 0 || (order == 0 && query.lower?.isInclusive == false) { return false }
      }
      if let upper {
        let order = Position.compare(position, upper)
        if order > 0 || (order == 0 && query.upper?.isInclusive == false) { return false }
      }
      return true
    }
    let keys = inRange.compactMap(\.key)
    switch query.limit {
    case .first(let n): return Array(keys.prefix(n))
    case .last(let n): return Array(keys.suffix(n))
    case nil: return keys
    }
  }
}
