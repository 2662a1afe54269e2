import CanopyTesting
import Testing

@testable import CanopyEngine
@testable import CanopyTree

/// The bytes that commits add to the memory of the tree.
@Suite(.timeLimit(.minutes(20))) struct TreeMemoryTests {
  /// Values with few bytes of text for each key, and long texts.
  private func value(_ random: inout SeededGenerator) throws -> Node {
    let text = String(repeating: "t", count: Int(random.next() % 60))
    switch random.next() % 7 {
    case 0: return Node(Int64(1))
    case 1: return try Node(json: #"{"a":1}"#)
    case 2: return try Node(json: #"{"a":{"a":{"a":1}},"b":{"a":1}}"#)
    case 3: return try Node(json: #"{"a":"\#(text)","b":"\#(text)"}"#)
    case 4: return try Node(json: #"{".value":1,".priority":1}"#)
    case 5 where random.next() % 16 == 0:
      let children = (100..<400).map { "\"z\($0)\":{\"a\":1}" }.joined(separator: ",")
      return try Node(json: "{\"z\":{\(children)}}")
    default: return Node(text)
    }
  }

  @Test(arguments: [0, 1, 3])
  func `commits add no more to the memory of a tree than it says`(orders: Int) throws {
    var random = SeededGenerator(printingSeedFor: "the most memory of texts")
    var plan = IndexPlan()
    let all = [Order.child(Path.root.child("a")), .child(Path.root.child("b")), .value]
    for depth in 1...4 {
      for order in all.prefix(orders) {
        plan.declare(order, at: Array(repeating: nil, count: depth))
      }
    }
    var tree = Tree(indexPlan: plan)
    #expect(tree.ordersMax == orders)
    var counted = MemoryCount()
    for round in 0..<2_500 {
      // Long chains of short keys, and long lists.
      let depth = round % 2 == 0 ? 1 + random.next() % 8 : 2
      let keys = try (0..<depth).map { level in
        try Key(level == 1 && round % 2 == 1 ? "\(random.next() % 5_000)" : "\(random.next() % 4)")
      }
      let before = tree
      tree.apply([Assignment(Path(keys: keys), try value(&random))], countsMemory: true)
      counted.addDifference(from: before.root, to: tree.root)
      try #require(counted.bytes <= tree.addedMemoryMax, "round \(round)")
    }
  }

  @Test func `the pages of branches that a small write unpacks count with the write`() throws {
    var tree = Tree()
    let members = (100..<300).map { "\"k\($0)\":1" }.joined(separator: ",")
    let chain = String(repeating: "{\"a\":", count: 20) + "1" + String(repeating: "}", count: 20)
    let chains = (0..<10).map { "\"\($0)x\":\(chain)" }.joined(separator: ",")
    for number in 0..<20 {
      let json = number % 2 == 0 ? members : chains
      tree.apply(
        [Assignment(try Path("list/k\(number)"), try Node(json: "{\(json)}"))], countsMemory: true)
    }
    let start = tree.addedMemoryMax
    let long = String(repeating: "y", count: 900)
    var counted = MemoryCount()
    for number in 0..<20 {
      for value in ["1", "{\".value\":1,\".priority\":1}", "\"\(long)\""] {
        let before = tree
        let path = number % 2 == 0 ? "list/k\(number)/z" : "list/k\(number)/0x/a/a/a/z"
        tree.apply([Assignment(try Path(path), try Node(json: value))], countsMemory: true)
        counted.addDifference(from: before.root, to: tree.root)
        try #require(counted.bytes <= tree.addedMemoryMax - start, "\(number)")
        if tree.root.at(try Path("list/k\(number)")).packed == nil { break }
      }
    }
    let unpacked = try (0..<20).count { tree.root.at(try Path("list/k\($0)")).packed == nil }
    #expect(unpacked == 20)
  }

  @Test func `values that move in an index count the pages that they begin`() throws {
    var plan = IndexPlan()
    plan.declare(.value, at: ["list"])
    var tree = Tree(indexPlan: plan)
    let count: Int64 = 20_000
    let children = (0..<count).map { (Key(index: Int32($0)), Node($0)) }
    tree.apply([Assignment(try Path("list"), Node(children: children))])
    let before = tree
    for number in (0..<count).reversed() {
      tree.apply(
        [Assignment(try Path("list/\(number)"), Node(-number - 1))], countsMemory: true)
    }
    var counted = MemoryCount()
    counted.addDifference(from: before.root, to: tree.root)
    #expect(counted.bytes > 0)
    #expect(counted.bytes <= tree.addedMemoryMax - before.addedMemoryMax)
  }

  @Test(arguments: [1, 2, 3, 200], [0, 1])
  func `equal texts count in each place`(places: Int, orders: Int) throws {
    var plan = IndexPlan()
    if orders > 0 { plan.declare(.value, at: ["list"]) }
    var tree = Tree(indexPlan: plan)
    tree.apply(
      try (0..<places).map { number -> Assignment in
        let text = String(repeating: "x", count: 9_000)
        return Assignment(try Path("list/\(number)"), Node(text))
      }, countsMemory: true)
    var counted = MemoryCount()
    counted.add(tree.root)
    #expect(counted.bytes <= tree.addedMemoryMax)
  }

  @Test(arguments: [0, 4], [0, 2])
  func `a large value counts once with its indexes, whatever other locations a write has`(
    own: Int, above: Int
  ) throws {
    var plan = IndexPlan()
    for number in 0..<own { plan.declare(.child(try Path("n\(number)")), at: ["large"]) }
    for number in 0..<above { plan.declare(.child(try Path("m\(number)")), at: []) }
    let members = (0..<5_000).map { "\"k\($0)\":{\"n0\":\"a text, number \($0)\"}" }
    var items = [
      Write.Item(try Path("large"), try Node(json: "{\(members.joined(separator: ","))}"))
    ]
    for number in 0..<60 { items.append(Write.Item(try Path("t/\(number)"), Node(Int64(number)))) }
    let root = try Node(json: "{\"t\":{\"0\":1}}")
    for isPrepared in [false, true] {
      var write = try Write(items)
      if isPrepared { write.addIndexes(of: plan, over: 0) }
      var tree = Tree(root: root, indexPlan: plan)
      let before = tree.root
      let nodes = WorkCounter.nodesTouched {
        tree.apply(write.assignments, of: write, countsMemory: true)
      }
      if isPrepared { #expect(nodes < 1_000) }
      var counted = MemoryCount()
      counted.addDifference(from: before, to: tree.root)
      #expect(counted.bytes > 5_000 * 64)
      #expect(counted.bytes <= tree.addedMemoryMax)
      #expect(tree.addedMemoryMax < counted.bytes / 5 * 6, "\(isPrepared)")
    }
  }

  @Test func `two locations that share a large value count it twice, without a visit`() throws {
    let members = (0..<5_000).map { "\"k\($0)\":{\"n\":\($0)}" }
    let json = "{\(members.joined(separator: ","))}"
    var write = try Write([
      Write.Item(try Path("a/x"), try Node(json: json)),
      Write.Item(try Path("b/x"), try Node(json: json)),
    ])
    write.addIndexes(of: IndexPlan(), over: 0)
    let assignments = write.resolved(in: .absent, at: 0)
    var tree = Tree()
    let nodes = WorkCounter.nodesTouched {
      tree.apply(assignments, of: write, countsMemory: true)
    }
    #expect(nodes < 100)
    var counted = MemoryCount()
    counted.add(tree.root)
    #expect(counted.bytes <= tree.addedMemoryMax && tree.addedMemoryMax < counted.bytes / 5 * 6)
  }

  @Test func `the orders of patterns that match one location count together`() {
    var plan = IndexPlan()
    plan.declare(.value, at: ["a", nil])
    plan.declare(.child(Path.root.child("x")), at: [nil, "b"])
    plan.declare(.child(Path.root.child("y")), at: ["c", "b"])
    #expect(Tree(indexPlan: plan).ordersMax == 2)
    plan.declare(.child(Path.root.child("z")), at: ["a", "b"])
    #expect(Tree(indexPlan: plan).ordersMax == 3)
    #expect(Tree().ordersMax == 0)
  }
}
