import CanopyTesting
import Testing

@testable import CanopyTree

/// JSON that is written in pieces is the JSON that is written in one go.
struct JSONPiecesTests {
  private func text(_ node: Node, _ style: JSONStyle, pieces bytes: Int) -> String {
    var pieces = JSONPieces(node, style: style)
    var text: [UInt8] = []
    while !pieces.isDone {
      var output = JSONOutput()
      pieces.write(to: &output, bytes: bytes)
      text += output.bytes
    }
    return String(decoding: text, as: UTF8.self)
  }

  @Test func `random nodes are the same in pieces of any size and in either style`() throws {
    try withSeed { random in
      for _ in 0..<200 {
        let node = try Node(json: random.tree(height: 4).json)
        for style in [JSONStyle.plain, .export] {
          for bytes in [1, 7, 100, 100_000] {
            try #require(text(node, style, pieces: bytes) == node.json(style))
          }
        }
      }
    }
  }

  @Test(arguments: [
    "null", "1", "true", "\"a\"", #"{".value":1,".priority":"p"}"#, "[1,2,3]", "[null,1,null,3]",
    #"{"0":{"a":1},"1":[1,[2]],"3":1}"#, #"{"5":1}"#, #"{"-1":1,"0":2}"#, #"{"0":1,"a":2}"#,
    #"{".priority":3,"a":{".priority":"x","b":{".value":2,".priority":1}}}"#,
    #"{".priority":3,"0":1,"1":2}"#,
  ])
  func `special nodes are the same`(_ json: String) throws {
    let node = try Node(json: json)
    for style in [JSONStyle.plain, .export] {
      for bytes in [1, 5, 1_000] {
        #expect(text(node, style, pieces: bytes) == node.json(style))
      }
    }
  }

  @Test func `a piece is as long as was asked for and one record, even in an array of gaps`() {
    let text = String(repeating: "x", count: 100)
    var children: [(Key, Node)] = (0..<20_000).map { (Key(index: $0), Node(text)) }
    children.removeSubrange(1..<9_000)
    let node = Node(children: [("a", Node(children: children)), ("b", Node(text))])
    var pieces = JSONPieces(node)
    var count = 0
    var output = JSONOutput()
    while !pieces.isDone {
      let before = output.count
      pieces.write(to: &output, bytes: 1_000)
      // A run of nulls is cut as well.
      #expect(output.count - before <= 1_000 + max(5 * 1_024, PackedBranch.bytesMax) + 128)
      count += 1
    }
    #expect(output.text == node.json())
    #expect(count > 200)
  }

  /// Returns a random text whose bytes have any place: escapes, and characters of one to four bytes.
  private func randomText(_ random: inout SeededRandom, scalarsMax: Int) -> String {
    let parts = ["a", "/", "\"", "\\", "\n", "\u{1}", "é", "€", "😀", "plain text of some words "]
    let kinds = Int.random(in: 1...parts.count, using: &random)
    let chosen = (0..<kinds).map { _ in random.pick(parts) }
    let count = Int.random(in: 0...scalarsMax, using: &random)
    return (0..<count).map { _ in random.pick(chosen) }.joined()
  }

  @Test func `long texts are the same in pieces of any size, and no character is cut`() throws {
    try withSeed { random in
      for _ in 0..<15 {
        let texts = (0..<4).map { _ in Node(randomText(&random, scalarsMax: 900)) }
        let object = Node(children: [
          ("a", texts[0]), ("b", texts[1].withPriority(texts[2])), ("c", true), ("d", texts[3]),
        ])
        let array = Node(children: texts.enumerated().map { (Key(index: Int32($0)), $1) })
        for node in [texts[0], texts[0].withPriority(1), object, array] {
          for style in [JSONStyle.plain, .export] {
            let size = Int.random(in: 1...3_000, using: &random)
            for bytes in [1, 2, 3, size, 100_000] {
              try #require(text(node, style, pieces: bytes) == node.json(style))
              try #require(piecesAreValid(node, style, bytes))
            }
          }
        }
      }
    }
  }

  /// Whether each piece is valid UTF-8 by itself.
  private func piecesAreValid(_ node: Node, _ style: JSONStyle, _ bytes: Int) -> Bool {
    var pieces = JSONPieces(node, style: style)
    while !pieces.isDone {
      var output = JSONOutput()
      pieces.write(to: &output, bytes: bytes)
      if output.withBytes({ String(validating: $0, as: UTF8.self) }) == nil { return false }
    }
    return true
  }

  @Test(arguments: ["x", "\u{1}", "\"", "é", "😀"])
  func `a piece of a long text is about as long as was asked for, whatever its escapes`(
    character: String
  ) {
    let long = Node(String(repeating: character, count: 300_000))
    for node in [long, Node(children: [("a", long.withPriority(2)), ("b", long)])] {
      for bytes in [1_000, 65_536] {
        var pieces = JSONPieces(node, style: .export)
        var count = 0
        var total = 0
        while !pieces.isDone {
          var output = JSONOutput()
          pieces.write(to: &output, bytes: bytes)
          #expect(output.count <= bytes + 6 * 256 + 64)
          count += 1
          total += output.count
        }
        #expect(total == node.json(.export).utf8.count)
        #expect(count >= total / (bytes + 6 * 256 + 64))
      }
    }
  }

  @Test func `a text that does not fit into a bound is not begun`() {
    let long = Node(String(repeating: "x", count: 100_000))
    for node in [long, Node(children: [("a", true), ("b", long), ("c", long)])] {
      var output = JSONOutput()
      var isWhole = output.append(node, style: .plain, upTo: 1_000)
      #expect(!isWhole && output.count <= 1_000)
      isWhole = output.append(membersOf: Node(children: [("a", node)]), upTo: 1_000)
      #expect(!isWhole && output.count <= 2_000)
      output.removeAll()
      isWhole = output.append(node, style: .plain, upTo: 300_000)
      #expect(isWhole)
      #expect(output.text == node.json())
    }
  }
}
