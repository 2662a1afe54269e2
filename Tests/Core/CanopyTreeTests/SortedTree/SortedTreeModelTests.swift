import CanopyTesting
import Testing

@testable import CanopyTree

/// A sorted tree behaves like a sorted array.
struct SortedTreeModelTests {
  @Test(arguments: [3, 100, 400])
  func `random changes to a small tree keep it valid`(keys: Int) throws {
    try withSeed { random in
      var tree = NumberTree()
      var model = SortedArray()
      for step in 0..<2000 {
        // The tree grows at first and shrinks at the end.
        let key = random.below(keys)
        if random.below(2000) < step {
          tree.remove(key)
          model.remove(key)
        } else {
          let element = NumberElement(sortKey: key, value: step)
          tree.insert(element)
          model.insert(element)
        }
        try #require(tree.brokenInvariant() == nil)
        try #require(tree.count == model.elements.count)
        if step.isMultiple(of: 50) { try #require(tree.elements == model.elements) }
      }
      #expect(tree.elements == model.elements)
    }
  }

  @Test func `inserting in ascending order fills the pages`() {
    var tree = NumberTree()
    for key in 0..<10_000 { tree.insert(NumberElement(sortKey: key, value: key)) }
    #expect(tree.brokenInvariant() == nil)
    #expect(tree.elements == NumberTree(0..<10_000).elements)
    let leaves = 10_000 / NumberTree.leafMax
    // An eighth as many pages above them, and so on: a seventh in total.
    #expect(tree.pageIdentities.count <= leaves + leaves / (NumberTree.innerMax - 1) + 10)
  }

  @Test func `inserting in descending order works`() {
    var tree = NumberTree()
    for key in (0..<10_000).reversed() { tree.insert(NumberElement(sortKey: key, value: key)) }
    #expect(tree.brokenInvariant() == nil)
    #expect(tree.elements == NumberTree(0..<10_000).elements)
  }

  @Test func `removing from either end and from the middle works until the tree is empty`() throws {
    let all = Array(0..<5000)
    for order in [all, all.reversed(), Array(all[2500...]) + all[..<2500].reversed()] {
      var tree = NumberTree(all)
      var rest = Set(all)
      for (step, key) in order.enumerated() {
        tree.remove(key)
        rest.remove(key)
        if step.isMultiple(of: 250) {
          try #require(tree.brokenInvariant() == nil)
          try #require(tree.elements.map(\.sortKey) == rest.sorted())
        }
      }
      #expect(tree.isEmpty)
      #expect(tree.first == nil && tree.last == nil)
      #expect(tree.brokenInvariant() == nil)
    }
  }

  @Test func `random changes to a tall tree, in runs of neighbours, keep it valid`() throws {
    try withSeed { random in
      let keys = 20_000
      var tree = NumberTree(0..<keys)
      var model: [Int: Int] = [:]
      for key in 0..<keys { model[key] = key }
      for step in 0..<100 {
        // Runs of removals empty whole pages and merge inner ones; single keys, and sometimes a
        // run, fill the gaps between the remaining pivots.
        let start = random.below(keys)
        for key in start..<min(keys, start + random.pick([10, 300, 1000])) {
          tree.remove(key)
          model[key] = nil
        }
        let first = random.below(keys)
        let returning =
          random.oneIn(10)
          ? Array(first..<min(keys, first + 3000)) : (0..<30).map { _ in random.below(keys) }
        for key in returning {
          tree.insert(NumberElement(sortKey: key, value: step))
          model[key] = step
        }
        try #require(tree.count == model.count)
        if step.isMultiple(of: 2) { try #require(tree.brokenInvariant() == nil) }
      }
      #expect(
        tree.elements
          == model.sorted { $0.key < $1.key }.map {
            NumberElement(sortKey: $0.key, value: $0.value)
          }
      )
    }
  }

  @Test func `a key between two pivots is found after inner pages merge`() throws {
    // Three levels. The second inner page loses its first leaf, gets a key below its new first pivot,
    // and is then merged into the first inner page.
    var tree = NumberTree(0..<32 * 32 * 2)
    #expect(tree.levels == 3)
    let edge = 32 * 32
    for key in edge..<edge + 32 { tree.remove(key) }
    tree.insert(NumberElement(sortKey: edge + 10, value: 1))
    for key in edge + 320..<32 * 32 * 2 { tree.remove(key) }
    for key in 320..<edge - 64 { tree.remove(key) }
    #expect(tree.brokenInvariant() == nil)
    #expect(tree.find(edge + 10)?.value == 1)
    tree.insert(NumberElement(sortKey: edge + 10, value: 2))
    #expect(tree.elements.filter { $0.sortKey == edge + 10 }.map(\.value) == [2])
  }

  @Test func `a body that inserts nothing changes nothing`() {
    var tree = NumberTree(0..<1000)
    tree.modify(5000) { $0 = nil }
    tree.remove(-1)
    #expect(tree.elements == NumberTree(0..<1000).elements)
  }

  @Test func `a body receives the existing element`() {
    var tree = NumberTree(0..<1000)
    tree.modify(500) {
      #expect($0 == NumberElement(sortKey: 500, value: 500))
      $0?.value = -1
    }
    tree.modify(1000) { #expect($0 == nil) }
    #expect(tree.find(500)?.value == -1)
    #expect(tree.find(1000) == nil)
    #expect(tree.count == 1000)
  }
}
