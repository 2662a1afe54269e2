import CanopyTesting
import Testing

@testable import CanopyTree

/// The differences of two versions equal those found by comparing complete lists.
struct SortedTreeDiffTests {
  private func differences(_ old: Children, _ new: Children) -> [(Key, Node?, Node?)] {
    var result: [(Key, Node?, Node?)] = []
    Children.forEachDifference(from: old, to: new, isSame: { $0.node == $1.node }) { a, b in
      if let key = a?.key ?? b?.key { result.append((key, a?.node, b?.node)) }
      return true
    }
    return result
  }

  private func check(_ old: Children, _ new: Children) throws {
    var before: [Key: Node] = [:]
    var after: [Key: Node] = [:]
    old.forEach {
      before[$0.key] = $0.node; return true
    }
    new.forEach {
      after[$0.key] = $0.node; return true
    }
    let keys = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }.sorted()
    let found = differences(old, new)
    try #require(found.map(\.0) == keys)
    for (key, a, b) in found { try #require(a == before[key] && b == after[key]) }
  }

  @Test(arguments: [0, 1, 31, 32, 33, 64, 500, 5000, 20_000])
  func `random changes to trees of all heights`(count: Int) throws {
    try withSeed { random in
      var tree = Children(
        ascending: (0..<Int32(count)).map { Child(key: Key(index: $0 * 2), node: 1) })
      for round in 0..<(count > 1000 ? 3 : 30) {
        let old = tree
        // Sometimes change a run of neighbours, so that pages split and merge.
        let start = random.below(2 * count + 4)
        for i in 0..<random.below(round % 3 == 0 ? 200 : 5) {
          let index = random.oneIn(2) ? start + i : random.below(2 * count + 4)
          let key = Key(index: Int32(index))
          if random.oneIn(2) {
            tree.insert(Child(key: key, node: Node(Int64(random.below(3)))))
          } else {
            tree.remove(key)
          }
        }
        try check(old, tree)
        try check(tree, old)
        try check(old, Children())
        try check(Children(), tree)
      }
    }
  }

  @Test func `a comparison can be ended early`() {
    let old = Children(ascending: (0..<100).map { Child(key: Key(index: $0), node: 1) })
    var seen = 0
    let isWhole = Children.forEachDifference(
      from: old, to: Children(), isSame: { $0.node == $1.node }
    ) { _, _ in
      seen += 1
      return seen < 7
    }
    #expect(!isWhole)
    #expect(seen == 7)
  }

  @Test func `every element is found by its rank`() {
    for count in [0, 1, 32, 33, 64, 65, 5000] {
      let tree = Children(
        ascending: (0..<Int32(count)).map { Child(key: Key(index: $0), node: 1) })
      for rank in 0..<count { #expect(tree.element(atRank: rank)?.key == Key(index: Int32(rank))) }
      #expect(tree.element(atRank: count) == nil)
      #expect(tree.element(atRank: -1) == nil)
    }
  }
}
