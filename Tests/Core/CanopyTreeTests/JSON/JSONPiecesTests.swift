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
}
