import CanopyTesting
import Testing

@testable import CanopyTree

/// Values that are encoded before the write is decided.
struct EncodedValueTests {
  private func text(_ assignments: [Assignment], of write: Write?) -> String {
    var output = JSONOutput()
    AssignmentCodec.encode(assignments, of: write, to: &output)
    return output.text
  }

  @Test func `the text of a commit is the same with encoded values and without`() throws {
    try withSeed { random in
      var tree = Tree()
      var writes = RandomWrites()
      writes.bigOnceIn = 40
      for _ in 0..<2_000 {
        var write = writes.next(&random)
        write.encodeValues(over: Int.random(in: 0...64, using: &random))
        let journaled = tree.apply(write.resolved(in: tree.root, at: 0))
        let encoded = text(journaled, of: write)
        try #require(encoded == text(journaled, of: nil))
        let isRead = Array(encoded.utf8).withUnsafeBytes {
          AssignmentCodec.decodes($0, as: journaled, of: write)
        }
        try #require(isRead, "\(journaled)")
      }
    }
  }

  @Test func `values are encoded if they have more bytes than the bound`() throws {
    let value = Node(String(repeating: "v", count: 100))
    func count(_ values: [Node], over bytes: Int) throws -> Int {
      var write = try Write(
        setting: values.enumerated().map { try Assignment(Path("k\($0)"), $1) })
      write.encodeValues(over: bytes)
      return write.encodedValues?.count ?? 0
    }
    #expect(try count([value], over: 1_000) == 0)
    #expect(try count([value], over: 10) == 1)
    // The same string has one text.
    #expect(try count([value, value], over: 150) == 1)
    #expect(try count([value, .absent, 1], over: 0) == 1)
    #expect(try count([.absent], over: 0) == 0)
    // A string that has no memory of its own takes no time.
    #expect(try count([Node(String(repeating: "v", count: 15))], over: 0) == 0)
    #expect(try count([Node(String(repeating: "v", count: 16))], over: 0) == 1)
  }

  @Test func `each of many strings is encoded, and found again`() throws {
    let strings = (0..<200).map { Node(String(repeating: "v", count: 1_000) + "\($0)") }
    var write = try Write(
      setting: strings.enumerated().map { try Assignment(Path("k\($0)"), $1) })
    write.encodeValues(over: 10_000)
    #expect(write.encodedValues?.count == 200)
    var tree = Tree()
    let journaled = tree.apply(write.resolved(in: .absent, at: 0), of: write)
    #expect(journaled.count == 200)
    for assignment in journaled {
      let text = write.encodedValues?.withText(of: assignment.value) { Array($0) }
      #expect(text == Array(assignment.value.json(.export).utf8))
    }
    // An equal string elsewhere in memory is another.
    let other = Node(String(repeating: "v", count: 1_000) + "7")
    #expect(write.encodedValues?.withText(of: other) { $0.count } == nil)
  }

  @Test func `a text is found whatever stands before its value`() throws {
    let equal = [Node(children: [("x", 1)]), Node(children: [("x", 1)])]
    let last = Node(children: [("y", 2)])
    var write = try Write(setting: [
      Assignment(Path(keys: ["a", "k"]), equal[0]),
      Assignment(Path(keys: ["b", "k"]), equal[1]),
      Assignment(Path("c"), .absent), Assignment(Path("d"), last),
    ])
    write.encodeValues(over: 0)
    // Equal values become one node.
    let resolved = write.resolved(in: .absent, at: 0)
    #expect(resolved[1].value.isIdentical(to: equal[0]))
    #expect(write.encodedValues?.withText(of: resolved[1].value) { $0.count } == 7)
    #expect(write.encodedValues?.withText(of: last) { $0.count } == 7)
    var tree = Tree()
    tree.keepIndex(.value, at: ["d"])
    let journaled = tree.apply(resolved)
    #expect(
      journaled.allSatisfy {
        $0.value.isAbsent || write.encodedValues?.withText(of: $0.value) { $0.count } == 7
      })
    #expect(text(journaled, of: write) == text(journaled, of: nil))
  }

  @Test func `the text is that of the node, whatever was encoded`() throws {
    let node = Node(children: [("a", 1)])
    var write = try Write(setting: [Assignment(Path("p"), node)])
    write.encodeValues(over: 0)
    let other = [Assignment(Path("p"), Node(children: [("a", 2)]))]
    #expect(text(other, of: write) == #"[[["p"],{"a":2}]]"#)
    let isRead = Array(text(other, of: nil).utf8).withUnsafeBytes {
      AssignmentCodec.decodes($0, as: other, of: write)
    }
    #expect(isRead)
    // Values that the server derives stand between the encoded ones.
    let more = [Assignment(Path("o"), 7)] + write.assignments + [Assignment(Path("q"), 8)]
    #expect(text(more, of: write) == #"[[["o"],7],[["p"],{"a":1}],[["q"],8]]"#)
    let moved = try write.moved(to: Location(Path("elsewhere")))
    #expect(moved.encodedValues?.count == 1)
    #expect(text(moved.assignments, of: moved) == #"[[["elsewhere"],{"a":1}]]"#)
  }
}
