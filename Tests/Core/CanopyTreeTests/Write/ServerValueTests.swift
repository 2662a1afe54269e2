import Testing

@testable import CanopyTree

struct ServerValueTests {
  private func apply(_ json: String, at location: Location, to root: Node) throws -> Node {
    var tree = Tree(root: root)
    let write = try Write.set(location, WriteValue(json: json))
    tree.apply(write.resolved(in: root, at: 1_700_000_000_000))
    #expect(tree.root.brokenInvariant() == nil)
    return tree.root
  }

  /// The old value, the increment, and the new value.
  static let increments: [(String, String, String)] = [
    ("null", "5", "5"), (#""x""#, "5", "5"), ("true", "5", "5"), (#"{"a":1}"#, "5", "5"),
    ("1", "2", "3"), ("1", "-1", "0"), ("1", "0.5", "1.5"), ("0.5", "0.5", "1"),
    ("-0.5", "1", "0.5"),
    ("9007199254740992", "1", "9007199254740993"),
    ("9223372036854775806", "1", "9223372036854775807"),
    ("9223372036854775807", "1", "9.223372036854776e+18"),
    ("-9223372036854775808", "-1", "-9.223372036854776e+18"),
    ("1e308", "1e308", "1.7976931348623157e308"),
    ("-1.7e308", "-1.7e308", "-1.7976931348623157e308"),
    ("1e300", "1", "1e300"), (#"{".value":1,".priority":9}"#, "2", "3"),
  ]

  @Test(arguments: increments)
  func `an increment adds to a number and replaces any other value`(
    old: String, delta: String, new: String
  ) throws {
    let result = try apply(
      #"{".sv":{"increment":"# + delta + "}}", at: "a",
      to: Node.of(["a": try Node(json: old)]))
    #expect(result == Node.of(["a": try Node(json: new)]))
  }

  @Test func `a timestamp is the time of the write`() throws {
    #expect(try apply(#"{".sv":"timestamp"}"#, at: "", to: 5) == 1_700_000_000_000)
    #expect(
      try apply(#"{"a":{".sv":"timestamp"},"b":[{".sv":"timestamp"}]}"#, at: "x", to: .absent)
        == .of(["x": .of(["a": 1_700_000_000_000, "b": .of(["0": 1_700_000_000_000])])]))
  }

  @Test func `an increment inside a value adds to the old value at its own path`() throws {
    let root = Node.of(["x": .of(["n": 10, "gone": 1])])
    #expect(
      try apply(#"{"n":{".sv":{"increment":1}},"m":{".sv":{"increment":2}}}"#, at: "x", to: root)
        == .of(["x": .of(["n": 11, "m": 2])]))
  }

  @Test func `server values may be priorities`() throws {
    let root = Node.of(["x": Node(1).withPriority(10)])
    #expect(
      try apply(#"{".sv":"timestamp"}"#, at: "x/.priority", to: root)
        == .of(["x": Node(1).withPriority(1_700_000_000_000)]))
    #expect(
      try apply(#"{".sv":{"increment":1}}"#, at: "x/.priority", to: root)
        == .of(["x": Node(1).withPriority(11)]))
    #expect(
      try apply(#"{".value":2,".priority":{".sv":{"increment":1}}}"#, at: "x", to: root)
        == .of(["x": Node(2).withPriority(11)]))
    #expect(
      try apply(#"{"a":2,".priority":{".sv":"timestamp"}}"#, at: "x", to: root)
        == .of(["x": Node.of(["a": 2]).withPriority(1_700_000_000_000)]))
    #expect(
      try apply(#"{".sv":"timestamp",".priority":7}"#, at: "x", to: root)
        == .of(["x": Node(1_700_000_000_000).withPriority(7)]))
    #expect(
      try apply(
        #"{".sv":{"increment":1},".priority":{".sv":{"increment":1}}}"#, at: "x", to: root)
        == .of(["x": Node(2).withPriority(11)]))
  }

  @Test func `a server value below a priority keeps the parent's priority`() throws {
    #expect(
      try apply(#"{".priority":3,"a":{".sv":"timestamp"}}"#, at: "x", to: .absent)
        == .of(["x": Node.of(["a": 1_700_000_000_000]).withPriority(3)]))
    #expect(
      try apply(
        #"{".priority":{".sv":"timestamp"},"a":{".sv":{"increment":4}}}"#, at: "x", to: .absent)
        == .of(["x": Node.of(["a": 4]).withPriority(1_700_000_000_000)]))
  }

  @Test func `all increments of an update add to the tree before it`() throws {
    let root = Node.of(["a": 1, "b": 2])
    let increment = try WriteValue(json: #"{".sv":{"increment":10}}"#)
    let write = try Write.update(.root, [("a", increment), ("b", increment), ("c/d", increment)])
    var tree = Tree(root: root)
    tree.apply(write.resolved(in: root, at: 0))
    #expect(tree.root == .of(["a": 11, "b": 12, "c": .of(["d": 10])]))
  }

  @Test func `assignments are absolute`() throws {
    let root = Node.of(["a": 1])
    let write = try Write.set("a", WriteValue(json: #"{".sv":{"increment":1}}"#))
    let assignments = write.resolved(in: root, at: 0)
    #expect(assignments == [Assignment.at("a", 2)])
    var tree = Tree(root: root)
    for _ in 0..<3 { tree.apply(assignments) }
    #expect(tree.root == .of(["a": 2]))
  }
}
