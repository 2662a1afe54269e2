import CanopyTesting
import Testing

@testable import CanopyTree

/// Queries select the same children as the naive tree, with and without an index.
struct QueryModelTests {
  static let orders: [Order] = [.key, .value, .priority, .child("v"), .child("a/b")]

  /// Children with each kind of value, several of some.
  static let values: [Node] = [
    .absent, false, true, -1, 0, 1, 1, "", "a", "a", "\u{1F333}", "\u{FFFD}", .of(["x": 1]),
    .of(["x": 2]), Node(.min), Node(.max), Node(0.5) ?? 0, Node(0x1p63) ?? 0,
  ]

  static let keys: [Key] = [
    "3", "10", "-1", "b", "a", "c", "A", "é", "-OaBcDeFgHiJkLmNoPqR", "-OaBcDeFgHiJkLmNoPqS", "z",
    "\u{1F333}", "\u{FFFD}", "007", "2147483647", "2147483648", "k", "aa",
  ]

  /// The values as children, as `v` and `a/b` of children, and as priorities.
  static let trees: [Node] = {
    let children = zip(keys, values)
    return [
      Node(children: children.map { ($0, $1) }),
      Node(children: children.map { ($0, Node.of(["v": $1, "x": 0])) }),
      Node(children: children.map { ($0, Node.of(["a": .of(["b": $1]), "x": 0])) }),
      Node(
        children: children.map { key, value in
          (key, Node(true).withPriority(value.isBranch || value.boolValue != nil ? .absent : value))
        }),
    ]
  }()

  static let bounds: [Query.Bound?] = {
    let values: [BoundValue] = [
      .absent, .bool(false), .bool(true), .integer(-1), .integer(1), .double(0.5), .double(0x1p63),
      .string([]), .string(Array("a".utf8)), .string(Array("\u{1F333}".utf8)), .integer(.max),
    ]
    let keys: [Key?] = [nil, "-5", "3", "a", "b", "zz"]
    var bounds: [Query.Bound?] = [nil]
    for value in values {
      for key in keys {
        for isInclusive in [true, false] {
          bounds.append(Query.Bound(value, key: key, isInclusive: isInclusive))
        }
      }
    }
    return bounds
  }()

  static let limits: [Query.Limit?] = [nil, .first(1), .first(3), .last(1), .last(4), .first(99)]

  private func check(
    _ query: Query, _ node: Node, _ indexed: Node, _ positions: [NaiveTree.Position]
  ) throws {
    let expected = NaiveTree.keys(of: query, from: positions)
    for node in [node, indexed] {
      let children = query.children(of: node)
      let agrees =
        children.map { NaiveKey($0.key) } == expected && query.count(in: node) == expected.count
        && children.allSatisfy { $0.node == node.child($0.key) }
        && visited(query, node, max: .max) == expected
        && visited(query, node, max: 2) == Array(expected.prefix(2))
      guard agrees, query.isIndexed(in: indexed) else {
        try #require(Bool(false), "\(query) of \(node.json(.export)) gives \(children)")
        return
      }
    }
  }

  /// Returns the keys of the first children that a walk visits, at most `max`; nil if it does not say
  /// whether it visited all.
  private func visited(_ query: Query, _ node: Node, max: Int) -> [NaiveKey]? {
    var keys: [NaiveKey] = []
    let isWhole = query.forEachChild(of: node) { key, child in
      keys.append(NaiveKey(key))
      return child == node.child(key) && keys.count < max
    }
    return isWhole == (keys.count < max) ? keys : nil
  }

  @Test(arguments: orders)
  func `every bound on either side, and equality, with every limit`(order: Order) throws {
    for tree in Self.trees {
      let positions = NaiveTree(tree).positions(order)
      var indexed = tree
      indexed.addIndex(order)
      for bound in Self.bounds where order != .key || bound == nil || bound?.key != nil {
        for limit in Self.limits where bound?.key == nil || limit == nil || bound?.key == "b" {
          try check(Query(order: order, lower: bound, limit: limit), tree, indexed, positions)
          try check(Query(order: order, upper: bound, limit: limit), tree, indexed, positions)
          try check(
            Query(order: order, lower: bound, upper: bound, limit: limit), tree, indexed, positions)
        }
      }
    }
  }

  @Test func `random ranges of random trees`() throws {
    try withSeed { random in
      for _ in 0..<2000 {
        let model = random.tree(height: 2)
        let order = random.pick(
          [.key, .value, .priority, .child("a"), .child("0"), .child("a/b")] as [Order])
        func bound() -> Query.Bound? {
          if random.oneIn(3) { return nil }
          let leaf = random.oneIn(5) ? Node.absent : random.leaf().node
          let key = order == .key || random.oneIn(2) ? Key.of(random.key().description) : nil
          return Query.Bound(
            BoundValue(leaf) ?? .absent, key: key, isInclusive: random.oneIn(2))
        }
        let n = 1 + random.below(4)
        let query = try Query(
          order: order, lower: bound(), upper: bound(),
          limit: random.pick([nil, .first(n), .last(n)]))
        let node = model.node
        var indexed = node
        indexed.addIndex(order)
        try check(query, node, indexed, model.positions(order))
      }
    }
  }

