import CanopyTesting
import Foundation
import Testing

@testable import CanopyTree

/// The memory of a tree, counted by its changes.
@Suite(.timeLimit(.minutes(20))) struct MemoryCountTests {
  private func count(_ node: Node) -> Int {
    var count = MemoryCount()
    count.add(node)
    return count.bytes
  }

  @Test(arguments: NodeMemoryTests.Shape.allCases)
  func `the count of a value is the estimate of its memory`(_ shape: NodeMemoryTests.Shape) throws {
    let node = try shape.node()
    #expect(count(node) == node.heldBytes(atMost: .max) - 64)
  }

  @Test(arguments: [1, 2, 3, 7])
  func `the parts of a tree are together the tree`(parts: Int) throws {
    var random = SeededGenerator(printingSeedFor: "memory in parts")
    for round in 0..<200 {
      var node = random.tree(height: 4).node
      if round == 0 { node = 5 }
      if round == 1 {
        var tree = Tree()
        for number in 0..<100 {
          let path = try Path("a/a long key of a child \(number)/n")
          _ = tree.apply([Assignment(path, Node("\(number)"))])
        }
        tree.keepIndex(.child("n"), at: ["a"])
        node = tree.root.withPriority(1)
      }
      var bytes = 0
      for part in 0..<parts {
        var count = MemoryCount()
        count.add(node, part: part, of: parts)
        bytes += count.bytes
      }
      #expect(bytes == count(node))
    }
  }

  @Test func `the differences of changes lead to the count of the tree`() throws {
    var random = SeededGenerator(printingSeedFor: "memory of changes")
    var plan = IndexPlan()
    plan.declare(.child(Path.root.child("t")), at: ["a"])
    plan.declare(.value, at: ["b"])
    var tree = Tree(indexPlan: plan)
    var counted = MemoryCount()
    for round in 0..<2_000 {
      let before = tree
      // A few places, of which some have many children.
      let top = ["a", "b", "c"][Int(random.next() % 3)]
      var path = "\(top)/\(random.next() % 300)"
      if random.next() % 3 == 0 { path += "/x\(random.next() % 5)" }
      let text = String(repeating: "t", count: Int(random.next() % 60))
      var value: Node
      switch random.next() % 8 {
      case 0, 1: value = .absent
      case 2: value = Node(Int64(round))
      case 3: value = Node(text)
      case 4: value = try Node(json: #"{"t":"\#(text)","x1":{"y":1},"z":true}"#)
      case 5: value = try Node(json: #"{".value":"\#(text)",".priority":\#(round)}"#)
      case 6:
        value = try Node(json: "[" + (0..<40).map { "{\"t\":\($0)}" }.joined(separator: ",") + "]")
      default: value = try Node(json: #"{"1":\#(round),"2":{"t":"\#(text)"}}"#)
      }
      if round % 400 == 399 { path = top }
      _ = tree.apply([Assignment(try Path(path), value)])
      if round == 1_000 { tree.keepIndex(.value, at: ["c"]) }
      counted.addDifference(from: before.root, to: tree.root)
      if round % 20 == 0 || round == 1_000 {
        try #require(counted.bytes == count(tree.root), "round \(round)")
      }
    }
    counted.addDifference(from: tree.root, to: .absent)
    #expect(counted.bytes == 0)
  }

  @Test func `an equal version costs nothing, and a change only what it touches`() throws {
    var tree = Tree()
    for number in 0..<20_000 { tree.apply([Assignment(try Path("list/k\(number)"), true)]) }
    let before = tree
    tree.apply([Assignment("list/k500" as Path, "a text of more than fifteen bytes")])
    let expected = count(tree.root) - count(before.root)
    let touched = WorkCounter.nodesTouched {
      var count = MemoryCount()
      count.addDifference(from: before.root, to: tree.root)
      #expect(count.bytes == expected)
      count.addDifference(from: tree.root, to: tree.root)
      #expect(count.bytes == expected)
    }
    #expect(touched < 200)
  }

  @Test func `large values are counted later`() throws {
    let list = try Node(
      json: "[" + Array(repeating: "1", count: 1_000).joined(separator: ",") + "]")
    let root = Node(children: [("a", list), ("b", list)])
    var count = MemoryCount(stepsMax: 1_100)
    count.addDifference(from: .absent, to: root)
    #expect(!count.isComplete && count.bytes < self.count(root))
    count.finish()
    #expect(count.isComplete && count.bytes == self.count(root))
  }
}
