import CanopyTesting
import Testing

@testable import CanopyTree

/// The changes of a query's result equal those found by comparing complete lists.
struct ChildChangeTests {
  private typealias Entry = (key: Key, node: Node)

  /// Returns the changes by comparing lists: slow and obviously correct.
  private func naive(_ query: Query, _ before: [Entry], _ after: [Entry]) -> [ChildChange] {
    func find(_ key: Key, _ list: [Entry]) -> Node? { list.first { $0.key == key }?.node }
    func change(_ kind: ChildChange.Kind, _ i: Int) -> ChildChange {
      ChildChange(
        kind: kind, key: after[i].key, node: after[i].node,
        previous: i == 0 ? nil : after[i - 1].key)
    }
    let removed = before.filter { find($0.key, after) == nil }.map {
      ChildChange(kind: .removed, key: $0.key, node: $0.node, previous: nil)
    }
    let added = after.indices.filter { find(after[$0].key, before) == nil }
    let changed = after.indices.filter { i in
      find(after[i].key, before).map { $0 != after[i].node } ?? false
    }
    let moved = changed.filter { i in
      find(after[i].key, before).map {
        query.order.value(of: $0) != query.order.value(of: after[i].node)
      } ?? false
    }
    return removed + added.map { change(.added, $0) } + moved.map { change(.moved, $0) }
      + changed.map { change(.changed, $0) }
  }

  /// Applies changes to an earlier list.
  private func replay(_ changes: [ChildChange], on list: [Entry]) throws -> [Entry] {
    var list = list
    func insert(_ change: ChildChange) throws {
      var index = 0
      if let previous = change.previous {
        index = try #require(list.firstIndex { $0.key == previous }) + 1
      }
      list.insert((change.key, change.node), at: index)
    }
    // Neighbours are those of the result: first remove all moved and removed children, then insert
    // from the front.
    let leaving = changes.filter { $0.kind == .removed || $0.kind == .moved }.map(\.key)
    list.removeAll { entry in leaving.contains(entry.key) }
    var arriving = changes.filter { $0.kind == .added || $0.kind == .moved }
    while !arriving.isEmpty {
      let i = try #require(
        arriving.firstIndex { change in
          change.previous.map { key in list.contains { $0.key == key } } ?? true
        })
      try insert(arriving.remove(at: i))
    }
    for change in changes where change.kind == .changed {
      let i = try #require(list.firstIndex { $0.key == change.key })
      list[i].node = change.node
    }
    return list
  }

  private func randomQuery(_ random: inout SeededRandom) throws -> Query {
    let path = Path.root.child("a").child("b")
    let order: Order = random.pick([
      .key, .value, .priority, .child("a"), .child("b"), .child(path),
    ])
    func bound() -> Query.Bound? {
      guard random.oneIn(3) else { return nil }
      let key = Key.of(random.key().description)
      if order == .key { return Query.Bound(.absent, key: key, isInclusive: random.oneIn(2)) }
      let value = BoundValue(random.leaf().node) ?? .absent
      return Query.Bound(value, key: random.oneIn(3) ? key : nil, isInclusive: random.oneIn(2))
    }
    let n = 1 + random.below(3)
    let limit: Query.Limit? = random.pick([nil, .first(n), .last(n)])
    return try Query(order: order, lower: bound(), upper: bound(), limit: limit)
  }

  @Test func `random commits and random queries, with an index and without`() throws {
    try withSeed { random in
      for _ in 0..<500 {
        let query = try randomQuery(&random)
        var plan = IndexPlan()
        if random.oneIn(2) { plan.declare(query.order, at: []) }
        var tree = Tree(root: random.tree(height: 3).node, indexPlan: plan)
        for _ in 0..<8 {
          let before = tree.root
          try tree.carryOut(random.changes(1 + random.below(4)))
          let old = query.children(of: before)
          let new = query.children(of: tree.root)
          let changes = query.changes(from: before, to: tree.root)
          try #require(changes == naive(query, old, new), "\(query)")
          let replica = try replay(changes, on: old)
          try #require(
            replica.elementsEqual(new) { $0.key == $1.key && $0.node == $1.node }, "\(query)")
        }
      }
    }
  }

  @Test func `windows of many children are refilled and trimmed exactly`() throws {
    try withSeed { random in
      let order = Order.child("n")
      for limit in [Query.Limit.first(10), .last(10), .first(1), .last(200)] {
        let query = try Query(order: order, limit: limit)
        var plan = IndexPlan()
        plan.declare(order, at: [])
        let entries = (0..<300).map { i in
          (Key(index: i), Node.of(["n": Node(Int64(random.below(50)))]))
        }
        var tree = Tree(root: Node(children: entries), indexPlan: plan)
        for _ in 0..<150 {
          let before = tree.root
          let keys = Set((0..<1 + random.below(12)).map { _ in Int32(random.below(400)) })
          tree.apply(
            keys.sorted().map { key in
              let node = random.oneIn(3) ? .absent : Node.of(["n": Node(Int64(random.below(50)))])
              return Assignment(Path.root.child(Key(index: key)), node)
            })
          let old = query.children(of: before)
          let new = query.children(of: tree.root)
          try #require(query.changes(from: before, to: tree.root) == naive(query, old, new))
        }
      }
    }
  }

  @Test func `children outside the result, or unchanged, have no events`() throws {
    let query = try Query(order: .key, limit: .first(1))
    let node = Node.of(["a": 1, "b": 2])
    #expect(query.changes(from: node, to: node.setting(3, at: "b")) == [])
    #expect(query.changes(from: node, to: node.setting(1, at: "a")) == [])
    #expect(query.changes(from: node, to: node) == [])
    #expect(query.changes(from: 1, to: "leaf") == [])
  }

  @Test func `the value of an unbounded query is the location's own`() throws {
    #expect(Query.all.value(of: "leaf") == "leaf")
    #expect(try Query(limit: .first(1)).value(of: "leaf") == .absent)
    #expect(try Query(limit: .first(1)).value(of: .of(["a": 1, "b": 2])) == .of(["a": 1]))
  }

  #if CANOPY_COUNT_WORK
    @Test func `the work depends on the change, not on the location`() throws {
      let order = Order.child("n")
      for limit in [nil, Query.Limit.last(100)] {
        let query = try Query(order: order, limit: limit)
        func work(_ count: Int32) throws -> Int {
          var plan = IndexPlan()
          plan.declare(order, at: [])
          let children = (0..<count).map { (Key(index: $0), Node.of(["n": Node(Int64($0))])) }
          var tree = Tree(root: Node(children: children), indexPlan: plan)
          let before = tree.root
          let path = Path.root.child(Key(index: count - 5)).child("n")
          tree.apply([Assignment(path, Node(Int64(count)))])
          return WorkCounter.nodesTouched {
            #expect(query.changes(from: before, to: tree.root).count == 2)
          }
        }
        let small = try work(1000)
        let large = try work(100_000)
        #expect(large <= 300, "\(small) nodes of 1,000 and \(large) of 100,000")
      }
    }
  #endif
}
