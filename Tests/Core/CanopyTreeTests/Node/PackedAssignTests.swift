import Testing

@testable import CanopyTree

/// Several assignments at and below the children of a packed branch, which change its text in one pass.
@Suite struct PackedAssignTests {
  /// Returns a tree with a branch at `p`. The integer beside it keeps the root from being packed.
  private static func tree(_ branch: Node) -> Tree {
    Tree(root: Node(children: [(Key(index: 0), 0), ("p", branch)]))
  }

  /// Keys that are equal in part, and one that no packed branch may have.
  private static let keys: [Key] = ["a", "ab", "b", "star", "starCount", "stars", "\"", "7"]

  private static func node(_ random: inout SeededRandom, depth: Int) -> Node {
    if depth > 0, random.below(2) == 0 {
      let keys = keys.filter { _ in random.below(2) == 0 }
      return Node(children: keys.map { ($0, node(&random, depth: depth - 1)) })
    }
    return leaf(&random)
  }

  private static func leaf(_ random: inout SeededRandom) -> Node {
    let leaves: [Node] = [true, false, -5, 12_345, "", "a \"text\"", "é", .absent]
    return leaves[random.below(leaves.count)]
  }

  private static func assignments(_ random: inout SeededRandom) -> [Assignment] {
    var result: [Assignment] = []
    for _ in 0...random.below(4) {
      let below = (0...random.below(3)).map { _ in keys[random.below(keys.count)] }
      let path = Path(keys: ["p"] + below)
      let isFree = result.allSatisfy {
        !$0.location.path.hasPrefix(path) && !path.hasPrefix($0.location.path)
      }
      if isFree { result.append(Assignment(path, leaf(&random))) }
    }
    return result.sortedByLocation()
  }

  @Test func `assignments together give the same branch as one after the other`() {
    withSeed { random in
      for _ in 0..<3_000 {
        let before = Self.node(&random, depth: 3)
        let assignments = Self.assignments(&random)
        var together = Self.tree(before)
        var single = together.root
        together.apply(assignments)
        for assignment in assignments { single.set(assignment.value, at: assignment.location.path) }
        #expect(together.root == single, "\(before.json()) \(assignments)")
        #expect(together.root.brokenInvariant() == nil, "\(before.json()) \(assignments)")
      }
    }
  }

  @Test func `assignments that change nothing leave the same branch`() throws {
    let post = try Node(json: #"{"starCount":1,"stars":{"me":true},"title":"t"}"#)
    var tree = Self.tree(post)
    tree.apply([
      Assignment(Path(keys: ["p", "starCount"]), 1),
      Assignment(Path(keys: ["p", "stars", "me"]), true),
      Assignment(Path(keys: ["p", "stars", "you"]), .absent),
    ])
    #expect(post.packed != nil && tree.root.child("p").isIdentical(to: post))
  }

  @Test func `a branch with much below one child becomes pages`() throws {
    var tree = Self.tree(try Node(json: #"{"starCount":0,"title":"t"}"#))
    var (largest, count) = (0, 0)
    while let packed = tree.root.child("p").packed, count < 1_000 {
      largest = max(largest, packed.byteCount)
      count += 1
      tree.apply([
        Assignment(Path(keys: ["p", "starCount"]), Node(Int64(count))),
        Assignment(Path(keys: ["p", "stars", try Key("user\(count)")]), true),
      ])
      #expect(tree.root.brokenInvariant() == nil && tree.root.at("p/stars").childCount == count)
    }
    // The text of the stars counts twice: before the change and after it.
    #expect(PackedBranch.bytesMax / 2 - 64...PackedBranch.bytesMax / 2 + 64 ~= largest)
  }

  @Test func `the before-image of a place in a packed branch has the node at which the way ends`()
    throws
  {
    let tree = Self.tree(try Node(json: #"{"a":{"b":1},"c":"x"}"#))
    let image = tree.beforeImage(of: [
      Assignment(Path(keys: ["p", "a", "b"]), 2), Assignment(Path(keys: ["p", "a", "n", "m"]), 3),
      Assignment(Path(keys: ["p", "c", "d", "e"]), 4), Assignment(Path(keys: ["p", "z"]), 5),
    ])
    #expect(
      image == [
        Assignment(Path(keys: ["p", "a", "b"]), 1),
        Assignment(Path(keys: ["p", "a", "n"]), .absent),
        Assignment(Path(keys: ["p", "c"]), "x"), Assignment(Path(keys: ["p", "z"]), .absent),
      ])
  }
}
