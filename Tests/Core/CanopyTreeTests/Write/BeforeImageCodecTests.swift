import CanopyTesting
import Testing

@testable import CanopyTree

/// The stored form of before-images.
struct BeforeImageCodecTests {
  private func encoded(_ image: [Assignment], of assignments: [Assignment]) -> String? {
    var output = JSONOutput()
    output.append("earlier text")
    return BeforeImageCodec.encode(image, of: assignments, &output) ? output.text : nil
  }

  private func decoded(_ text: String, of assignments: [Assignment]) throws -> [Assignment] {
    try decoded(Array(text.utf8), of: assignments)
  }

  private func decoded(_ bytes: [UInt8], of assignments: [Assignment]) throws -> [Assignment] {
    try bytes.withUnsafeBytes { try BeforeImageCodec.decode($0, of: assignments) }
  }

  @Test func `random before-images survive a round trip in both forms`() throws {
    try withSeed { random in
      var forms: [Character: Int] = [:]
      var tree = Tree()
      var writes = RandomWrites()
      writes.bigOnceIn = 40
      for _ in 0..<2000 {
        let requested = writes.next(&random).resolved(in: tree.root, at: 0)
        let image = tree.beforeImage(of: requested)
        let journaled = tree.apply(requested)
        guard let text = encoded(image, of: journaled) else {
          #expect(image.contains { $0.value.json(.export).utf8.count > 30_000 })
          continue
        }
        try #require(try decoded(text, of: journaled) == image, "\(text)")
        if let first = text.first { forms[first, default: 0] += 1 }
      }
      #expect(forms.count == 2 && forms.values.allSatisfy { $0 > 100 }, "\(forms)")
    }
  }

  @Test func `only values are stored if the locations are the commit's`() throws {
    let assignments = [Assignment.at("a", 1), .at("b/.priority", 2), .at("c", .absent)]
    let same = [Assignment.at("a", .absent), .at("b/.priority", "p"), .at("c", 7)]
    #expect(encoded(same, of: assignments) == #"[null,"p",7]"#)
    #expect(try decoded(#" [ null , "p" , 7 ] "#, of: assignments) == same)
    let others = [Assignment.at("a", 5), .at("b", .absent)]
    let text = #"{"of":[[["a"],5],[["b"],null]]}"#
    #expect(encoded(others, of: assignments) == text)
    #expect(try decoded(text, of: assignments) == others)
    #expect(encoded([], of: []) == "[]")
    #expect(try decoded("[]", of: []) == [])
  }

  @Test(arguments: [true, false])
  func `a before-image at the bound is stored, and one byte more is not`(isSame: Bool) throws {
    let assignments = [Assignment.at("a", 1)]
    func image(_ count: Int) -> [Assignment] {
      [.at(isSame ? "a" : "b", Node(String(repeating: "x", count: count)))]
    }
    let frame = try #require(encoded(image(0), of: assignments)).utf8.count
    let count = BeforeImageCodec.bytesMax - frame
    let text = try #require(encoded(image(count), of: assignments))
    #expect(text.utf8.count == BeforeImageCodec.bytesMax)
    #expect(try decoded(text, of: assignments) == image(count))
    #expect(encoded(image(count + 1), of: assignments) == nil)
    #expect(encoded(image(count * 100), of: assignments) == nil)
  }

  @Test func `the bound applies to all locations together`() {
    let assignments = [Assignment.at("a", 1), .at("b", 2)]
    // Two quoted strings, a comma and brackets: one byte below the bound and one above it.
    for (count, isKept) in [(4, true), (3, false)] {
      let text = Node(String(repeating: "x", count: BeforeImageCodec.bytesMax / 2 - count))
      let isEncoded = encoded([.at("a", text), .at("b", text)], of: assignments) != nil
      #expect(isEncoded == isKept)
    }
  }

  @Test func `many small values are stored up to the bound, whatever their estimate is`() throws {
    // A digit and a comma each, and the other bracket.
    let count = (BeforeImageCodec.bytesMax - 1) / 2
    func image(_ count: Int) -> [Assignment] {
      (0..<count).map { Assignment(Path.root.child(Key(index: Int32($0))), 1) }
    }
    let text = try #require(encoded(image(count), of: image(count)))
    #expect(text.utf8.count == BeforeImageCodec.bytesMax - 1)
    #expect(encoded(image(count + 1), of: image(count + 1)) == nil)
  }

  @Test func `one value at many locations is stored once if the locations are not the commit's`()
    throws
  {
    let value = Node(String(repeating: "x", count: BeforeImageCodec.bytesMax / 2))
    let image = (0..<100).map { Assignment(Path.root.child(Key(index: Int32($0))), value) }
    let text = try #require(encoded(image, of: []))
    #expect(try decoded(text, of: []) == image)
    #expect(encoded(image, of: image) == nil)
  }

  #if CANOPY_COUNT_WORK
    @Test func `a large image is given up after a bounded number of values`() {
      // Each value has a little less than the bound.
      let value = Node(children: (0..<1_000).map { (Key(index: $0), 7) })
      func touched(_ count: Int32) -> Int {
        let image = (0..<count).map { Assignment(Path.root.child(Key(index: $0)), value) }
        return WorkCounter.nodesTouched {
          #expect(encoded(image, of: image) == nil)
        }
      }
      let few = touched(100)
      #expect(few > 0 && touched(1_000) == few)
    }
  #endif

  private static let assignments = [Assignment.at("a", 1), .at("b", 2)]

  @Test(arguments: [
    "", " ", "null", "[", "]", "[1", "[1,", "[1,2", "[1]", "[1,2,3]", "[]", "[1,2]x", "[1 2]",
    "[1,2,]",
    "{}", "{\"of\":", "{\"of\":}", "{\"of\":[]", "{\"of\":[]]", "{\"of\":[]x", "{\"of\":[]}x",
    "{\"of\":[1]}", "{\"of\":[[[\"a\"],1],[[\"a/b\"],2]]}", "{\"of\":[[[\"a.b\"],1]]}",
    "{\"to\":[]}", "[1,{\".sv\":\"timestamp\"}]", "{\"of\":[[[\"a\"],{\".sv\":\"timestamp\"}]]}",
    "[1,{\"a\":1]", "[1,1e999]", "[1,\"\u{1}\"]",
  ])
  func `any other text is refused`(text: String) {
    #expect(throws: TreeError.self) { try decoded(text, of: Self.assignments) }
  }

  @Test func `truncated text is refused, and damaged text does not trap`() throws {
    try withSeed { random in
      let node = Node.of([
        "x": Node("é \"quoted\" \u{0}").withPriority("p"), "y": .of(["z": true, "0": -7]),
      ])
      for image in [
        [Assignment.at("a", node), .at("b", .absent)], [.at("a", 5), .at("b/.priority", 1)],
      ] {
        let bytes = Array(try #require(encoded(image, of: Self.assignments)).utf8)
        for count in bytes.indices {
          #expect(throws: TreeError.self) {
            try decoded(Array(bytes[..<count]), of: Self.assignments)
          }
        }
        for _ in 0..<5000 {
          var damaged = bytes
          for _ in 0...random.below(3) {
            damaged[random.below(damaged.count)] =
              random.oneIn(2) ? UInt8(random.below(256)) : random.pick(Array("[]{},:\"\\0e.".utf8))
          }
          do {
            var tree = Tree(root: node)
            tree.apply(try decoded(damaged, of: Self.assignments))
          } catch is TreeError {}
        }
      }
    }
  }
}
