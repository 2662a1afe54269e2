import CanopyTesting
import CanopyTree
import NIOEmbedded
import Testing

@testable import CanopyEvents

@Suite struct EncodedNodesTests {
  private typealias Counts = EncodedNodes.Counts

  /// A post with an array in it, which is not stored as text.
  private func post(_ i: Int, _ body: String = "body") throws -> Node {
    try WriteValue(
      json: "{\"title\":\"post \(i)\",\"body\":\"\(body)\",\"starCount\":\(i),\"tags\":[1,2]}"
    ).node
  }

  private func texts(of nodes: [Node], _ style: JSONStyle, _ encoded: EncodedNodes) -> [String] {
    nodes.map { node in
      var output = JSONOutput()
      encoded.append(node, style: style, to: &output)
      return output.text
    }
  }

  private func members(of node: Node, _ encoded: EncodedNodes, upTo bytesMax: Int = .max) -> String?
  {
    var output = JSONOutput()
    return encoded.append(membersOf: node, to: &output, upTo: bytesMax) ? output.text : nil
  }

  private func members(of node: Node) -> String {
    var output = JSONOutput()
    output.append(membersOf: node)
    return output.text
  }

  @Test func `a small branch is stored as text and is not kept`() throws {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    let post = try WriteValue(json: #"{"title":"a","body":"b"}"#).node
    for _ in 0..<2 {
      #expect(texts(of: [post], .plain, encoded) == [#"{"body":"b","title":"a"}"#])
      #expect(members(of: post, encoded) == #","body":"b","title":"a""#)
    }
    #expect(encoded.counts == Counts())
  }

  @Test(arguments: [JSONStyle.plain, .export])
  func `a branch is encoded once in a style, and has the same text afterwards`(_ style: JSONStyle)
    throws
  {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    let posts = try (0..<100).map { try post($0) }
    for _ in 0..<3 {
      #expect(texts(of: posts, style, encoded) == posts.map { $0.json(style) })
    }
    #expect(encoded.counts == Counts(made: 100, found: 200))
  }

  @Test func `a list and a location share the text of a branch, a style of its own does not`()
    throws
  {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    let post = try post(1)
    #expect(members(of: post, encoded) == members(of: post))
    #expect(texts(of: [post], .plain, encoded) == [post.json(.plain)])
    #expect(encoded.counts == Counts(made: 1, found: 1))
    #expect(texts(of: [post], .export, encoded) == [post.json(.export)])
    #expect(post.json(.export) != post.json(.plain))
    #expect(encoded.counts == Counts(made: 2, found: 1))
  }

  @Test func `the members of an array have keys`() throws {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    let array = try WriteValue(json: #"["x",{"a":[1,2]}]"#).node
    for _ in 0..<2 {
      #expect(texts(of: [array], .plain, encoded) == [#"["x",{"a":[1,2]}]"#])
      #expect(members(of: array, encoded) == #","0":"x","1":{"a":[1,2]}"#)
    }
    #expect(encoded.counts == Counts(made: 1, found: 3))
  }

  @Test func `parts have the text of their pieces`() throws {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    let members = try ["b", "a", "1"].enumerated().map { (key: try Key($1), node: try post($0)) }
    let cases: [[LinePieces.Part]] = [
      [], [.text(Array("x".utf8)), .node(try post(1), .export), .text([])],
      [.members([], .plain)], [.members(members[...], .plain), .node(.absent, .plain)],
    ]
    for parts in cases {
      var pieces = LinePieces(bytes: ValueBytes(json: 1000), parts: parts)
      var whole = JSONOutput()
      var output = JSONOutput()
      while !pieces.isDone { pieces.write(to: &whole, bytes: 10) }
      encoded.append(parts, to: &output)
      #expect(output.text == whole.text)
    }
  }

  @Test func `a branch that has changed is encoded again, also if it was changed in place`() throws
  {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    var tree = Tree()
    tree.apply([Assignment(try Path("p"), try post(1))])
    for i in 2..<50 {
      tree.apply([Assignment(try Path("p/starCount"), Node(Int64(i)))])
      let node = tree.root.child("p")
      #expect(members(of: node, encoded) == members(of: node))
    }
    #expect(encoded.counts == Counts(made: 49 - 1))
  }

  @Test func `at the bound the oldest texts are removed, and the latest stay`() throws {
    let bytes = try post(10).json().utf8.count + post(10).heldBytes(atMost: .max)
    let encoded = EncodedNodes(loop: EmbeddedEventLoop(), bytesMax: 64 * bytes)
    let posts = try (10..<75).map { try post($0) }
    let expected = posts.map { $0.json() }
    #expect(texts(of: Array(posts.prefix(64)), .plain, encoded) == Array(expected.prefix(64)))
    #expect(texts(of: Array(posts.prefix(64)), .plain, encoded) == Array(expected.prefix(64)))
    #expect(encoded.counts == Counts(made: 64, found: 64))
    #expect(texts(of: [posts[64]], .plain, encoded) == [expected[64]])
    #expect(texts(of: Array(posts[1...]), .plain, encoded) == Array(expected[1...]))
    #expect(encoded.counts == Counts(made: 65, found: 128))
    #expect(texts(of: [posts[0]], .plain, encoded) == [expected[0]])
    #expect(encoded.counts == Counts(made: 66, found: 128))
  }

  @Test func `a text that is longer than it may be is not kept, or not appended`() throws {
    let post = try post(1)
    let bytes = post.json().utf8.count
    for (room, found) in [(bytes, 1), (bytes - 1, 0)] {
      let encoded = EncodedNodes(loop: EmbeddedEventLoop(), bytesMax: 64 * room)
      for _ in 0..<2 { #expect(texts(of: [post], .plain, encoded) == [post.json()]) }
      #expect(encoded.counts.found == found)
    }
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    #expect(members(of: post, encoded, upTo: 10) == nil)
    #expect(members(of: post, encoded, upTo: bytes) == members(of: post))
    // A text that is there already costs nothing.
    #expect(members(of: post, encoded, upTo: 10) == members(of: post))
  }

  @Test func `a branch that takes more memory than it may is not kept, however short its text is`()
    throws
  {
    // Each number has a place in a page, and two bytes of text.
    let list = try WriteValue(json: "[" + String(repeating: "1,", count: 500) + "1]").node
    let memory = list.heldBytes(atMost: .max)
    #expect(memory > 20 * list.json().utf8.count)
    for (room, found) in [(memory + 1, 1), (memory, 0)] {
      let encoded = EncodedNodes(loop: EmbeddedEventLoop(), bytesMax: 8 * room)
      for _ in 0..<2 { #expect(texts(of: [list], .plain, encoded) == [list.json()]) }
      #expect(encoded.counts.found == found)
    }
  }

  @Test func `a leaf and a branch with a priority are encoded each time`() throws {
    let encoded = EncodedNodes(loop: EmbeddedEventLoop())
    let nodes = [Node(5), try WriteValue(json: "{\"a\":[1,2],\".priority\":2}").node]
    for _ in 0..<3 {
      #expect(texts(of: nodes, .export, encoded) == nodes.map { $0.json(.export) })
    }
    #expect(encoded.counts == Counts())
  }
}
