import CanopyTesting
import Testing

@testable import CanopyTree

/// Large values that have their indexes before the write is decided.
struct IndexedValueTests {
  private static func plan(_ declarations: (Order, [Key?])...) -> IndexPlan {
    var plan = IndexPlan()
    for (order, pattern) in declarations { plan.declare(order, at: pattern) }
    return plan
  }

  /// A branch of `count` branches.
  private static func branches(_ count: Int) -> Node {
    Node(
      children: (0..<Int32(count)).map { number in
        (Key(index: number), Node(children: [("n", Node(Int64(number) * 7 % 97))]))
      })
  }

  /// Returns the nodes that the application of a write touches.
  private static func nodesTouched(_ tree: Tree, _ write: Write) -> Int {
    var tree = tree
    return WorkCounter.nodesTouched {
      tree.apply(write.resolved(in: tree.root, at: 0), of: write)
    }
  }

  @Test func `the writer touches as little for an indexed place as for another one`() throws {
    let plan = Self.plan((.child("n"), ["x", nil]), (.value, ["x", nil, nil]))
    let tree = Tree(indexPlan: plan)
    let value = Self.branches(5_000)
    let plain = try Write(setting: [Assignment(Path("y/u"), value)])
    var indexed = try Write(setting: [Assignment(Path("x/u"), value)])
    let few = Self.nodesTouched(tree, plain)
    #expect(few < 20)
    #expect(Self.nodesTouched(tree, indexed) > 1_000)
    indexed.addIndexes(of: plan, over: 100)
    #expect(Self.nodesTouched(tree, indexed) <= few)
  }

  @Test func `a server value does not make the writer sort the children of a large value`() throws {
    let plan = Self.plan((.child("n"), ["x", "u"]))
    let tree = Tree(indexPlan: plan)
    let placed = LocatedServerValue(
      path: Path("7/n"), isPriority: false, value: .increment(500))
    let value = WriteValue(
      Self.branches(5_000).setting(.absent, at: placed.path), serverValues: [placed])
    var indexed = try Write.set(Location("x/u"), value)
    #expect(Self.nodesTouched(tree, indexed) > 1_000)
    indexed.addIndexes(of: plan, over: 100)
    #expect(Self.nodesTouched(tree, indexed) < 40)
    var changed = tree
    changed.apply(indexed.resolved(in: tree.root, at: 0), of: indexed)
    #expect(changed.root.at("x/u").indexes.map(\.order) == [.child("n")])
    #expect(changed.root.at("x/u/7/n") == 500)
    #expect(changed.root.brokenInvariant() == nil)
  }

  @Test func `a server value does not make the writer visit children that have indexes`() throws {
    let plan = Self.plan((.child("n"), ["x", "u"]), (.value, ["x", "u", nil]))
    let tree = Tree(indexPlan: plan)
    // One of them begins a child that needs an index of its own.
    let placed = try ["7/n", "new/n"].map {
      try LocatedServerValue(path: Path($0), isPriority: false, value: .increment(500))
    }
    let base = Self.branches(5_000).setting(.absent, at: placed[0].path)
    let plain = try Write.set(Location("x/u"), WriteValue(base, serverValues: placed))
    var indexed = plain
    indexed.addIndexes(of: plan, over: 100)
    func touched(_ write: Write) -> (nodes: Int, tree: Tree) {
      var (write, changed) = (write, tree)
      let nodes = WorkCounter.nodesTouched {
        let assignments = write.resolve(in: tree.root, at: 0)
        changed.apply(assignments, of: write, countsMemory: true)
      }
      return (nodes, changed)
    }
    let without = touched(plain)
    let with = touched(indexed)
    #expect(without.nodes > 10_000)
    #expect(with.nodes < 150)
    #expect(with.tree.root == without.tree.root)
    #expect(indexes(with.tree.root) == indexes(without.tree.root))
    #expect(with.tree.root.at("x/u/new").indexes.map(\.order) == [.value])
    #expect(with.tree.root.brokenInvariant() == nil)
    // The memory is that of the same tree.
    let (bytes, exact) = (with.tree.addedMemoryMax, without.tree.addedMemoryMax)
    #expect(bytes >= exact * 9 / 10 && bytes <= exact * 11 / 10, "\(bytes), \(exact)")
  }

