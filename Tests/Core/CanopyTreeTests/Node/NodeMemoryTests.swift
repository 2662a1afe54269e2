import CanopyTesting
import Foundation
import Testing

@testable import CanopyTree

/// The estimates of the memory of nodes.
@Suite(.timeLimit(.minutes(20))) struct NodeMemoryTests {
  /// The shapes of values whose memory is compared with that of the allocator.
  enum Shape: String, CaseIterable {
    case list, chain, shortKeys, longKeys, pushIDs, shortStrings, longStrings, records
    case recordsInList, prioritized, prioritizedChain, indexed, changed, thinned

    /// Returns a value of several hundred kilobytes.
    func node() throws -> Node {
      switch self {
      case .list: return try list(20_000) { _ in "1" }
      case .chain: return try list(200) { _ in chain(30, of: "1") }
      case .shortKeys: return try object(10_000) { ("k\($0)", "true") }
      case .longKeys: return try object(5_000) { ("a key of thirty characters \($0)", "1") }
      case .pushIDs: return try object(10_000) { ("-OaBcDeFgHiJkLm\($0 + 10_000)", "true") }
      case .shortStrings: return try list(20_000) { _ in "\"fifteen bytes..\"" }
      case .longStrings:
        return try list(5_000) { "\"\(String(repeating: "s", count: 16 + $0 % 100))\"" }
      case .records: return try object(2_000) { ("k\($0)", Self.record($0)) }
      case .recordsInList: return try list(2_000) { Self.record($0) }
      case .prioritized:
        return try object(3_000) { ("k\($0)", "{\".value\":\($0),\".priority\":\($0)}") }
      case .prioritizedChain:
        let leaf = "{\".value\":1,\".priority\":1}"
        return try list(100) { _ in chain(15, of: leaf, ",\".priority\":1") }
      case .indexed:
        var plan = IndexPlan()
        plan.declare(.child(Path.root.child("title")), at: [])
        plan.declare(.value, at: [])
        return Tree(root: try object(3_000) { ("k\($0)", Self.record($0)) }, indexPlan: plan).root
      case .changed:
        // Made by changes, so that pages have room.
        var node = Node.absent
        for i in 0..<10_000 { node.set(true, at: try Path("\(i * 7_919 % 10_000)/1/2")) }
        return node
      case .thinned:
        var node = try list(20_000) { _ in "1" }
        for i in 0..<20_000 where i % 3 > 0 { node.set(.absent, at: try Path("\(i)")) }
        return node
      }
    }

    private static func record(_ i: Int) -> String {
      "{\"title\":\"the title of post \(i)\",\"body\":\"\(String(repeating: "b", count: i % 300))\"}"
    }

    private func list(_ count: Int, _ value: (Int) -> String) throws -> Node {
      try Node(json: "[" + (0..<count).map(value).joined(separator: ",") + "]")
    }

    private func object(_ count: Int, _ member: (Int) -> (String, String)) throws -> Node {
      let members = (0..<count).map { i in
        let (key, value) = member(i)
        return "\"\(key)\":\(value)"
      }
      return try Node(json: "{" + members.joined(separator: ",") + "}")
    }

    private func chain(_ levels: Int, of value: String, _ more: String = "") -> String {
      String(repeating: "{\"1\":", count: levels) + value
        + String(repeating: more + "}", count: levels)
    }
  }

  /// Returns the bytes that the allocator has handed out; nil if the system does not say.
  private static func allocatedBytes() -> Int? {
    typealias Info = @convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32
    guard let symbol = dlsym(nil, "malloc_info") else { return nil }
    var text: UnsafeMutablePointer<CChar>?
    var count = 0
    guard let file = open_memstream(&text, &count) else { return nil }
    _ = unsafeBitCast(symbol, to: Info.self)(0, file)
    fclose(file)
    defer { free(text) }
    guard let report = text.map({ String(cString: $0) }) else { return nil }
    /// The last number of a kind is the sum of all heaps.
    func bytes(_ kind: String) -> Int {
      guard let found = report.range(of: kind, options: .backwards),
        let size = report[found.upperBound...].range(of: "size=\"")
      else { return 0 }
      return Int(report[size.upperBound...].prefix { $0.isNumber }) ?? 0
    }
    return bytes("<system type=\"current\"") - bytes("<total type=\"fast\"")
      - bytes("<total type=\"rest\"") + bytes("<total type=\"mmap\"")
  }

  @Test(.disabled(if: Sanitizer.isPresent, "a sanitizer has an allocator of its own"))
  func `a value is charged with the memory that it takes, whatever its shape is`() async {
    // A process of its own, whose allocations are those of the values.
    await #expect(processExitsWith: .success) {
      for shape in Shape.allCases {
        var copies: [Node] = []
        var estimate = 0
        for _ in 0..<3 {
          let node = try shape.node()
          estimate += node.heldBytes(atMost: .max)
          copies.append(node)
        }
        guard let full = NodeMemoryTests.allocatedBytes() else { return }
        copies = []
        guard let empty = NodeMemoryTests.allocatedBytes() else { return }
        let taken = full - empty
        #expect(taken > 300_000, "\(shape): \(taken)")
        #expect(
          Double(taken) * 0.97 <= Double(estimate) && Double(estimate) <= Double(taken) * 1.1,
          "\(shape): the estimate is \(estimate), the allocator has \(taken)")
      }
    }
  }

  @Test func `the walk that measures JSON finds the same memory`() throws {
    for shape in Shape.allCases {
      let node = try shape.node()
      var budget = ByteBudget(.max)
      #expect(node.fits(budget: &budget))
      #expect(budget.memory + 64 == node.heldBytes(atMost: .max), "\(shape)")
      #expect(budget.used.json >= node.json(.export).utf8.count, "\(shape)")
    }
  }

  @Test func `a value has no more bytes of JSON than were counted`() throws {
    var random = SeededRandom(printingSeedFor: "NodeMemoryTests")
    for _ in 0..<20_000 {
      let node = random.tree(height: 4).node
      var budget = ByteBudget(.max)
      #expect(node.fits(budget: &budget))
      for style in [JSONStyle.plain, .export] {
        let text = node.json(style)
        #expect(budget.used.json >= text.utf8.count, "\(text)")
      }
    }
  }

  @Test func `memory is counted up to a bound`() throws {
    let node = try Shape.list.node()
    let bytes = node.heldBytes(atMost: .max)
    #expect(node.heldBytes(atMost: bytes) == bytes)
    #expect(node.heldBytes(atMost: bytes + 1) == bytes)
    #expect(node.heldBytes(atMost: bytes - 1) == bytes - 1)
    #expect(node.heldBytes(atMost: 1_000) == 1_000)
    #expect(Node(1).heldBytes(atMost: 1_000) == 64)
  }

  @Test func `one reply may take half of the budget, or as much as its JSON`() {
    var limits = Limits()
    limits.memoryMax = 4_000
    for (json, memory, mayBeHeld) in [
      (10, 2_000, true), (10, 2_001, false), (3_000, 3_000, true), (3_000, 3_001, false),
    ] {
      #expect(ValueBytes(json: json, memory: memory).mayBeHeld(limits) == mayBeHeld)
    }
  }

  @Test func `the default budget holds every value of a reply that was written as a whole`() {
    // Branches with one child have the least JSON for their memory.
    var chain: Node = true
    for _ in 1..<Limits.depthMax { chain = Node(children: [("k", chain)]) }
    let node = Node(children: (0..<1_000).map { (Key(index: $0), chain) })
    var budget = ByteBudget(.max)
    #expect(node.fits(budget: &budget))
    let limits = Limits()
    #expect(
      budget.used.memory * (limits.replyBytesMax / 1024) / (budget.used.json / 1024)
        < limits.memoryMax / 2)
  }
}
