import CanopyTesting
import Testing

@testable import CanopyTree

/// The assignments that undo a commit.
struct BeforeImageTests {
  /// Returns a description of the error in a before-image; nil if it is correct.
  private func problem(
    _ image: [Assignment], of assignments: [Assignment], to old: Tree
  ) -> String? {
    for (a, b) in zip(image, image.dropFirst()) {
      if !(a.location < b.location) { return "the image is not in order" }
    }
    for (i, a) in image.enumerated() {
      for b in image[(i + 1)...] where a.location.overlaps(next: b.location) {
        return "\(a.location.text) and \(b.location.text) overlap"
      }
    }
    var tree = old
    tree.apply(assignments)
    tree.apply(image)
    if let broken = tree.root.brokenInvariant() { return "\(broken)" }
    guard tree.root != old.root else { return nil }
    return "the image \(text(image)) leads back to \(tree.root.json(.export))"
  }

  private func text(_ assignments: [Assignment]) -> String {
    assignments.map { "\($0.location.text)=\($0.value.json(.export))" }.joined(separator: " ")
  }

  @Test(arguments: [false, true])
  func `the before-image of requested and of journaled assignments undoes a write`(
    isIndexed: Bool
  ) throws {
    withSeed { random in
      for keys in [2, 4, RandomWrites.keys.count] {
        var writes = RandomWrites()
        writes.keysMax = keys
        writes.bigOnceIn = 50
        var tree = Tree(indexPlan: isIndexed ? ApplyModelTests.plan : IndexPlan())
        for _ in 0..<250 {
          let requested = writes.next(&random).resolved(in: tree.root, at: 0)
          let old = tree
          let journaled = tree.apply(requested)
          for assignments in [requested, journaled] {
            let image = old.beforeImage(of: assignments)
            if let problem = problem(image, of: requested, to: old) {
              Issue.record("\(text(requested)) on \(old.root.json(.export)): \(problem)")
              return
            }
          }
        }
      }
    }
  }

  @Test func `it undoes writes to any tree`() throws {
    try withSeed { random in
      for _ in 0..<1000 {
        let old = Tree(root: random.tree(height: 3).node)
        let write = try Write(random.changes(1 + random.below(5)).map(\.item))
        let assignments = write.resolved(in: old.root, at: 0)
        let problem = problem(old.beforeImage(of: assignments), of: assignments, to: old)
        try #require(problem == nil, "\(text(assignments)) on \(old.root.json(.export))")
      }
    }
  }

  @Test func `a run of commits is undone one by one, the last one first`() throws {
    try withSeed { random in
      for _ in 0..<40 {
        var writes = RandomWrites()
        writes.keysMax = random.pick([2, 3, 5])
        var tree = Tree()
        var versions: [(root: Node, image: [Assignment])] = []
        for _ in 0..<60 {
          let assignments = writes.next(&random).resolved(in: tree.root, at: 0)
          versions.append((tree.root, tree.beforeImage(of: assignments)))
          tree.apply(assignments)
        }
        for (root, image) in versions.reversed() {
          tree.apply(image)
          try #require(tree.root == root)
        }
        #expect(tree.root.isAbsent)
      }
    }
  }

  private static let prioritized = Node.of([
    "a": Node.of(["b": Node.of(["c": 1]).withPriority(2)]).withPriority(1), "x": 5,
  ]).withPriority(0)

  @Test(
    arguments: [
      // The path was absent: the image is of the uppermost node that is created.
      ("new/deep/er", 1, [".priority=0", "new=null"]),
      // A branch replaces a leaf.
      ("x/y/z", 1, [".priority=0", "x=5"]), ("x", .of(["y": 1]), [".priority=0", "x=5"]),
      // A leaf replaces a branch.
      (
        "a/b", 7,
        [".priority=0", "a/.priority=1", #"a/b={"c":1,".priority":2}"#]
      ),
      // The last child is removed, and with it the priorities on the way.
      ("a/b/c", .absent, [".priority=0", "a/.priority=1", "a/b/.priority=2", "a/b/c=1"]),
      ("a/b/.priority", .absent, [".priority=0", "a/.priority=1", "a/b/.priority=2"]),
      ("x/.priority", 9, [".priority=0", "x/.priority=null"]),
      ("nothing/.priority", 9, [".priority=0", "nothing=null"]),
      (".priority", .absent, [".priority=0"]),
      ("", .absent, [#"={"a":{"b":{"c":1,".priority":2},".priority":1},"x":5,".priority":0}"#]),
    ] as [(Location, Node, [String])])
  func `it covers the written locations and the priorities that are lost`(
    location: Location, value: Node, expected: [String]
  ) throws {
    let tree = Tree(root: Self.prioritized)
    let assignments = [Assignment(location, value)]
    let image = tree.beforeImage(of: assignments)
    let root = tree.root.json(.export)
    if location.path.isRoot, !location.isPriority {
      #expect(image == [Assignment(.root, tree.root)], "\(root)")
    } else {
      #expect(image.map(\.location.text) == expected.map { String($0.prefix { $0 != "=" }) })
      for (assignment, text) in zip(image, expected) {
        let json = String(text.drop { $0 != "=" }.dropFirst())
        #expect(assignment.value == (try Node(json: json)), "\(assignment.location.text)")
      }
    }
    #expect(problem(image, of: assignments, to: tree) == nil)
  }

  @Test func `for an empty tree it removes everything`() {
    let tree = Tree()
    #expect(
      tree.beforeImage(of: [.at("a/b", 1), .at("c", 2)]) == [Assignment(.root, .absent)])
    #expect(tree.beforeImage(of: []) == [])
  }

  @Test func `a replaced subtree is shared with its before-image`() {
    let post = Node.of(["title": "Hello", "stars": .of(["a": true])])
    let tree = Tree(root: .of(["posts": .of(["-OaBcDeFgHiJkLmNoPqR": post]), "other": 1]))
    let image = tree.beforeImage(of: [.at("posts/-OaBcDeFgHiJkLmNoPqR", .absent)])
    #expect(image.map(\.location) == ["posts/-OaBcDeFgHiJkLmNoPqR"])
    #expect(image.first?.value.isIdentical(to: post) == true)
  }
}
