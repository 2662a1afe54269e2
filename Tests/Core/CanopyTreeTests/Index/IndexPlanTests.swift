import CanopyTesting
import Testing

@testable import CanopyTree

/// Indexes exist where the plan declares them, whichever write created the branch.
struct IndexPlanTests {
  private func tree(_ declarations: (Order, [Key?])..., root: Node = .absent) -> Tree {
    var plan = IndexPlan()
    for (order, pattern) in declarations { plan.declare(order, at: pattern) }
    return Tree(root: root, indexPlan: plan)
  }

  private func orders(_ tree: Tree, _ path: Path) -> Set<Order> {
    Set(tree.root.at(path).indexes.map(\.order))
  }

  @Test func `an exact pattern matches one location`() {
    var tree = tree((.child("n"), ["posts"]))
    tree.apply([.at("posts/p/n", 1), .at("other/p/n", 1), .at("posts2/p", 1)])
    #expect(orders(tree, "posts") == [.child("n")])
    #expect(orders(tree, "other").isEmpty && orders(tree, "posts/p").isEmpty)
  }

  @Test func `a wildcard stands for any key`() {
    var tree = tree((.value, ["u", nil]), (.child("n"), [nil, "x", nil]))
    tree.apply([.at("u/a/k", 1), .at("u/b/k", 1), .at("v/x/y/z", 1), .at("u/x/y/z", 1)])
    #expect(orders(tree, "u/a") == [.value] && orders(tree, "u/b") == [.value])
    #expect(orders(tree, "v/x/y") == [.child("n")] && orders(tree, "u/x/y") == [.child("n")])
    #expect(orders(tree, "u/x") == [.value] && orders(tree, "v/x").isEmpty)
    #expect(orders(tree, "u").isEmpty && orders(tree, "").isEmpty)
  }

  @Test func `exact and wildcard patterns combine, in any sequence of declarations`() {
    let declarations: [(Order, [Key?])] = [
      (.child("e"), ["a", "b"]), (.child("w"), [nil, "b"]), (.child("x"), ["a", nil]),
      (.child("y"), [nil, nil]), (.value, []), (.child("e"), ["a", "b"]),
    ]
    for sequence in [declarations, declarations.reversed()] {
      var plan = IndexPlan()
      for (order, pattern) in sequence { plan.declare(order, at: pattern) }
      var tree = Tree(indexPlan: plan)
      tree.apply([.at("a/b/k", 1), .at("a/c/k", 1), .at("z/b/k", 1), .at("z/c/k", 1)])
      #expect(orders(tree, "a/b") == [.child("e"), .child("w"), .child("x"), .child("y")])
      #expect(tree.root.at("a/b").indexes.count == 4)
      #expect(orders(tree, "a/c") == [.child("x"), .child("y")])
      #expect(orders(tree, "z/b") == [.child("w"), .child("y")])
      #expect(orders(tree, "z/c") == [.child("y")])
      #expect(orders(tree, "") == [.value])
    }
  }

  @Test func `the entries of an update are its locations, and one more in each index above them`()
    throws
  {
    var plan = IndexPlan()
    for (order, pattern) in [
      (Order.child("n"), ["posts"]), (.value, ["posts"]), (.child("n"), ["u", nil]), (.value, []),
    ] as [(Order, [Key?])] { plan.declare(order, at: pattern) }
    func entries(_ path: String, _ locations: String...) throws -> Int {
      plan.entriesChanged(below: try Path(path), by: try locations.map { try Location($0) })
    }
    #expect(try entries("", "x") == 2)
    #expect(try entries("", "posts/p/n", "posts/q") == 2 + 2 + 4)
    // The branches above the common path have one entry each.
    #expect(try entries("posts", "p", "q", "r/n") == 1 + 3 + 6)
    #expect(try entries("u/a", "p", "q/.priority") == 1 + 2 + 2)
    #expect(try entries("u/a/p/n", "x", "y") == 2 + 2)
    plan = IndexPlan()
    #expect(try entries("a", "b/c") == 1)
  }

