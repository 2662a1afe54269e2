import Testing

@testable import CanopyTree

struct SortedTreeGrowingTests {
  /// A page: the number of its elements or children, its room, and the pages below it.
  private indirect enum Shape: Equatable {
    case leaf(keys: [Int], slots: Int)
    case inner(pivots: [Int], totals: [Int], total: Int, slots: Int, [Shape])

    init(_ page: NumberTree.Page) {
      switch page {
      case .leaf(let leaf):
        self = .leaf(keys: leaf.withElements { $0.map(\.sortKey) }, slots: leaf.slots)
      case .inner(let inner):
        let entries = inner.withEntries { Array($0) }
        self = .inner(
          pivots: entries.map(\.pivot), totals: entries.map(\.total), total: inner.total,
          slots: inner.slots, entries.map { Shape($0.page) })
      }
    }
  }

  private func grown(_ count: Int) -> NumberTree.Growing {
    var tree = NumberTree.Growing()
    for i in 0..<count {
      let isLast = tree.append(NumberElement(sortKey: 2 * i, value: i))
      #expect(isLast)
    }
    return tree
  }

  // A leaf page has 32 elements, an inner page 8 children.
  @Test(arguments: [
    0, 1, 31, 32, 33, 64, 255, 256, 257, 288, 289, 2_047, 2_048, 2_049, 2_080, 2_081, 4_096, 4_097,
    16_384, 16_385,
  ])
  func `the pages are those of a tree of all elements`(count: Int) {
    var tree = grown(count)
    let expected = NumberTree(
      ascending: (0..<count).map { NumberElement(sortKey: 2 * $0, value: $0) })
    let root = tree.finish().root
    #expect(Shape(root) == Shape(expected.root))
  }

  @Test(arguments: [1, 32, 33, 257])
  func `an element that does not sort after the last one is refused, and nothing changes`(
    count: Int
  ) {
    var tree = grown(count)
    let areLast = [2 * (count - 1), -1, 2 * count - 1].map {
      tree.append(NumberElement(sortKey: $0, value: -1))
    }
    #expect(areLast == [false, false, true])
    let elements = tree.finishAsArray()
    #expect(elements.map(\.sortKey) == (0..<count).map { 2 * $0 } + [2 * count - 1])
  }

  @Test(arguments: [0, 1, 3, 4, 5, 100], [1, 2, 4, 5])
  func `the parts of a walk have each element once`(count: Int, parts: Int) {
    let tree = NumberTree(0..<count)
    var keys: [Int] = []
    var sizes: [Int] = []
    for part in 0..<parts {
      let before = keys.count
      tree.forEach(inPart: part, of: parts) { keys.append($0.sortKey) }
      sizes.append(keys.count - before)
    }
    #expect(keys == Array(0..<count))
    #expect(sizes.allSatisfy { $0 == count / parts || $0 == count / parts + 1 })
  }
}
