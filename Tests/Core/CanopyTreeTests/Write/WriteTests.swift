import CanopyTesting
import Testing

@testable import CanopyTree

/// The writes that are refused.
struct WriteTests {
  private func write(_ locations: String...) throws -> Write {
    try Write(locations.map { Write.Item(try Location($0), WriteValue(1)) })
  }

  @Test(arguments: [
    ["a", "a"], ["a", "a/b"], ["a/b", "a"], ["", "a"], ["", ".priority"], ["a", "a/.priority"],
    ["a/b/c", "x", "a"], ["a", "a/b/.priority"], ["a/.priority", "a/.priority"],
    ["a!", "a/b", "ab", "b", "a"], ["a/b/c/d", "a/b!", "a/b"], ["10", "9", "10/a"],
  ])
  func `one location at or below another is refused`(locations: [String]) throws {
    for locations in [locations, locations.reversed()] {
      #expect {
        try Write(locations.map { Write.Item(try Location($0), WriteValue(1)) })
      } throws: {
        if case .invalidData? = $0 as? TreeError { true } else { false }
      }
    }
  }

  @Test(arguments: [
    ["a", "b"], ["a/b", "a/c"], ["a/b", "a/bc"], ["a/.priority", "a/b"], [".priority", "a"],
    ["a/.priority", "b", "a/b/.priority", "a/c"], ["a!", "a/b", "ab"], [],
  ])
  func `locations that do not overlap are accepted in any order`(locations: [String]) throws {
    let items = try locations.map { Write.Item(try Location($0), WriteValue(1)) }
    let write = try Write(items)
    #expect(try Write(items.reversed()).items.map(\.location) == write.items.map(\.location))
    #expect(write.items.map(\.location) == write.items.map(\.location).sorted())
  }

  @Test func `a write of assignments is checked like one of items, and resolves to them`() throws {
    let b = Assignment(Path("b"), 2)
    let a = Assignment(Path("a/x"), 1)
    let write = try Write(setting: [b, a])
    #expect(write.assignments == [a, b])
    let resolved = write.resolved(in: .absent, at: 1)
    #expect(resolved == [a, b])
    let isSame = write.assignments.withUnsafeBufferPointer { write in
      resolved.withUnsafeBufferPointer { $0.baseAddress == write.baseAddress }
    }
    #expect(isSame, "they are not copied")
    #expect(throws: TreeError.self) { try Write(setting: [a, Assignment(Path("a"), 2)]) }
    #expect(throws: TreeError.self) { try Write(setting: [a, a]) }
  }

  @Test func `server values stay with their items when others are removed`() throws {
    let time = WriteValue(
      .absent, serverValues: [LocatedServerValue(path: .root, isPriority: false, value: .timestamp)]
    )
    let items = [
      Write.Item(Location("a"), WriteValue(1)), Write.Item(Location("b"), time),
      Write.Item(Location("c"), WriteValue(3)), Write.Item(Location("d"), time),
    ]
    var write = try Write(items)
    #expect(write.items.map(\.value.serverValues.count) == [0, 1, 0, 1])
    #expect(
      write.removeItems(coveredBy: LocationCover([Location("a"), Location("d")])).count == 2
    )
    #expect(write.items.map(\.value.serverValues.count) == [1, 0])
    #expect(
      write.resolved(in: .absent, at: 7)
        == [Assignment(Path("b"), 7), Assignment(Path("c"), 3)])
  }

  @Test func `random writes are refused exactly when two locations overlap`() throws {
    try withSeed { random in
      for _ in 0..<3000 {
        let changes = random.changes(2) + random.changes(2)
        var overlaps = false
        for (i, a) in changes.enumerated() {
          for b in changes[(i + 1)...] where a.overlaps(b) { overlaps = true }
        }
        let write = try? Write(changes.map(\.item))
        try #require((write == nil) == overlaps)
      }
    }
  }

  private func deep(_ levels: Int, _ leaf: Node = 1) -> Node {
    (0..<levels).reduce(leaf) { node, _ in Node.of(["a": node]) }
  }

  private func path(_ count: Int) throws -> Path {
    try Path([Key](repeating: "p", count: count))
  }

  @Test func `data is at most 32 levels deep`() throws {
    for depth in [0, 1, 16, 31, 32] {
      _ = try Write([.init(try path(depth), deep(32 - depth))])
      #expect(throws: TreeError.self) { try Write([.init(try path(depth), deep(33 - depth))]) }
    }
    var location = try path(32)
    _ = try Write([.init(location, .absent)])
    location = location.child("a")
    #expect(throws: TreeError.self) { try Write([.init(location, 1)]) }
    #expect(throws: TreeError.self) { try Write.update(try path(32), [("a", WriteValue(1))]) }
  }

  @Test func `an update repeats at most a mebibyte of its path`() throws {
    let key = try Key(String(repeating: "k", count: 511))
    let changes = try (0..<2_049).map { (Location(try Path("\($0)")), WriteValue(1)) }
    // Each location repeats the key and a slash.
    let write = try Write.update(Path(keys: [key]), Array(changes.dropLast()))
    #expect(write.items.count == 2_048)
    #expect(throws: TreeError.self) { try Write.update(Path(keys: [key]), changes) }
    #expect(try Write.update(.root, changes).items.count == 2_049)
  }

  @Test func `server values are at most 32 levels deep`() throws {
    let value = try WriteValue(json: #"{"a":{"b":{".sv":"timestamp"}}}"#)
    _ = try Write.set(Location(try path(30)), value)
    #expect(throws: TreeError.self) { try Write.set(Location(try path(31)), value) }
  }

  static let priorities: [(String, Bool)] = [
    ("1", true), ("1.5", true), (#""p""#, true), ("null", true), (#"{".sv":"timestamp"}"#, true),
    (#"{".sv":{"increment":1}}"#, true), ("true", false), (#"{"a":1}"#, false), ("[1]", false),
    (#"{"a":{".sv":"timestamp"}}"#, false), (#"{".sv":"timestamp",".priority":1}"#, false),
  ]

  @Test(arguments: priorities)
  func `a priority is a number, a string or null`(json: String, isLegal: Bool) throws {
    let value = try WriteValue(json: json)
    #expect(((try? Write.set("a/.priority", value)) != nil) == isLegal)
    #expect(((try? Write.set(".priority", value)) != nil) == isLegal)
  }

  @Test func `an update sets paths below a path`() throws {
    let bytes = Array(#" { "a/b" : 1 , "/c/" : null, "d/.priority" : 2, ".priority":"p" } "#.utf8)
    let changes = try bytes.withUnsafeBytes { try JSONReader.readUpdate(json: $0) }
    let write = try Write.update("x/y", changes)
    #expect(
      write.items.map(\.location) == ["x/y/.priority", "x/y/a/b", "x/y/c", "x/y/d/.priority"])
  }

  @Test(arguments: [
    "", "1", "[]", "null", #"{"a"}"#, #"{"a":1,}"#, #"{"a.b":1}"#, #"{"a":1}x"#, "{",
  ])
  func `an update is an object of paths`(text: String) {
    #expect(throws: TreeError.self) {
      try Array(text.utf8).withUnsafeBytes { try JSONReader.readUpdate(json: $0) }
    }
  }

  @Test func `an empty update changes nothing`() throws {
    let changes = try Array("{}".utf8).withUnsafeBytes { try JSONReader.readUpdate(json: $0) }
    var tree = Tree(root: .of(["a": 1]))
    tree.apply(try Write.update("a", changes).resolved(in: tree.root, at: 0))
    #expect(tree.root == .of(["a": 1]))
  }
}