  @Test
  func `the entries of a write are those of an update below the path that its locations share`()
    throws
  {
    var plan = IndexPlan()
    for (order, pattern) in [
      (Order.child("n"), ["posts"]), (.value, ["posts", nil]), (.value, []),
    ] as [(Order, [Key?])] { plan.declare(order, at: pattern) }
    func entries(_ locations: String...) throws -> Int {
      plan.entriesChanged(
        by: try Write(try locations.map { Write.Item(try Path($0), 1) }))
    }
    #expect(try entries("x") == 1 + 1)
    #expect(try entries("posts/p/a", "posts/p/b") == 2 + 2 + 2)
    #expect(try entries("posts/p/a", "posts/q/b") == 1 + 3 + 3)
    #expect(try entries("posts/p", "x") == 3 + 2)
  }

  static let writes: [[(String, Node)]] = [
    [("", .of(["u": .of(["a": .of(["k": 1])])]))], [("u", .of(["a": .of(["k": 1])]))],
    [("u/a", .of(["k": 1]))], [("u/a/k", 1)], [("u/a/k/deeper/still", 1)],
    [("u/a/k", 1), ("u/a/l", 2)], [("u/a/k", 1), ("x", 1)], [("u/b", 5), ("u/a", .of(["k": 1]))],
    [("u/a/k", Node(1).withPriority(1))], [("u/a", Node.of(["k": 1]).withPriority(1))],
    [("u", Node.of(["a": .of(["k": 1])]).withPriority(1))], [("u/a/.priority", 1), ("u/a/k", 1)],
  ]

  @Test(arguments: writes)
  func `a branch gets its indexes however it is created`(write: [(String, Node)]) throws {
    let roots: [Node] = [
      .absent, 5, .of(["u": 5]), .of(["u": .of(["a": 5])]), .of(["u": Node.of(["b": 1])]),
      .of(["u": .of(["a": Node(5).withPriority(1)])]), .of(["u": .of(["a": .of(["old": 1])])]),
    ]
    for root in roots {
      var tree = tree((.value, ["u", nil]), (.child("k"), ["u"]), root: root)
      tree.apply(try write.map { Assignment(try Location($0.0), $0.1) })
      #expect(orders(tree, "u/a").contains(.value), "\(root.json()) with \(write)")
      #expect(orders(tree, "u").contains(.child("k")))
      #expect(tree.root.brokenInvariant() == nil)
    }
  }

  /// Returns a plan with a wildcard beside named keys on each level, like `.indexOn` below each of
  /// `{"a": {"i": …}, "$x": {"a": {"i": …}, "$y": …}}`.
  private func nested(_ depth: Int) -> (plan: IndexPlan, keysOfText: Int) {
    var plan = IndexPlan()
    var keys = 0
    for level in 0..<depth {
      let wildcards = [Key?](repeating: nil, count: level)
      plan.declare(.child("n"), at: wildcards + ["a", "i"])
      keys += 3
    }
    return (plan, keys)
  }

  @Test func `a plan is no larger than the text that declares it, however wildcards nest`() {
    for depth in [1, 2, 10, 30] {
      let (plan, keysOfText) = nested(depth)
      #expect(plan.levelCount <= keysOfText + 1)
      var reversed = IndexPlan()
      plan.root.forEach(at: []) { reversed.declare($0, at: $1) }
      #expect(reversed.levelCount == plan.levelCount)
      #expect(reversed == plan)
    }
  }

  #if CANOPY_COUNT_WORK
    @Test func `adding indexes to a tree takes work linear in the nesting`() throws {
      func work(_ depth: Int) throws -> Int {
        let (plan, _) = nested(depth)
        let path = Path(keys: [Key](repeating: "a", count: depth - 1) + ["i", "x", "n"])
        let assignment = Assignment(path, 1)
        var tree = Tree(indexPlan: plan)
        return WorkCounter.nodesTouched {
          tree.apply([assignment])
          tree.keepIndex(.value, at: [nil, "q"])
          tree.apply([Assignment(.root, tree.root)])
        }
      }
      let few = try work(5)
      #expect(try work(25) <= 12 * few)
    }
  #endif

