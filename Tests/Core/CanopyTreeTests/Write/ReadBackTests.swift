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

  /// Returns a key of one of the forms that are read back in different ways.
  private func key(_ random: inout SeededRandom) -> Key {
    let number = random.below(1_000)
    return .of(
      random.pick([
        "\(number)", "0\(number)", "-\(number + 1)", "k\(number)", "é\(number)", "q\"\(number)\\",
        "-OaBcDeFgHiJkLmNo\(100 + number % 900)", "longlonglonglong\(number)",
        "long\"long\u{1F333}longlong\(number)",
      ]))
  }

  /// Returns assignments to many locations, some of them priorities, with few values or many.
  private func many(_ random: inout SeededRandom) -> [Assignment] {
    let branches = (0..<4).map { _ in Path.root.child(key(&random)).child(key(&random)) }
    let values = 1 + random.below(random.pick([2, 6, 1_000]))
    var found: Set<Location> = []
    for _ in 0..<1 + random.below(300) {
      var path = random.pick(branches)
      let isPriority = random.oneIn(8)
      // The priority of a branch stands before its children.
      if !isPriority || random.oneIn(2) { path = path.child(key(&random)) }
      let location = Location(path, isPriority: isPriority)
      // A priority of a node that is assigned itself would overlap.
      if !found.contains(Location(path, isPriority: !isPriority)) { found.insert(location) }
    }
    return found.sorted().map { Assignment($0, Node(Int64(random.below(values)))) }
  }

  @Test func `a commit with many locations of all kinds is verified, and no other commit is`()
    throws
  {
    try withSeed { random in
      for _ in 0..<60 {
        let assignments = many(&random)
        let bytes = encoded(assignments)
        try #require(decoded(bytes) == assignments)
        try #require(reads(bytes, as: assignments), "\(String(decoding: bytes, as: UTF8.self))")
        var output = JSONOutput()
        try #require(BeforeImageCodec.append(assignments, of: [.at("a", 1)], to: &output))
        let isRead = output.withBytes {
          BeforeImageCodec.decodes($0, as: assignments, of: [.at("a", 1)])
        }
        try #require(isRead)

        let (one, other) = (random.below(assignments.count), random.below(assignments.count))
        var others = assignments
        others[one].value = "another"
        try #require(!reads(bytes, as: others))
        others = assignments
        others.remove(at: one)
        try #require(!reads(bytes, as: others))
        // The locations of two values are exchanged in the text.
        if assignments[one].value != assignments[other].value {
          others = assignments
          others[one].location = assignments[other].location
          others[other].location = assignments[one].location
          try #require(!reads(encoded(others), as: assignments))
        }
        // A location is there twice.
        try #require(!reads(encoded(assignments + [assignments[one]]), as: assignments))
        for _ in 0..<10 {
          var damaged = bytes
          damaged[random.below(damaged.count)] = random.pick(Array(#"[]{}",:.0a\/é"#.utf8))
          guard reads(damaged, as: assignments) else { continue }
          try #require(decoded(damaged) == assignments)
        }
      }
    }
  }

  /// Functions that return the value of one of so many assignments.
  private static let patterns:
    [(name: String, value: @Sendable (_ index: Int, _ count: Int) -> Int)] = [
      ("one value", { _, _ in 0 }), ("different values", { index, _ in index }),
      ("four values in turn", { index, _ in index % 4 }),
      ("ten values in turn", { index, _ in index % 10 }),
      // Three groups end where they can only be found behind the fourth one.
      (
        "open groups",
        { index, count in index < 3 ? index : index < count - 3 ? 9 : index - (count - 3) }
      ),
    ]

  #if CANOPY_COUNT_WORK
    private func compared(_ body: () throws -> Void) rethrows -> Int {
      let counter = WorkCounter()
      try WorkCounter.$current.withValue(counter) { try body() }
      return counter.locationsCompared
    }

    @Test(
      arguments: ["k", "", "0", "longlonglonglong", "é", "q\"", "-OaBcDeFgHiJkLmN"], [false, true])
    func `each location is compared with few others, whatever its keys are`(
      prefix: String, isPriority: Bool
    ) throws {
      let branch = Path(keys: [Key](repeating: "level", count: 26))
      for (name, value) in Self.patterns {
        for count in [256, 2_048] {
          let locations = (0..<count).map { index in
            Location(branch.child(.of("\(prefix)\(1_000 + index)")), isPriority: isPriority)
          }
          let assignments = locations.sorted().enumerated().map { index, location in
            Assignment(location, Node(Int64(value(index, count))))
          }
          let bytes = encoded(assignments)
          let most = (2 * AssignmentCodec.window + 1) * count
          var isRead = false
          let work = compared { isRead = reads(bytes, as: assignments) }
          #expect(isRead && work >= count && work <= most, "\(name) at \(count): \(work)")
          let image = Array(assignments.suffix(200))
          var output = JSONOutput()
          #expect(BeforeImageCodec.append(image, of: [], to: &output))
          let workOfImage = compared {
            isRead = output.withBytes { BeforeImageCodec.decodes($0, as: image, of: []) }
          }
          #expect(isRead && workOfImage <= (2 * AssignmentCodec.window + 1) * 200, "\(name)")
        }
      }
    }

    @Test func `text in another order is refused after a bounded number of comparisons`() {
      // Each group has a location at each end, so each next one would be found behind all others.
      let count = 2_000
      let places = (0..<count).map { "longlonglonglong\(10_000 + $0)" }
      let assignments = places.enumerated().map { index, place in
        Assignment(
          Path.root.child(.of(place)), Node(Int64(min(index, count - 1 - index))))
      }
      let groups = (0..<count / 2).map {
        #"[["\#(places[$0])","\#(places[count - 1 - $0])"],\#($0)]"#
      }
      let bytes = Array("[\(groups.joined(separator: ","))]".utf8)
      #expect(decoded(bytes) == assignments)
      let work = compared { #expect(!reads(bytes, as: assignments)) }
      #expect(work <= (2 * AssignmentCodec.window + 1) * count)
    }

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
