import CanopyTesting
import Testing

@testable import CanopyTree

/// A trie of paths behaves like a dictionary of paths.
struct PathTrieTests {
  private static let paths: [Path] = {
    var paths: [Path] = [.root]
    for depth in 0..<3 {
      for path in paths where path.count == depth {
        for key: Key in ["a", "b", "7"] { paths.append(path.child(key)) }
      }
    }
    return paths
  }()

  /// Whether no level of a trie below its root is empty.
  private static func hasNoEmptyLevel(_ trie: PathTrie<Int>) -> Bool {
    trie.children.values.allSatisfy { !$0.isEmpty && hasNoEmptyLevel($0) }
  }

  @Test func `random changes give the values of a dictionary`() throws {
    try withSeed { random in
      var trie = PathTrie<Int>()
      var model: [Path: Int] = [:]
      for step in 0..<2_000 {
        let path = random.pick(Self.paths)
        switch random.below(8) {
        case 0:
          trie.modifySubtrie(at: path) { $0 = PathTrie() }
          model = model.filter { !$0.key.hasPrefix(path) }
        case 1:
          trie.modifySubtrie(at: path) { $0 = PathTrie(step) }
          model = model.filter { !$0.key.hasPrefix(path) }
          model[path] = step
        case 2, 3:
          #expect(trie.modify(at: path) { $0.take() } == model.removeValue(forKey: path))
        default:
          trie.modify(at: path) { $0 = step }
          model[path] = step
        }
        try #require(Self.hasNoEmptyLevel(trie) && trie.isEmpty == model.isEmpty)
        let other = random.pick(Self.paths)
        #expect(trie[other] == model[other])

        var along: [Int] = []
        trie.forEach(along: other) { depth, value in
          #expect(model[other.prefix(depth)] == value)
          along.append(value)
          return true
        }
        #expect(along == (0...other.count).compactMap { model[other.prefix($0)] })

        var overlapping: [Int] = []
        trie.forEach(overlapping: other) { overlapping.append($0) }
        let expected = model.filter { $0.key.hasPrefix(other) || other.hasPrefix($0.key) }
        #expect(overlapping.sorted() == expected.values.sorted())
        var visited: [Int] = []
        let isComplete = trie.visit(overlapping: other) { next, value in
          visited.append(value)
          // Values above the path come with the key that leads on.
          let isAbove = next.map { key in
            model.contains { $0.value == value && other.hasPrefix($0.key.child(key)) }
          }
          #expect(isAbove ?? model.contains { $0.value == value && $0.key.hasPrefix(other) })
          return true
        }
        #expect(isComplete && visited.sorted() == overlapping.sorted())

        let several = [other, random.pick(Self.paths), random.pick(Self.paths)]
        let expectedOfSeveral = model.filter { path, _ in
          several.contains { path.hasPrefix($0) || $0.hasPrefix(path) }
        }
        for paths in [several, several.sorted()] {
          var found: [Int] = []
          trie.forEach(overlapping: paths) { found.append($0) }
          #expect(Set(found) == Set(expectedOfSeveral.values))
          // Sorted paths give each value once.
          if paths == several.sorted() { #expect(found.count == expectedOfSeveral.count) }
        }

        var below: [Int] = []
        trie.subtrie(at: other)?.forEach { below.append($0) }
        #expect(below.sorted() == model.filter { $0.key.hasPrefix(other) }.values.sorted())
      }
      var found: [(path: Path, value: Int)] = []
      trie.forEachInOrder { found.append(($0, $1)) }
      #expect(found.map(\.path) == model.keys.sorted())
      #expect(found.allSatisfy { model[$0.path] == $0.value })
    }
  }

  @Test func `a visit along a path stops when the body returns false`() {
    var trie = PathTrie(0)
    trie.modify(at: "a") { $0 = 1 }
    trie.modify(at: "a/b") { $0 = 2 }
    var visited: [Int] = []
    let isComplete = trie.forEach(along: "a/b") { _, value in
      visited.append(value)
      return value < 1
    }
    #expect(!isComplete && visited == [0, 1])
    #expect(trie.forEach(along: "c/d") { _, _ in true })
  }

  @Test func `a visit of overlapping values stops when the body returns false`() {
    var trie = PathTrie(0)
    for path: Path in ["a", "a/b", "a/b/c", "a/b/d"] { trie.modify(at: path) { $0 = path.count } }
    for count in 1...4 {
      var visited: [Int] = []
      let isComplete = trie.visit(overlapping: "a/b") { _, value in
        visited.append(value)
        return visited.count < count
      }
      #expect(!isComplete && visited == Array([0, 1, 2, 3].prefix(count)))
    }
    #expect(trie.visit(overlapping: "c/d") { _, _ in true })
  }
}
