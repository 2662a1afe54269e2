import CanopyTesting
import Testing

@testable import CanopyTree

/// Copies of one subtree at two locations keep sharing their memory.
struct CopySharingTests {
  private static let post = Node.of([
    "title": "Hello", "author": .of(["id": "u", "name": "U"]), "stars": .of(["a": true]),
  ])

  private func tree(_ post: Node = post) -> Tree {
    var tree = Tree()
    tree.apply([
      .at("posts/-OaBcDeFgHiJkLmNoPqR", post), .at("user-posts/u/-OaBcDeFgHiJkLmNoPqR", post),
      .at("posts/q", 1),
    ])
    return tree
  }

  private func isShared(_ tree: Tree) -> Bool {
    tree.root.at("posts/-OaBcDeFgHiJkLmNoPqR").isIdentical(
      to: tree.root.at("user-posts/u/-OaBcDeFgHiJkLmNoPqR"))
  }

  static let changes: [[(String, Node)]] = [
    [("stars/b", true)], [("stars/a", .absent)], [("stars", .absent)], [("title", "Bye")],
    [("stars/b", true), ("starCount", 2)], [("stars/a", .absent), ("starCount", 0)],
    [("author/name", "V"), ("stars/b", true), ("title", .absent)], [(".priority", 5)],
    [("author", .of(["id": "v"]))], [("stars/b", true), (".priority", 5)],
  ]

  @Test(arguments: changes)
  func `a commit with the same change to both keeps them shared`(changes: [(String, Node)]) throws {
    var tree = tree()
    #expect(isShared(tree))
    let assignments = try ["posts/-OaBcDeFgHiJkLmNoPqR/", "user-posts/u/-OaBcDeFgHiJkLmNoPqR/"]
      .flatMap { place in
        try changes.map { Assignment(try Location(place + $0.0), $0.1) }
      }
    let old = tree
    tree.apply(assignments)
    #expect(
      tree.root.at("posts/-OaBcDeFgHiJkLmNoPqR")
        == tree.root.at("user-posts/u/-OaBcDeFgHiJkLmNoPqR"))
    #expect(isShared(tree))
    #expect(tree.root.at("posts/-OaBcDeFgHiJkLmNoPqR") != old.root.at("posts/-OaBcDeFgHiJkLmNoPqR"))
    #expect(isShared(old) && old.root.at("posts/-OaBcDeFgHiJkLmNoPqR") == Self.post)
  }

  @Test func `equal values parsed for two locations become one node`() throws {
    let post = #"{"body":"b","at":{".sv":"timestamp"}}"#
    let json =
      #"{"posts/-OaBcDeFgHiJkLmNoPqR":\#(post),"user-posts/u/-OaBcDeFgHiJkLmNoPqR":\#(post),"user-posts/u/q":\#(post)}"#
    let changes = try Array(json.utf8).withUnsafeBytes { try JSONReader.readUpdate(json: $0) }
    var tree = Tree()
    tree.apply(try Write.update(.root, changes).resolved(in: tree.root, at: 7))
    let copies = try [
      "posts/-OaBcDeFgHiJkLmNoPqR", "user-posts/u/-OaBcDeFgHiJkLmNoPqR", "user-posts/u/q",
    ].map {
      tree.root.at(try Path($0))
    }
    #expect(copies[0].isIdentical(to: copies[1]))
    #expect(copies[0] == copies[2])
    #expect(!copies[0].isIdentical(to: copies[2]))
  }

  @Test func `different subtrees are not shared`() throws {
    var tree = tree()
    tree.apply([
      .at("posts/-OaBcDeFgHiJkLmNoPqR/title", "A"),
      .at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/title", "B"),
    ])
    #expect(tree.root.at("posts/-OaBcDeFgHiJkLmNoPqR/title") == "A")
    #expect(tree.root.at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/title") == "B")
    tree = self.tree()
    tree.apply([
      .at("posts/-OaBcDeFgHiJkLmNoPqR/title", "A"),
      .at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/author/title", "A"),
    ])
    #expect(tree.root.at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/title") == "Hello")
    #expect(tree.root.at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/author/title") == "A")
    tree = self.tree()
    tree.apply([
      .at("posts/-OaBcDeFgHiJkLmNoPqR/author/.priority", 1),
      .at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/author", 1),
    ])
    #expect(
      tree.root.at("posts/-OaBcDeFgHiJkLmNoPqR/author").isBranch
        && tree.root.at("user-posts/u/-OaBcDeFgHiJkLmNoPqR/author") == 1)
  }

  @Test func `replaying the journal gives shared copies`() throws {
    var output = JSONOutput()
    AssignmentCodec.encode(
      [
        .at("posts/-OaBcDeFgHiJkLmNoPqR", Self.post),
        .at("user-posts/u/-OaBcDeFgHiJkLmNoPqR", Self.post),
      ], to: &output)
    var tree = Tree()
    tree.apply(try output.withBytes { try AssignmentCodec.decode($0) })
    #expect(isShared(tree))
    #expect(tree.root.at("posts/-OaBcDeFgHiJkLmNoPqR") == Self.post)
  }

  @Test func `random commits to copies, with the old version kept or released`() throws {
    try withSeed { random in
      for _ in 0..<300 {
        let copy = random.tree(height: 3)
        var model = NaiveTree()
        let places = ["x", "y/z", "y/0"].map { $0.split(separator: "/").map { NaiveKey("\($0)") } }
        let node = copy.node
        var tree = Tree()
        tree.apply(places.map { Assignment(Path($0), node) })
        model.update(places.map { .set($0, copy) })
        var kept: [(Tree, NaiveTree)] = []
        for _ in 0..<4 {
          if random.oneIn(2) { kept.append((tree, model)) }
          let changes = random.changes(3).flatMap { change -> [NaiveTree.Change] in
            places.filter { _ in !random.oneIn(5) }.map { place in
              switch change {
              case .set(let path, let value): .set(place + path, value)
              case .priority(let path, let priority): .priority(place + path, priority)
              }
            }
          }
          try tree.carryOut(changes)
          model.update(changes)
          try #require(NaiveTree(tree.root) == model)
          try #require(tree.root.brokenInvariant() == nil)
          for (tree, model) in kept { try #require(NaiveTree(tree.root) == model) }
        }
      }
    }
  }
}
