import CanopyTesting
import Testing

@testable import CanopyEngine
@testable import CanopyTree

/// The bytes that commits add to the memory of the tree.
@Suite(.timeLimit(.minutes(20))) struct TreeMemoryTests {
  /// Values with few bytes of text for each key, and long texts.
  private func value(_ random: inout SeededGenerator) throws -> Node {
    let text = String(repeating: "t", count: Int(random.next() % 60))
    switch random.next() % 6 {
    case 0: return Node(Int64(1))
    case 1: return try Node(json: #"{"a":1}"#)
    case 2: return try Node(json: #"{"a":{"a":{"a":1}},"b":{"a":1}}"#)
    case 3: return try Node(json: #"{"a":"\#(text)","b":"\#(text)"}"#)
    case 4: return try Node(json: #"{".value":1,".priority":1}"#)
    default: return Node(text)
    }
  }

  @Test(arguments: [0, 1, 3])
  func `commits add no more to the memory of a tree than their texts say`(orders: Int) throws {
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
    var (counted, most) = (MemoryCount(), 0)
    var scratch = JSONOutput(capacity: 1_024)
    for round in 0..<6_000 {
      // Long chains of short keys, and long lists.
      let depth = round % 2 == 0 ? 1 + random.next() % 8 : 2
      let keys = try (0..<depth).map { level in
        try Key(level == 1 && round % 2 == 1 ? "\(random.next() % 5_000)" : "\(random.next() % 4)")
      }
      let before = tree
      let assignments = tree.apply([Assignment(Path(keys: keys), try value(&random))])
      most += try CommitText(assignments, beforeImage: nil, scratch: &scratch)
        .memoryMax(
          of: assignments, orders: tree.ordersMax,
          unpackedBytes: tree.unpackedBytes - before.unpackedBytes)
      counted.addDifference(from: before.root, to: tree.root)
      try #require(counted.bytes <= most, "round \(round)")
    }
  }

  @Test func `the pages of branches that a small write unpacks count with the write`() throws {
    var tree = Tree()
    let members = (100..<300).map { "\"k\($0)\":1" }.joined(separator: ",")
    let chain = String(repeating: "{\"a\":", count: 20) + "1" + String(repeating: "}", count: 20)
    let chains = (0..<10).map { "\"\($0)x\":\(chain)" }.joined(separator: ",")
    for number in 0..<20 {
      let json = number % 2 == 0 ? members : chains
      tree.apply([Assignment(try Path("list/k\(number)"), try Node(json: "{\(json)}"))])
    }
    let start = tree.unpackedBytes
    let long = String(repeating: "y", count: 900)
    var (counted, most, ofTexts, ofMembers) = (MemoryCount(), 0, 0, 0)
    var scratch = JSONOutput(capacity: 1_024)
    for number in 0..<20 {
      let bytes = counted.bytes
      defer { if number % 2 == 0 { ofMembers += counted.bytes - bytes } }
      for value in ["1", "{\".value\":1,\".priority\":1}", "\"\(long)\""] {
        let before = tree
        let path = number % 2 == 0 ? "list/k\(number)/z" : "list/k\(number)/0x/a/a/a/z"
        let assignments = tree.apply([Assignment(try Path(path), try Node(json: value))])
        let text = try CommitText(assignments, beforeImage: nil, scratch: &scratch)
        let unpackedBytes = tree.unpackedBytes - before.unpackedBytes
        most += text.memoryMax(of: assignments, orders: 0, unpackedBytes: unpackedBytes)
        if number % 2 == 0 {
          ofTexts += text.memoryMax(of: assignments, orders: 0, unpackedBytes: 0)
        }
        counted.addDifference(from: before.root, to: tree.root)
        try #require(counted.bytes <= most, "\(number)")
        if unpackedBytes > 0 { break }
      }
    }
    // The texts alone do not say it.
    #expect(tree.unpackedBytes > start && ofMembers > ofTexts)
  }

  @Test(arguments: [1, 2, 3, 200], [0, 1])
  func `equal texts that stand in the text of a commit once count in each place`(
    places: Int, orders: Int
  ) throws {
    var plan = IndexPlan()
    if orders > 0 { plan.declare(.value, at: ["list"]) }
    var tree = Tree(indexPlan: plan)
    var scratch = JSONOutput(capacity: 1_024)
    let assignments = tree.apply(
      try (0..<places).map { number -> Assignment in
        let text = String(repeating: "x", count: 9_000)
        return Assignment(try Path("list/\(number)"), Node(text))
      })
    let text = try CommitText(assignments, beforeImage: nil, scratch: &scratch)
    #expect(text.byteCount < 15_000)
    var counted = MemoryCount()
    counted.add(tree.root)
    #expect(
      counted.bytes
        <= text.memoryMax(of: assignments, orders: tree.ordersMax, unpackedBytes: 0))
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
