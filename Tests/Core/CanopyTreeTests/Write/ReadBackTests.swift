import CanopyTesting
import Testing

@testable import CanopyTree

/// Verifying that the text of a commit decodes to it agrees with decoding it.
struct ReadBackTests {
  private func encoded(_ assignments: [Assignment]) -> [UInt8] {
    var output = JSONOutput()
    AssignmentCodec.encode(assignments, to: &output)
    return output.bytes
  }

  private func reads(_ bytes: [UInt8], as assignments: [Assignment]) -> Bool {
    bytes.withUnsafeBytes { AssignmentCodec.decodes($0, as: assignments) }
  }

  private func decoded(_ bytes: [UInt8]) -> [Assignment]? {
    bytes.withUnsafeBytes { try? AssignmentCodec.decode($0) }
  }

  @Test func `the text of every valid commit and before-image is verified`() throws {
    try withSeed { random in
      var tree = Tree()
      var writes = RandomWrites()
      writes.bigOnceIn = 40
      for _ in 0..<2_000 {
        let requested = writes.next(&random).resolved(in: tree.root, at: 0)
        let image = tree.beforeImage(of: requested)
        let journaled = tree.apply(requested)
        try #require(reads(encoded(journaled), as: journaled), "\(journaled)")
        var output = JSONOutput()
        guard BeforeImageCodec.append(image, of: journaled, to: &output) else { continue }
        let isRead = output.withBytes { BeforeImageCodec.decodes($0, as: image, of: journaled) }
        try #require(isRead, "\(output.text)")
      }
    }
  }

  @Test func `changed text is verified exactly if decoding gives the commit`() throws {
    try withSeed { random in
      var agreed = 0
      for _ in 0..<3_000 {
        let write = try Write(random.changes(1 + random.below(4), height: 3).map(\.item))
        let assignments = write.resolved(in: .absent, at: 0)
        var bytes = encoded(assignments)
        for _ in 0...random.below(2) {
          let index = random.below(bytes.count)
          switch random.below(3) {
          case 0: bytes.remove(at: index)
          case 1: bytes.insert(random.pick(Array(#"[]{}",:.0a\/"#.utf8)), at: index)
          default: bytes[index] = random.pick(Array(#"[]{}",:.0a\/é"#.utf8))
          }
          if bytes.isEmpty { break }
        }
        if reads(bytes, as: assignments) {
          agreed += 1
          try #require(decoded(bytes) == assignments, "\(String(decoding: bytes, as: UTF8.self))")
        }
      }
      // The next change sometimes undoes an inserted byte.
      #expect(agreed < 300)
    }
  }

  @Test func `one value at many locations is verified, each location once`() throws {
    let places = (0..<200).map { Key.of("place\($0)") }
    let assignments = places.sorted().enumerated().map {
      Assignment(Path.root.child($1), $0 % 7 == 0 ? Node(1) : .absent)
    }
    let bytes = encoded(assignments)
    #expect(reads(bytes, as: assignments))
    for index in [0, 99, 199] {
      var others = assignments
      others[index].value = 5
      #expect(!reads(bytes, as: others))
      others = assignments
      others.remove(at: index)
      #expect(!reads(bytes, as: others))
    }
    #expect(!reads(bytes, as: assignments + [.at("z", 1)]))
    #expect(!reads(bytes, as: assignments.reversed()))
    #expect(!reads(bytes, as: []))
    #expect(reads(encoded([]), as: []))
  }

  static let unreadable: [[Assignment]] = [
    // An invalid priority.
    [.at("a", Node(1).withPriority(true))],
    [.at("a", .of(["b": Node(1).withPriority(.of(["c": 1]))]))],
    [.at("a", Node.of(["b": 1]).withPriority(false))],
    // Not sorted, twice at one location, and one below the other.
    [.at("b", 1), .at("a", 1)], [.at("a", 1), .at("a", 2)], [.at("a", 1), .at("a/b", 1)],
    // A location that is too deep.
    [Assignment(Path(keys: [Key](repeating: "a", count: 33)), 1)],
  ]

  @Test(arguments: unreadable)
  func `text that decoding refuses or changes is not verified`(_ assignments: [Assignment]) {
    let bytes = encoded(assignments)
    #expect(decoded(bytes) != assignments)
    #expect(!reads(bytes, as: assignments))
  }

  @Test func `a value is verified up to the depth of the tree, in pages and packed`() {
    for key: Key in ["a", "1"] {
      var node: Node = 1
      for _ in 0..<Limits.depthMax { node = Node(children: [(key, node)]) }
      let deepest = [Assignment(.root, node)]
      #expect(reads(encoded(deepest), as: deepest))
      let deeper = [Assignment(.root, Node(children: [(key, node)]))]
      #expect(decoded(encoded(deeper)) == nil)
      #expect(!reads(encoded(deeper), as: deeper))
    }
  }

  #if CANOPY_COUNT_WORK
    @Test func `verifying creates no nodes of a packed branch`() {
      let post = Node.of(["title": "Hello", "body": "World", "starCount": 3])
      let assignments = [Assignment.at("posts/p", post), .at("user-posts/u/p", post)]
      let bytes = encoded(assignments)
      var isRead = false
      let touched = WorkCounter.nodesTouched { isRead = reads(bytes, as: assignments) }
      #expect(isRead && touched == 0)
    }
  #endif
}