  @Test func `equal large values become one before the writer, which only compares smaller ones`()
    throws
  {
    let plan = Self.plan((.child("n"), ["indexed", nil]))
    func write(_ places: String...) throws -> Write {
      try Write(setting: places.map { Assignment(try Path($0), Self.branches(100_000)) })
    }
    func areOne(_ write: Write) -> Bool {
      let resolved = write.resolved(in: .absent, at: 0)
      return resolved[0].value.isIdentical(to: resolved[1].value)
    }
    var large = try write("a/p", "b/p")
    #expect(!large.assignments[0].value.fits(bytes: Limits.serverValueBytesMax))
    #expect(!areOne(large))
    large.addIndexes(of: plan, over: 100)
    #expect(areOne(large))
    var others = [try write("a/p", "b/q"), try write("a/p", "indexed/p")]
    for index in others.indices {
      others[index].addIndexes(of: plan, over: 100)
      #expect(!areOne(others[index]))
    }
    let small = try Write(
      setting: ["a/p", "b/p"].map { Assignment(try Path($0), Self.branches(1_000)) })
    #expect(areOne(small))
  }

  @Test func `a pushed value keeps its indexes if its key matches the same patterns`() throws {
    let plan = Self.plan((.child("n"), ["x", nil]), (.value, ["x", "named"]))
    let tree = Tree(indexPlan: plan)
    var write = try Write(setting: [Assignment(Path("x/0"), Self.branches(1_000))])
    write.addIndexes(of: plan, over: 100)
    let pushed = try write.moved(to: Location("x/-Oabc"))
    #expect(Self.nodesTouched(tree, pushed) < 20)
    let named = try write.moved(to: Location("x/named"))
    var changed = tree
    changed.apply(named.resolved(in: .absent, at: 0), of: named)
    #expect(
      Set(changed.root.at("x/named").indexes.map(\.order)) == [.child("n"), .value])
    #expect(changed.root.brokenInvariant() == nil)
  }

  @Test func `a tree with another plan adds its own indexes`() throws {
    let plan = Self.plan((.child("n"), ["x"]))
    var write = try Write(setting: [Assignment(Path("x"), Self.branches(100))])
    write.addIndexes(of: plan, over: 100)
    var tree = Tree(indexPlan: Self.plan((.child("n"), ["x"]), (.value, ["x"])))
    tree.apply(write.resolved(in: .absent, at: 0), of: write)
    #expect(Set(tree.root.at("x").indexes.map(\.order)) == [.child("n"), .value])
    #expect(tree.root.brokenInvariant() == nil)
  }

  @Test func `a tree is the same with indexed values and without`() throws {
    try withSeed { random in
      var writes = RandomWrites()
      writes.bigOnceIn = 4
      let keys: [Key?] = RandomWrites.keys.prefix(4).map { $0 } + [nil, nil]
      for _ in 0..<40 {
        var plan = IndexPlan()
        for _ in 0..<6 {
          let pattern = (0..<Int.random(in: 0...3, using: &random)).map { _ in random.pick(keys) }
          plan.declare(random.pick([.value, .priority, .child("a")]), at: pattern)
        }
        var plain = Tree(indexPlan: plan)
        var prepared = Tree(indexPlan: plan)
        for _ in 0..<50 {
          var write = writes.next(&random)
          let journaled = plain.apply(write.resolved(in: plain.root, at: 0))
          write.addIndexes(of: plan, over: 0)
          write.encodeValues(over: 0)
          let resolved = write.resolve(in: prepared.root, at: 0)
          let other = prepared.apply(resolved, of: write)
          try #require(other == journaled)
          try #require(prepared.root == plain.root)
          try #require(prepared.root.brokenInvariant() == nil)
          try #require(indexes(prepared.root) == indexes(plain.root))
        }
      }
    }
  }

  /// The orders of the indexes of all branches, with their depth.
  private func indexes(_ node: Node, depth: Int = 0) -> [String] {
    var found = node.indexes.map { "\(depth) \($0.order)" }.sorted()
    node.forEachChild { _, child in
      if child.isBranch { found += indexes(child, depth: depth + 1) }
      return true
    }
    return found
  }
}
