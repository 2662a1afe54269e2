import CanopyTesting
import Testing

@testable import CanopyTree

/// The journal's form of a commit.
struct AssignmentCodecTests {
  private func encoded(_ assignments: [Assignment]) -> [UInt8] {
    var output = JSONOutput()
    AssignmentCodec.encode(assignments, to: &output)
    return output.bytes
  }

  private func decoded(_ bytes: [UInt8]) throws -> [Assignment] {
    try bytes.withUnsafeBytes { try AssignmentCodec.decode($0) }
  }

  private func locations(_ bytes: [UInt8]) throws -> [Location] {
    try bytes.withUnsafeBytes { try AssignmentCodec.decodeLocations($0) }
  }

  @Test func `random commits survive a round trip`() throws {
    try withSeed { random in
      for _ in 0..<500 {
        let write = try Write(random.changes(random.below(6), height: 3).map(\.item))
        let assignments = write.resolved(in: .absent, at: 0)
        try #require(try decoded(encoded(assignments)) == assignments)
        let locations = try locations(encoded(assignments))
        try #require(locations.sorted() == assignments.map(\.location))
      }
    }
  }

  @Test func `a value for several locations is written once and shared again`() throws {
    let post = Node.of(["title": "Hello", "stars": .of(["a": true])])
    let assignments = [
      Assignment.at("posts/p", post), Assignment.at("user-posts/u/p", post),
      Assignment.at("user-posts/u/q", .absent), Assignment.at("x", .absent), Assignment.at("y", 1),
      Assignment.at("z/.priority", 1),
    ]
    let bytes = encoded(assignments)
    #expect(
      String(decoding: bytes, as: UTF8.self)
        == #"[[["posts/p","user-posts/u/p"],{"stars":{"a":true},"title":"Hello"}],"#
        + #"[["user-posts/u/q","x"],null],[["y","z/.priority"],1]]"#)
    let back = try decoded(bytes)
    #expect(back == assignments)
    #expect(back[0].value.isIdentical(to: back[1].value))
  }

  @Test func `no assignments are an empty list`() throws {
    #expect(String(decoding: encoded([]), as: UTF8.self) == "[]")
    #expect(try decoded(Array(" [ ] ".utf8)).isEmpty)
  }

  @Test func `assignments are decoded in the order of their locations`() throws {
    let assignments = [Assignment.at("b", 1), Assignment.at("a", 2), Assignment.at("c", 1)]
    #expect(try decoded(encoded(assignments)).map(\.location) == ["a", "b", "c"])
  }

  @Test func `a string beyond the clients' limits is decoded`() throws {
    let text = String(repeating: "x", count: 11 * 1024 * 1024)
    let assignments = [Assignment.at("a", Node(text))]
    #expect(try decoded(encoded(assignments)) == assignments)
  }

  @Test(arguments: [
    "", "{}", "[", "[[]]", "[[[]]]", "[[1,2]]", #"[[["a"]]]"#, #"[[["a"],1]"#, #"[[["a"],1]]x"#,
    #"[[["a.b"],1]]"#, #"[[["a"],{".sv":"timestamp"}]]"#, #"[[["a"],1,2]]"#, #"[[[1],1]]"#,
    #"[[["a"],1],]"#, #"[[["a",],1]]"#, #"[[["a" "b"],1]]"#, #"[[["a"],1][["b"],1]]"#,
  ])
  func `any other text is refused`(text: String) {
    #expect(throws: TreeError.self) { try decoded(Array(text.utf8)) }
    // The locations do not depend on the contents of values.
    guard !text.contains(".sv") else { return }
    #expect(throws: TreeError.self) { try locations(Array(text.utf8)) }
  }

  @Test(arguments: [
    "1", "-1.5e3", "true", "null", #""]}\"[""#, #"{"a]":["}",{"b":"\\"}],"c":{}}"#, "[]",
    "[[1],[[]]]",
  ])
  func `locations are found after any value, but not after a truncated one`(value: String)
    throws
  {
    let text = Array("[[[\"a\",\"b\"],\(value)],[[\"c\"],1]]".utf8)
    #expect(try locations(text) == ["a", "b", "c"])
    for end in text.indices {
      #expect(throws: TreeError.self) { try locations(Array(text[..<end])) }
    }
  }
}
