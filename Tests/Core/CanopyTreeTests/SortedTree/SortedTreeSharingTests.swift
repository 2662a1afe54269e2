import CanopyTesting
import Testing

@testable import CanopyTree

/// Versions share pages; a version with only one reference is changed in place.
struct SortedTreeSharingTests {
  @Test func `a copy stays unchanged when the other changes`() throws {
    try withSeed { random in
      var tree = NumberTree(0..<5000)
      var versions: [(tree: NumberTree, elements: [NumberElement])] = []
      for step in 0..<40 {
        versions.append((tree, tree.elements))
        for _ in 0..<random.pick([1, 5, 200]) {
          let key = random.below(6000)
          if random.oneIn(2) {
            tree.remove(key)
          } else {
            tree.insert(NumberElement(sortKey: key, value: step))
          }
        }
        if versions.count > 8 { versions.remove(at: random.below(versions.count)) }
        for version in versions { try #require(version.tree.elements == version.elements) }
      }
      for version in versions { #expect(version.tree.brokenInvariant() == nil) }
    }
  }

  @Test(arguments: [10, 1000, 10_000])
  func `replacing in an unshared tree copies no page`(count: Int) {
    var tree = NumberTree(0..<count)
    let before = tree.pageIdentities
    for key in 0..<count { tree.insert(NumberElement(sortKey: key, value: -key)) }
    #expect(tree.pageIdentities == before)
  }

  @Test func `removing and inserting where there is room copies no page`() {
    var tree = NumberTree(0..<1000)
    let before = tree.pageIdentities
    for key in stride(from: 0, to: 1000, by: 4) {
      tree.remove(key)
      tree.insert(NumberElement(sortKey: key, value: 0))
    }
    #expect(tree.pageIdentities == before)
  }

  @Test func `changing a shared tree copies one path`() {
    var tree = NumberTree(0..<10_000)
    let old = tree
    let before = Set(old.pageIdentities)
    tree.insert(NumberElement(sortKey: 5000, value: 0))
    #expect(Set(tree.pageIdentities).subtracting(before).count == tree.levels)
    // The copied pages are not shared any more, and change in place from now on.
    let copied = tree.pageIdentities
    tree.insert(NumberElement(sortKey: 5000, value: 1))
    #expect(tree.pageIdentities == copied)
    #expect(old.find(5000)?.value == 5000)
  }

  @Test func `a tree in a class is changed in place too`() {
    final class Box {
      var tree = NumberTree(0..<1000)
    }
    let box = Box()
    let before = box.tree.pageIdentities
    box.tree.insert(NumberElement(sortKey: 7, value: 0))
    box.tree.modify(8) { $0?.value = 0 }
    #expect(box.tree.pageIdentities == before)
  }
}
