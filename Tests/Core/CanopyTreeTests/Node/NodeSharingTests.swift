import Testing

@testable import CanopyTree

/// A node with only one reference is changed in place, in each form of storage.
struct NodeSharingTests {
  private func pages(_ node: Node) -> [ObjectIdentifier] {
    // A packed branch has no pages; each change copies it.
    if node.packed != nil { return [] }
    var all = node.children?.pageIdentities ?? []
    all += node.indexes.flatMap { $0.positions.pageIdentities }
    switch node.storage {
    case .indexed(let box): all.append(ObjectIdentifier(box))
    case .prioritized(let box):
      all.append(ObjectIdentifier(box))
      all += pages(box.node)
    default: break
    }
    node.forEachChild { _, child in
      all += pages(child)
      return true
    }
    return all
  }

  private static func branch(_ count: Int) -> Node {
    Node(children: (0..<count).map { (Key(index: Int32($0)), Node.of(["v": 0])) })
  }

  /// The forms of storage of a branch.
  enum Form: String, CaseIterable {
    case branch, indexed, prioritized, prioritizedAndIndexed, withPrioritizedChild

    /// Creates a branch of branches in this form.
    func make() -> Node {
      var node = NodeSharingTests.branch(500)
      switch self {
      case .branch: break
      case .indexed: node.addIndex(.child("v"))
      case .prioritized: node = node.withPriority(1)
      case .prioritizedAndIndexed:
        node.addIndex(.child("w"))
        node = node.withPriority(1)
      case .withPrioritizedChild: node.set(Node.of(["v": 0]).withPriority(1), at: "7")
      }
      return node
    }
  }

  @Test(arguments: Form.allCases)
  func `a change to an unshared node copies nothing`(form: Form) {
    var node = form.make()
    // The page of an index that receives the child may have to grow the first time.
    for i in 0..<2 { node.set(Node(Int64(i)), at: "7/v") }
    let before = Set(pages(node))
    for i in 0..<10 { node.set(Node(Int64(i) % 2), at: "7/v") }
    let after = Set(pages(node))
    #expect(after == before)
    #expect(node.at("7/v") == 1)
    #expect(node.brokenInvariant() == nil)
  }

  @Test(arguments: Form.allCases)
  func `a change to a shared node leaves the other version unchanged`(form: Form) {
    var node = form.make()
    let old = node
    let contents = NaiveTree(old)
    node.set(1, at: "7/v")
    node.set(.absent, at: "8")
    node.set("x", at: "1000")
    #expect(NaiveTree(old) == contents)
    #expect(old.brokenInvariant() == nil && node.brokenInvariant() == nil)
    // All unchanged children are shared.
    #expect(old.at("9").isIdentical(to: node.at("9")))
    #expect(!old.at("7").isIdentical(to: node.at("7")))
  }

  @Test func `identity compares versions of branches and values of leaves`() {
    let a = Node.of(["x": 1])
    let b = Node.of(["x": 1])
    #expect(a.isIdentical(to: a) && !a.isIdentical(to: b))
    #expect(Node(1).isIdentical(to: 1) && !Node(1).isIdentical(to: 2))
    #expect(Node("e\u{301}").isIdentical(to: "e\u{301}"))
    #expect(!Node("e\u{301}").isIdentical(to: "\u{E9}"))
    #expect(Node.absent.isIdentical(to: .absent))
    #expect(!Node.absent.isIdentical(to: 1) && !a.isIdentical(to: .absent))
    #expect(!a.isIdentical(to: a.withPriority(1)))
  }
}
