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

  @Test(arguments: ["x", "é", "€", "𝄞"])
  func `an index keeps no more of a long string than it compares`(_ letter: String) throws {
    let orders = [Order.value, .child(Path.root.child("t"))]
    var plan = IndexPlan()
    for (order, place) in zip(orders, ["values", "children"]) {
      plan.declare(order, at: [try Key(place)])
    }
    func text(_ bytes: Int) -> String {
      // The first bytes move the places of the characters.
      String(repeating: "a", count: bytes % letter.utf8.count)
        + String(repeating: letter, count: bytes / letter.utf8.count)
    }
    for bytes in [1_024, 1_025, 1_026, 1_027, 1_028, 1_029, 100_000] {
      var tree = Tree(indexPlan: plan)
      var counted = MemoryCount()
      for value in [text(bytes), text(bytes) + "end", text(bytes), text(bytes)] {
        let before = tree
        tree.apply([
          Assignment("children/k/t" as Path, Node(value)),
          Assignment("values/k" as Path, Node(value + "")),
        ])
        counted.addDifference(from: before.root, to: tree.root)
        #expect(counted.bytes == count(tree.root), "\(bytes)")
        for (order, place) in zip(orders, ["values", "children"]) {
          let list = tree.root.child(try Key(place))
          let index = try #require(list.indexes.first { $0.order == order })
          index.positions.forEach { position in
            guard case .string(let kept) = position.value else {
              Issue.record("the index has no string")
              return false
            }
            #expect(kept.utf8.count <= OrderValue.comparedBytesMax + 3, "\(bytes)")
            #expect(position.value == .string(value) && value.hasBytePrefix(kept), "\(bytes)")
            if value.utf8.count <= OrderValue.comparedBytesMax {
              #expect(kept.hasSameBytes(as: value))
            }
            return true
          }
        }
      }
    }
  }

  @Test func `an index shares the memory of a short string with the child, also of an equal one`()
    throws
  {
    var plan = IndexPlan()
    plan.declare(.value, at: ["a"])
    var tree = Tree(indexPlan: plan)
    for round in 0..<3 {
      // An equal text in new memory each time.
      let text = String(repeating: "x", count: OrderValue.comparedBytesMax - 1) + "y"
      tree.apply([Assignment("a/k" as Path, Node(text))])
      var kept: [UnsafeRawPointer?] = []
      tree.root.child("a").indexes[0].positions.forEach { position in
        if case .string(let text) = position.value {
          kept.append(text.withUTF8Bytes { $0.baseAddress })
        }
        return true
      }
      guard case .string(let value) = tree.root.at("a/k" as Path).value else {
        Issue.record("no string")
        return
      }
      #expect(kept == [value.withUTF8Bytes { $0.baseAddress }], "round \(round)")
    }
  }

  @Test func `the growth of a change is the difference of the counts, if it is above 0`() throws {
    var random = SeededGenerator(printingSeedFor: "the growth of changes")
    var plan = IndexPlan()
    plan.declare(.child(Path.root.child("t")), at: ["a", nil])
    plan.declare(.value, at: ["b"])
    var tree = Tree(indexPlan: plan)
    var grew = 0
    for round in 0..<2_000 {
      let before = tree
      var path = "\(["a", "b"][Int(random.next() % 2)])/\(random.next() % 40)"
      if random.next() % 2 == 0 { path += "/x\(random.next() % 40)" }
      let text = String(repeating: "t", count: Int(random.next() % 60))
      let value: Node =
        switch random.next() % 4 {
        case 0: .absent
        case 1: Node(text)
        case 2: try Node(json: #"{"t":"\#(text)","x1":{"y":1,"t":2},"z":true}"#)
        default:
          try Node(json: "[" + (0..<20).map { "{\"t\":\($0)}" }.joined(separator: ",") + "]")
        }
      tree.apply([Assignment(try Path(path), value)])
      let exact = count(tree.root) - count(before.root)
      let growth = MemoryCount.growth(from: before.root, to: tree.root)
      #expect(exact > 0 ? growth == exact : exact...0 ~= growth, "round \(round)")
      if exact > 0 { grew += 1 }
    }
    #expect(grew > 100)
  }

  @Test func `of a removed branch no more is counted than makes up for the new value`() throws {
    var tree = Tree()
    for number in 0..<20_000 { tree.apply([Assignment(try Path("list/k\(number)/n"), true)]) }
    let before = tree
    tree.apply([Assignment("list" as Path, "a text of more than fifteen bytes")])
    let touched = WorkCounter.nodesTouched {
      #expect(MemoryCount.growth(from: before.root, to: tree.root) <= 0)
    }
    #expect(touched < 2_000)
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
