import Testing

@testable import CanopyTree

/// Every way to create a node gives normal form: no empty branch and no absent child.
struct NormalFormTests {
  @Test func `a branch without children is absent`() {
    #expect(Node(children: []).isAbsent)
    #expect(Node.of(["a": .absent, "b": Node(children: [])]).isAbsent)
  }

  @Test func `the last of two children with one key wins, also if it is absent`() {
    let node = Node.of(["b": 1, "a": 2, "b": 3, "c": 4, "c": .absent])
    #expect(node == Node.of(["a": 2, "b": 3]))
    #expect(node.brokenInvariant() == nil)
  }

  @Test func `removing the last leaf removes the branches above it`() {
    var node = Node.absent
    node.set(1, at: "a/b/c/d")
    node.set(2, at: "a/x")
    node.set(.absent, at: "a/b/c/d")
    #expect(node == Node.of(["a": .of(["x": 2])]))
    node.set(.absent, at: "a/x")
    #expect(node.isAbsent)
    node.set(.absent, at: "a/b")
    node.set(.absent, at: .root)
    #expect(node.isAbsent)
  }

  @Test func `a child replaces a leaf, but an absent child does not`() {
    var node = Node.of(["a": 1])
    node.set(.absent, at: "a/b")
    #expect(node.at("a") == 1)
    node.set(2, at: "a/b/c")
    #expect(node.at("a/b/c") == 2)
    node.set(true, at: "a")
    #expect(node.at("a") == true && node.at("a/b").isAbsent)
  }

  @Test func `canonically equivalent strings are different values and keys`() {
    #expect(Node("\u{E9}") != Node("e\u{301}"))
    let node = Node.of(["\u{E9}": 1, "e\u{301}": 2])
    #expect(node.childCount == 2)
    #expect(node.child("\u{E9}") == 1)
    #expect(node != Node.of(["\u{E9}": 1]))
  }

  @Test func `equality compares contents and ignores indexes`() {
    let plain = Node.of(["a": 1, "b": 2])
    var indexed = plain
    indexed.addIndex(.value)
    #expect(indexed == plain && plain == indexed)
    #expect(plain != 1 && plain != .absent && Node(true) != 1 && Node("1") != 1)
    #expect(Node.absent == Node.absent)
  }

  @Test func `a leaf returns its value in its own type`() {
    #expect(Node(true).boolValue == true && Node(true).doubleValue == nil)
    #expect(Node(7).integerValue == 7 && Node(7).doubleValue == 7 && Node(7).boolValue == nil)
    #expect(Node(0.5)?.doubleValue == 0.5 && Node(0.5)?.integerValue == nil)
    #expect(Node("x").stringValue == "x" && Node("x").integerValue == nil)
    #expect(Node(7).withPriority(1).integerValue == 7)
  }
}