  @Test func `a large branch with many pages of index`() throws {
    try withSeed { random in
      var node = Node(
        children: (0..<3000).map { (Key(index: $0), Node.of(["v": Node(Int64($0 * 7 % 100))])) })
      node.addIndex(.child("v"))
      for _ in 0..<200 {
        let path = Path.root.child(Key(index: Int32(random.below(3000)))).child("v")
        node.set(Node(Int64(random.below(100))), at: path)
      }
      #expect(node.brokenInvariant() == nil)
      var all: [(value: Int64, key: Int32)] = []
      node.forEachChild { key, child in
        all.append((child.child("v").integerValue ?? 0, key.integer ?? 0))
        return true
      }
      all.sort { $0 < $1 }
      for _ in 0..<100 {
        let (low, high) = (Int64(random.below(100)), Int64(random.below(100)))
        let n = 1 + random.below(200)
        let inRange = all.filter { $0.value >= low && $0.value < high }
        for limit in [Query.Limit.first(n), .last(n)] {
          let query = try Query(
            order: .child("v"), lower: .init(.integer(low)),
            upper: .init(.integer(high), isInclusive: false), limit: limit)
          let keys = query.children(of: node).map { $0.key.integer }
          let expected = limit == .first(n) ? inRange.prefix(n) : inRange.suffix(n)
          try #require(keys == expected.map(\.key))
          try #require(query.count(in: node) == expected.count)
        }
      }
    }
  }

  @Test func `a large branch in which some, most and all children have priorities`() throws {
    try withSeed { random in
      let count = 600
      for share in [1, 20, 97, 100] {
        var priorities = (0..<count).map { _ in random.below(100) < share ? random.below(5) : nil }
        var node = Node(children: (0..<count).map { (Key(index: Int32($0)), Node(true)) })
        func child(_ key: Int) -> Node {
          Node(true).withPriority(priorities[key].map { Node(Int64($0)) } ?? .absent)
        }
        for key in 0..<count { node.set(child(key), at: Path.root.child(Key(index: Int32(key)))) }
        // Priorities that come and go.
        for _ in 0..<20 {
          let key = random.below(count)
          priorities[key] = priorities[key] == nil ? 2 : nil
          node.set(child(key), at: Path.root.child(Key(index: Int32(key))))
        }
        try #require(node.brokenInvariant() == nil)
        let all = (0..<count).sorted { (priorities[$0] ?? -1, $0) < (priorities[$1] ?? -1, $1) }
        for round in 0..<30 {
          func bound() -> (query: Query.Bound, value: Int, key: Int)? {
            if random.oneIn(3) { return nil }
            let (value, key) = (random.below(6) - 1, random.below(count))
            return (
              Query.Bound(
                value < 0 ? .absent : .integer(Int64(value)), key: Key(index: Int32(key))),
              value, key
            )
          }
          let (low, high) = (bound(), bound())
          let inRange = all.filter { key in
            let position = (priorities[key] ?? -1, key)
            return (low.map { position >= ($0.value, $0.key) } ?? true)
              && (high.map { position <= ($0.value, $0.key) } ?? true)
          }
          let n = 1 + random.below(round % 2 == 0 ? 20 : count)
          for limit in [nil, Query.Limit.first(n), .last(n)] {
            let query = try Query(lower: low?.query, upper: high?.query, limit: limit)
            let expected =
              switch limit {
              case .first: Array(inRange.prefix(n))
              case .last: Array(inRange.suffix(n))
              case nil: inRange
              }
            let keys = expected.map { NaiveKey(Key(index: Int32($0))) }
            try #require(query.children(of: node).map { NaiveKey($0.key) } == keys)
            try #require(query.count(in: node) == keys.count)
            try #require(visited(query, node, max: .max) == keys)
            try #require(visited(query, node, max: 3) == Array(keys.prefix(3)))
            let window = QueryWindow(query, of: node)
            try #require(window.ranks.count == keys.count)
            let shown = Set(expected)
            for key in 0..<count where key % 7 == round % 7 {
              let position = window.position(of: Key(index: Int32(key)), child(key))
              try #require(window.contains(position) == shown.contains(key))
            }
            if expected.count > 1 {
              let rank = 1 + random.below(expected.count - 1)
              let key = expected[rank]
              let position = window.position(of: Key(index: Int32(key)), child(key))
              try #require(
                window.previous(to: position) == Key(index: Int32(expected[rank - 1])))
            }
          }
        }
      }
    }
  }

  @Test func `a leaf and an absent node have no children`() throws {
    for node: Node in [.absent, 1, "x", Node(1).withPriority(1)] {
      for order in Self.orders {
        let query = try Query(order: order, limit: .first(5))
        #expect(query.children(of: node).isEmpty)
        #expect(query.count(in: node) == 0)
        #expect(query.isIndexed(in: node))
      }
    }
  }

  @Test func `a branch with a priority is queried like one without`() throws {
    for tree in Self.trees {
      for order in Self.orders {
        let query = try Query(order: order, limit: .last(5))
        #expect(
          query.children(of: tree.withPriority(1)).map(\.key)
            == query.children(of: tree).map(\.key))
      }
    }
  }
}
