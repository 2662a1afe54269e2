import Testing

@testable import CanopyTree

/// Removals at locations that have nothing, and removals from packed branches.
@Suite struct VainRemovalTests {
  private static let places = [
    "a/none", "a/none/x", "a/7", "7", "7/x", "leaf/x", "none", "-OaBcDeFgHiJkLmNoPqR/x",
    "-OaBcDeFgHiJkLmNoPqS/x", "a/.priority", ".priority", "a/k1/x", "a/k1/.priority",
  ]

  /// A packed branch that has most of its text below one child, and is near the bound.
  private static func packed() throws -> Node {
    let members = (10..<110).map { "\"k\($0)\":1234" }.joined(separator: ",")
    let node = try Node(json: #"{"-OaBcDeFgHiJkLmNoPqR":5,"a":{\#(members)},"leaf":"x"}"#)
    let packed = try #require(node.packed)
    #expect(packed.byteCount > PackedBranch.bytesMax / 2 + 100)
    return node
  }

  private static func tree(_ branch: Node) -> Tree {
    Tree(root: Node(children: [(Key(index: 0), 0), ("p", branch)]))
  }

  @Test(arguments: places)
  func `a removal of nothing from a packed branch creates nothing`(place: String) async throws {
    let branch = try Self.packed()
    var tree = Self.tree(branch)
    let assignment = Assignment(try Location("p/" + place), .absent)
    await WorkCounter.counting { counter in
      tree.apply([assignment])
      // The equivalent assignments of a priority are looked up among the nodes.
      #expect(counter.objectsCreated == 0 || assignment.location.isPriority)
      #expect(counter.pagesCopied == 0)
    }
    #expect(tree.root.child("p").isIdentical(to: branch))
    #expect(tree.addedMemoryMax == 0)
  }

  @Test func `a removal of nothing copies no page of a branch that others hold`() async throws {
    let children = try (0..<1_000).map { (try Key("k\($0)"), Node(children: [("x", 1)])) }
    var tree = Tree(root: Node(children: [("a", Node(children: children))]))
    let before = tree.root
    let removals: [Assignment] = try [
      "a/none", "a/k5/none", "a/k5/x/none", "none/x", "a/.priority",
    ].map {
      Assignment(try Location($0), .absent)
    }
    await WorkCounter.counting { counter in
      for removal in removals { tree.apply([removal]) }
      #expect(counter.pagesCopied == 0 && counter.objectsCreated == 0)
    }
    #expect(tree.root.isIdentical(to: before))
  }

  @Test func `a removal from a packed branch leaves it packed, until nothing is left`() throws {
    var branch = try Self.packed()
    for number in 10..<110 {
      var tree = Self.tree(branch)
      tree.apply([
        Assignment(try Location("p/a/k\(number)"), .absent),
        Assignment(Location("p/a/none"), .absent),
      ])
      let single = branch.setting(.absent, at: try Path("a/k\(number)"))
      branch = tree.root.child("p")
      #expect(branch == single && branch.isPacked && single.isPacked, "k\(number)")
      #expect(branch.child("a").childCount == 109 - number)
    }
    #expect(branch.child("a").isAbsent && branch.childCount == 2)
  }

  @Test func `a removal of nothing does not hide that a branch keeps its priority`() throws {
    var tree = Tree(root: try Node(json: #"{"a":{".priority":3,"b":1}}"#))
    let removal = Assignment(Location("a/c"), .absent)
    let made = tree.apply([removal])
    #expect(made.map(\.location.text) == ["a/.priority", "a/c"])
    #expect(made.map(\.value) == [3, .absent])
  }

  @Test func `an index by priority counts as added memory, as its pages do`() throws {
    let children = (0..<512).map { (Key(index: $0), Node(1)) }
    var tree = Tree(root: Node(children: [("a", Node(children: children).withPriority(1))]))
    for index: Int32 in 0..<512 {
      let before = tree
      tree.apply([
        Assignment(Location(Path.root.child("a").child(Key(index: index)), isPriority: true), 7)
      ])
      let growth = MemoryCount.growth(from: before.root, to: tree.root)
      #expect(growth <= tree.addedMemoryMax - before.addedMemoryMax, "\(index)")
    }
  }
}
