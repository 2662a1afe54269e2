import Testing

@testable import CanopyTree

/// Walking, counting and building.
struct SortedTreeWalkTests {
  /// Trees of sizes around the bounds of pages, with gaps between the keys; some with their first
  /// leaf replaced by keys below its pivot.
  static let trees: [NumberTree] = {
    var trees = [0, 1, 2, 31, 32, 33, 64, 65, 128, 129, 700].map { count in
      NumberTree((0..<count).map { $0 * 3 })
    }
    var shifted = NumberTree((0..<300).map { $0 * 3 })
    for key in 0..<32 { shifted.remove(key * 3) }
    for key in 1..<20 { shifted.insert(NumberElement(sortKey: key * 2 - 30, value: key)) }
    trees.append(shifted)
    return trees
  }()

  private func bounds(_ elements: [NumberElement]) -> [Int] {
    let keys = elements.map(\.sortKey)
    return Array(Set(keys + keys.map { $0 + 1 } + [-100, -31, 0, 1, 10_000])).sorted()
  }

  @Test func `walking from any bound visits the elements that are not below it`() throws {
    for tree in Self.trees {
      let all = tree.elements
      for bound in bounds(all) {
        var seen: [NumberElement] = []
        let reachedEnd = tree.forEach(from: { $0 < bound }) {
          seen.append($0)
          return true
        }
        try #require(seen == all.filter { $0.sortKey >= bound })
        try #require(reachedEnd)
      }
    }
  }

  @Test func `walking backward from any bound visits the elements that are not above it`() throws {
    for tree in Self.trees {
      let all = tree.elements
      for bound in bounds(all) {
        var seen: [NumberElement] = []
        let reachedStart = tree.forEachBackward(from: { $0 > bound }) {
          seen.append($0)
          return true
        }
        try #require(seen == all.filter { $0.sortKey <= bound }.reversed())
        try #require(reachedStart)
      }
    }
  }

  @Test func `a walk stops when the body returns false`() {
    for tree in Self.trees {
      let all = tree.elements
      for limit in [1, 2, 31, 32, 33, 64, 65, 100] where limit <= all.count {
        var seen: [NumberElement] = []
        let reachedEnd = tree.forEach {
          seen.append($0)
          return seen.count < limit
        }
        #expect(seen == Array(all.prefix(limit)))
        #expect(!reachedEnd)
        seen = []
        let reachedStart = tree.forEachBackward {
          seen.append($0)
          return seen.count < limit
        }
        #expect(seen == all.suffix(limit).reversed())
        #expect(!reachedStart)
      }
    }
  }

  @Test func `counting a prefix agrees with walking`() throws {
    for tree in Self.trees {
      let all = tree.elements
      for bound in bounds(all) {
        try #require(
          tree.countPrefix { $0 < bound } == all.count { $0.sortKey < bound }, "below \(bound)")
      }
    }
  }

  @Test func `first and last agree with walking`() {
    for tree in Self.trees {
      #expect(tree.first == tree.elements.first)
      #expect(tree.last == tree.elements.last)
    }
  }

  @Test func `building from ascending elements gives a valid tree of any size`() {
    for count in Array(0...130) + [32 * 32 - 1, 32 * 32, 32 * 32 + 1, 20_000] {
      let tree = NumberTree(0..<count)
      #expect(tree.brokenInvariant() == nil)
      #expect(tree.count == count)
      #expect(tree.elements.map(\.sortKey) == Array(0..<count))
    }
  }
}
