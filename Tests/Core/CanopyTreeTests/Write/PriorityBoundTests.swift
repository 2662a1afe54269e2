import CanopyTesting
import Testing

@testable import CanopyTree

/// The priorities that follow from a write.
struct PriorityBoundTests {
  /// Returns a tree of chains with a priority on each level, and assignments to their leaves.
  private func chains(_ count: Int, depth: Int) throws -> (tree: Tree, leaves: [Assignment]) {
    var chain: Node = 1
    for _ in 0..<depth { chain = Node(children: [("k", chain)]).withPriority(1) }
    let root = Node(children: (0..<count).map { (Key(index: Int32($0)), chain) })
    let below = String(repeating: "/k", count: depth)
    let leaves = try (0..<count).map { Assignment(try Path("\($0)\(below)"), 2) }
    return (Tree(root: root), leaves)
  }

  @Test func `the priorities above locations are counted once each`() throws {
    let node = try Node(
      json:
        #"{"a":{"b":{"c":1,"d":2,".priority":2},"e":3,".priority":1},"f":{"g":4},".priority":0}"#)
    let tree = Tree(root: node)
    let assignments = try [
      "a/.priority", "a/b/c", "a/b/d", "a/e/x/y", "f/g", "f/h/i/j/k",
    ].map { Assignment(try Location($0), 1) }
    // The priorities of the root and of `a/b`, and that of `a` unless the write sets it.
    for (assignments, count) in [(assignments, 2), (Array(assignments.dropFirst()), 3)] {
      for countMax in [count - 1, count] {
        #expect(tree.hasPriorities(above: assignments, atMost: countMax) == (countMax == count))
      }
    }
    #expect(!tree.hasPriorities(above: [Assignment(Path("a/b/c"), .absent)], atMost: 2))
    #expect(tree.hasPriorities(above: [Assignment(Path("a/b/c"), .absent)], atMost: 3))
    #expect(tree.hasPriorities(above: [], atMost: 0))
  }

  @Test func `short paths cost no look at the tree, and long ones end at the bound`() throws {
    let (tree, leaves) = try chains(512, depth: 28)
    let touched = { (countMax: Int, isAllowed: Bool) in
      WorkCounter.nodesTouched {
        #expect(tree.hasPriorities(above: leaves, atMost: countMax) == isAllowed)
      }
    }
    #expect(touched(512 * 29, true) == 0)
    let all = touched(512 * 28, true)
    #expect(all > 512 * 28)
    #expect(touched(1_400, false) * 9 < all)
  }

  @Test func `a before-image has each priority once, without looking for it again`() throws {
    var chain = Node(children: (0..<500).map { (Key(index: Int32($0)), Node(1)) })
    for _ in 0..<28 { chain = Node(children: [("k", chain)]).withPriority(1) }
    let tree = Tree(root: chain)
    let above = String(repeating: "k/", count: 28)
    let leaves = try (0..<500).map { Assignment(try Path("\(above)\($0)"), 2) }
    let image = tree.beforeImage(of: leaves)
    #expect(image.count == 528 && image.count { $0.location.isPriority } == 28)
    var changed = tree
    let journaled = changed.apply(leaves)
    #expect(journaled.count == 528 && journaled.count { $0.location.isPriority } == 28)
    changed.apply(image)
    #expect(changed.root == tree.root)
  }

  @Test func `applied assignments are in order, each location once, with each priority above them`()
    throws
  {
    try withSeed { random in
      var priorities = 0
      for _ in 0..<3_000 {
        var tree = Tree(root: random.tree(height: 4).node)
        let journaled = try tree.carryOut(random.changes(1 + random.below(6)))
        for (a, b) in zip(journaled, journaled.dropFirst()) {
          try #require(a.location < b.location && !a.location.overlaps(next: b.location))
        }
        let locations = Set(journaled.map(\.location))
        for location in locations {
          let path = location.path
          for depth in 0..<path.count where !tree.root.at(path.prefix(depth)).priority.isAbsent {
            try #require(locations.contains(Location(path.prefix(depth), isPriority: true)))
            priorities += 1
          }
        }
      }
      #expect(priorities > 100)
    }
  }
}
