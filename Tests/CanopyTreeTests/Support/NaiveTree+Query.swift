import CanopyTree

extension NaiveTree {
  /// What a child is ordered by, then its key. Ranks: missing, bools, numbers, strings, objects.
  private func compare(
    _ a: (value: NaiveTree, key: NaiveKey?), _ b: (value: NaiveTree, key: NaiveKey?)
  ) -> Int {
    func rank(_ tree: NaiveTree) -> Int { tree.isAbsent ? 0 : tree.leaf == nil ? 2 : 1 }
    if rank(a.value) != rank(b.value) { return rank(a.value) - rank(b.value) }
    if let x = a.value.leaf, let y = b.value.leaf {
      let order = NaiveLeaf.compare(x, y)
      if order != 0 { return order }
    }
    guard let x = a.key, let y = b.key else { return 0 }
    return x < y ? -1 : x == y ? 0 : 1
  }

  private func orderValue(_ child: NaiveTree, _ order: Order) -> NaiveTree {
    switch order {
    case .key: NaiveTree()
    case .value: child
    case .priority: child.priority.map { NaiveTree($0) } ?? NaiveTree()
    case .child(let path): child[path.keys.map { NaiveKey($0) }]
    }
  }

  /// The keys that a query selects, in its order.
  func keys(of query: Query) -> [NaiveKey] {
    func bound(_ bound: Query.Bound) -> (value: NaiveTree, key: NaiveKey?) {
      let value: NaiveTree =
        switch bound.value {
        case _ where query.order == .key: NaiveTree()
        case .absent: NaiveTree()
        case .bool(let value): NaiveTree(.bool(value))
        case .integer(let value): NaiveTree(.integer(value))
        case .double(let value): NaiveTree(NaiveLeaf(value))
        case .string(let value): NaiveTree(.string(value))
        }
      return (value, bound.key.map { NaiveKey($0) })
    }
    var all = keys.map { (value: orderValue(self[[$0]], query.order), key: Optional($0)) }
    all.sort { compare($0, $1) < 0 }
    all = all.filter { position in
      if let lower = query.lower {
        let order = compare(position, bound(lower))
        if order < 0 || (order == 0 && !lower.isInclusive) { return false }
      }
      if let upper = query.upper {
        let order = compare(position, bound(upper))
        if order > 0 || (order == 0 && !upper.isInclusive) { return false }
      }
      return true
    }
    let keys = all.compactMap(\.key)
    switch query.limit {
    case .first(let n): return Array(keys.prefix(n))
    case .last(let n): return Array(keys.suffix(n))
    case nil: return keys
    }
  }
}
