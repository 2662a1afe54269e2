import CanopyTesting
import Testing

@testable import CanopyTree

/// The growth of branches that commits unpack.
@Suite(.timeLimit(.minutes(20))) struct UnpackedMemoryTests {
  /// Returns a random packed branch, whose child `a` is a branch with a child `a`, which is also a branch.
  private func packed(_ random: inout SeededGenerator) throws -> Node {
    func members() -> String {
      (0..<(1 + random.next() % 40)).map { number in
        let text = String(repeating: "t", count: Int(random.next() % 24))
        return ["\"k\(number)\":\(number)", "\"k\(number)\":\"\(text)\"", "\"k\(number)\":true"][
          Int(random.next() % 3)]
      }.joined(separator: ",")
    }
    return try Node(json: "{\"a\":{\"a\":{\(members())},\(members())},\(members())}")
  }

  private func memory(_ node: Node) -> Int {
    var count = MemoryCount()
    count.add(node)
    return count.bytes
  }

  @Test func `a tree counts the bytes by which unpacked branches grow besides the assigned values`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "unpacked branches")
    let long = Node(String(repeating: "y", count: 2_000))
    let values = [
      Node(1), long, try Node(json: #"{"k":1,"l":"a text"}"#), try Node(json: #"{"1":{"2":true}}"#),
    ]
    var unpacked = 0
    for round in 0..<2_000 {
      let root = try packed(&random)
      guard root.isPacked else { continue }
      var tree = Tree(root: root)
      let places = [["0"], ["a", "1"], ["a", "a", "2"], ["z"]]
        .filter { _ in random.next() % 2 == 0 }
      let assignments = try places.map { keys in
        let path = Path(keys: try keys.map { try Key($0) })
        return Assignment(path, random.pick(values))
      }
      tree.apply(assignments)
      if tree.root.isPacked {
        #expect(tree.unpackedBytes == 0, "round \(round)")
        continue
      }
      unpacked += 1
      let assigned = assignments.reduce(0) { $0 + memory($1.value) }
      try #require(
        memory(tree.root) - memory(root) == tree.unpackedBytes + assigned,
        "round \(round): \(places)")
    }
    #expect(unpacked > 500)
  }

  @Test func `a write that leaves branches packed unpacks nothing`() throws {
    var tree = Tree(root: try Node(json: #"{"post":{"stars":{"ada":true},"title":"t"}}"#))
    for path in ["post/stars/eve", "post/title", "post/stars/ada"] {
      tree.apply([Assignment(try Path(path), path.hasSuffix("ada") ? .absent : Node("x"))])
    }
    #expect(tree.root.isPacked && tree.unpackedBytes == 0)
  }
}
