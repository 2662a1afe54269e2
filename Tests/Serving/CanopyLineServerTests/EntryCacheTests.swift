import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyLineServer

struct EntryCacheTests {
  /// A post with an array in it, which is not stored as text.
  private func post(_ i: Int, _ body: String = "body") throws -> Node {
    try WriteValue(
      json: "{\"title\":\"post \(i)\",\"body\":\"\(body)\",\"starCount\":\(i),\"tags\":[1,2]}"
    ).node
  }

  @Test func `a small post is stored as text and takes no space in the cache`() throws {
    let cache = EntryCache()
    let post = try WriteValue(json: #"{"title":"a","body":"b"}"#).node
    for _ in 0..<2 { #expect(text([post], cache) == #"{"id":"k","body":"b","title":"a"}"#) }
    #expect(cache.counts == (0, 0))
  }

  private func text(_ nodes: [Node], _ cache: EntryCache?) -> String {
    var output = JSONOutput()
    for node in nodes {
      let isWhole = output.append(entry: "k", node, upTo: .max, cache)
      #expect(isWhole)
    }
    return output.text
  }

  @Test func `an entry is encoded once, and has the same text afterwards`() throws {
    let cache = EntryCache()
    let posts = try (0..<100).map { try post($0) }
    let expected = text(posts, nil)
    for _ in 0..<3 { #expect(text(posts, cache) == expected) }
    #expect(cache.counts == (100, 200))
  }

  @Test func `an entry that has changed is encoded again, also if it was changed in place`()
    throws
  {
    let cache = EntryCache()
    var tree = Tree()
    tree.apply([Assignment(try Path("p"), try post(1))])
    for i in 2..<50 {
      tree.apply([Assignment(try Path("p/starCount"), Node(Int64(i)))])
      let node = tree.root.child("p")
      #expect(text([node], cache) == text([node], nil))
    }
    #expect(cache.counts == (49 - 1, 0))
  }

  @Test func `at its bound the cache removes its entries and goes on`() throws {
    let cache = EntryCache(bytesMax: 64 * 100)
    let posts = try (0..<1_000).map { try post($0) }
    #expect(text(posts, cache) == text(posts, nil))
    #expect(text(posts, cache) == text(posts, nil))
    let last = Array(posts.suffix(10))
    #expect(text(last, cache) == text(last, nil))
    #expect(cache.counts.found >= 10)
  }

  @Test func `a long entry, a leaf, and a node with a priority are encoded each time`()
    throws
  {
    let cache = EntryCache(bytesMax: 64 * 100)
    let nodes = [
      try post(1, String(repeating: "x", count: 100)), 5,
      try WriteValue(json: "{\"a\":1,\".priority\":2}").node,
    ]
    for _ in 0..<3 { #expect(text(nodes, cache) == text(nodes, nil)) }
    #expect(cache.counts == (3, 0))
  }

  @Test(arguments: Depth.allCases)
  func `a list shows the changes since the last request`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connect(as: "ada")
      for i in 0..<20 { try await client.value("POST \"post \(i)\" body") }
      let first = try await client.request("RECENT")
      try await client.expect("RECENT", first)
      let id = try #require(
        try JSONValue(json: String(first.dropFirst())).elements?[3]["id"]?.string)
      try await client.value("STAR \(id)")
      let second = try await client.value("RECENT")
      #expect(second.elements?[3]["starCount"]?.integer == 1)
      #expect(second.elements?[4]["starCount"]?.integer == 0)
    }
  }
}
