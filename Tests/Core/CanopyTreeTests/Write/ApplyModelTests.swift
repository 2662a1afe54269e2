import CanopyTesting
import Testing

@testable import CanopyTree

/// Multi-path updates behave like those of the naive tree, and every version satisfies the
/// invariants.
struct ApplyModelTests {
  /// Indexes at exact paths and behind wildcards, on several levels.
  static let plan: IndexPlan = {
    var plan = IndexPlan()
    plan.declare(.value, at: [])
    plan.declare(.child("a"), at: [])
    plan.declare(.child("b/c"), at: ["a"])
    plan.declare(.value, at: [nil])
    plan.declare(.priority, at: ["b", nil])
    plan.declare(.child("0"), at: [nil, "a"])
    return plan
  }()

  @Test(arguments: [false, true])
  func `random updates`(isIndexed: Bool) throws {
    try withSeed { random in
      for _ in 0..<25 {
        var model = random.tree(height: 3)
        var tree = Tree(root: model.node, indexPlan: isIndexed ? Self.plan : IndexPlan())
        for _ in 0..<25 {
          let changes = random.changes(1 + random.below(5))
          let (old, oldModel) = (tree, model)
          try tree.carryOut(changes)
          model.update(changes)
          try #require(tree.root.brokenInvariant() == nil)
          try #require(NaiveTree(tree.root) == model, "\(oldModel.json) with \(changes)")
          try #require(NaiveTree(old.root) == oldModel)
        }
      }
    }
  }

  @Test func `a branch that an update empties and refills keeps its priority`() throws {
    let root = Node.of(["a": Node.of(["m": 1]).withPriority(5)])
    for key: Key in ["a", "z"] {
      var tree = Tree(root: root)
      let write = try Write([
        .init("a/m", .absent), .init(Path.root.child("a").child(key), 2),
      ])
      tree.apply(write.resolved(in: root, at: 0))
      #expect(
        tree.root == .of(["a": Node(children: [(key, Node(2))]).withPriority(5)]), "\(key)")
    }
  }

  @Test func `assignments may come in any order`() throws {
    try withSeed { random in
      for _ in 0..<300 {
        let root = random.tree(height: 3).node
        let assignments = try Write(random.changes(5).map(\.item)).resolved(in: root, at: 0)
        var (a, b) = (Tree(root: root), Tree(root: root))
        a.apply(assignments)
        b.apply(assignments.shuffled(using: &random))
        try #require(a.root == b.root)
      }
    }
  }

  @Test func `the priority of an absent node is ignored`() throws {
    var tree = Tree(root: .of(["a": 5]))
    tree.apply([.at("x/.priority", 1), .at("a/b/.priority", 1)])
    #expect(tree.root == .of(["a": 5]))
    tree.apply([.at("a/.priority", 1)])
    #expect(tree.root == .of(["a": Node(5).withPriority(1)]))
    tree.apply([.at("a/.priority", .absent)])
    #expect(tree.root == .of(["a": 5]))
  }

  @Test func `a priority and a child below it can be set at once`() throws {
    var tree = Tree()
    tree.apply([.at("a/.priority", 1), .at("a/b", 2)])
    #expect(tree.root == .of(["a": Node.of(["b": 2]).withPriority(1)]))
    tree.apply([.at("a/.priority", 2), .at("a/b", .absent)])
    #expect(tree.root.isAbsent)
    tree.apply([.at("", 7)])
    tree.apply([.at(".priority", 1)])
    #expect(tree.root == Node(7).withPriority(1))
  }
}