  @Test func `a location that several nested patterns match has the indexes of all`() throws {
    var plan = IndexPlan()
    let patterns: [[Key?]] = [
      ["a", "a", "a"], ["a", "a", nil], ["a", nil, "a"], [nil, "a", "a"], [nil, nil, nil],
    ]
    for (i, pattern) in patterns.enumerated() {
      plan.declare(.child(Path(keys: [.of("n\(i)")])), at: pattern)
    }
    var tree = Tree(indexPlan: plan)
    for (path, expected) in [
      ("a/a/a", [0, 1, 2, 3, 4]), ("a/a/b", [1, 4]), ("a/b/a", [2, 4]), ("b/a/a", [3, 4]),
      ("b/b/b", [4]),
    ] {
      tree.apply([Assignment(try Path(path + "/k"), 1)])
      let wanted = Set(expected.map { Order.child(Path(keys: [.of("n\($0)")])) })
      #expect(orders(tree, try Path(path)) == wanted)
      for order in wanted { #expect(plan.declares(order, at: try Path(path))) }
    }
  }

  @Test func `an index may be declared after the data is written`() {
    var tree = Tree(root: .of(["u": .of(["a": .of(["k": 1]), "b": .of(["k": 2]), "c": 3])]))
    let old = tree
    tree.keepIndex(.value, at: ["u", nil])
    tree.keepIndex(.child("k"), at: ["u"])
    #expect(orders(tree, "u/a") == [.value] && orders(tree, "u/b") == [.value])
    #expect(orders(tree, "u") == [.child("k")])
    #expect(orders(old, "u").isEmpty && orders(old, "u/a").isEmpty)
    #expect(tree.root == old.root)
    #expect(tree.root.brokenInvariant() == nil)
    tree.apply([.at("u/a/k", 9)])
    #expect(tree.root.brokenInvariant() == nil)
  }

  @Test func `key order needs no index`() {
    var tree = tree((.key, ["u"]))
    tree.apply([.at("u/a", 1)])
    #expect(tree.root.at("u").indexes.isEmpty)
  }

  @Test func `the index of a nested order value follows a change far below`() throws {
    var tree = tree((.child("metrics/views"), ["posts"]))
    for i in 0..<200 {
      tree.apply([
        .init(Path.root.child("posts").child(Key(index: Int32(i))), .of(["t": Node(Int64(i))]))
      ])
    }
    try withSeed { random in
      for _ in 0..<300 {
        let post = Key(index: Int32(random.below(200)))
        let path = try Path([Key("posts"), post, Key("metrics"), Key("views")])
        let choice = random.below(4)
        let views = Node(Int64(random.below(50)))
        switch choice {
        case 0: tree.apply([Assignment(path, views)])
        case 1: tree.apply([Assignment(path, .absent)])
        case 2: tree.apply([Assignment(path.prefix(3), .of(["views": views]))])
        default: tree.apply([Assignment(path.prefix(3), views)])
        }
      }
    }
    #expect(tree.root.brokenInvariant() == nil)
  }

  @Test func `a union declares the indexes of both plans`() throws {
    let (age, size) = (Order.child("age"), Order.child("size"))
    var plan = IndexPlan()
    plan.declare(age, at: ["a"])
    var other = IndexPlan()
    other.declare(.value, at: ["a", nil])
    other.declare(size, at: [nil, "b"])
    plan.formUnion(other)
    let expected: [(Order, String, Bool)] = [
      (age, "a", true), (age, "b", false), (.value, "a/x", true), (.value, "a", false),
      (.value, "a/x/y", false), (size, "a/b", true), (size, "c/b", true), (size, "c/d", false),
      (.value, "a/b", true), (.key, "anywhere", true), (size, "", false),
    ]
    for (order, path, isDeclared) in expected {
      #expect(plan.declares(order, at: try Path(path)) == isDeclared, "\(order) at \(path)")
    }
    let once = plan
    plan.formUnion(other)
    #expect(plan == once)
    #expect(plan != other)
  }
}
