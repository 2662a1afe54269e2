#if CANOPY_COUNT_WORK
  import Testing

  @testable import CanopyTree

  /// The number of nodes that operations touch in a branch of a thousand children and in one of a
  /// million. The bounds hold on any machine.
  @Suite(.serialized) struct WorkTests {
    /// Returns a branch of numbers with integer keys and an index by value.
    private static func branch(_ count: Int32) -> Node {
      var node = Node(children: (0..<count).map { (Key(index: $0), Node(Int64($0))) })
      node.addIndex(.value)
      return node
    }

    private static let thousand = branch(1000)
    private static let million = branch(1_000_000)

    /// Returns the nodes that `body` touches in the small branch and in the large one.
    private func touched(
      _ name: String, _ body: (inout Node, _ middle: Int32) throws -> Void
    ) throws -> (small: Int, large: Int) {
      var small = Self.thousand
      var large = Self.million
      let result = (
        small: try WorkCounter.nodesTouched { try body(&small, 500) },
        large: try WorkCounter.nodesTouched { try body(&large, 500_000) }
      )
      print("nodes touched, \(name): \(result.small) of 1,000 and \(result.large) of 1,000,000")
      return result
    }

    @Test func `finding a child`() throws {
      let work = try touched("find") { node, middle in _ = node.child(Key(index: middle)) }
      #expect(work.large <= 2 * work.small)
      #expect(work.large <= 8)
    }

    @Test func `replacing, adding and removing a child`() throws {
      let replace = try touched("replace, index kept") {
        $0.set(-1, at: Path.root.child(Key(index: $1)))
      }
      #expect(replace.large <= 2 * replace.small)
      #expect(replace.large <= 20)
      let add = try touched("add, index kept") { node, _ in node.set(7, at: "new") }
      #expect(add.large <= 2 * add.small)
      let remove = try touched("remove, index kept") {
        $0.set(.absent, at: Path.root.child(Key(index: $1)))
      }
      #expect(remove.large <= 2 * remove.small)
    }

    @Test func `the before-image of a write, and undoing it`() throws {
      let image = try touched("before-image") { node, middle in
        let key = Key(index: middle)
        let image = Tree(root: node).beforeImage(of: [
          Assignment(Path.root.child(key), .absent), Assignment(Path.root.child("new"), 1),
          Assignment(Path.root.child(Key(index: middle + 1)).child("below"), 1),
        ])
        #expect(image.count == 3)
      }
      #expect(image.large <= 2 * image.small)
      #expect(image.large <= 24)
      let undo = try touched("a write and its undoing, index kept") { node, middle in
        var tree = Tree(root: node)
        node = .absent
        let assignments = [Assignment(Path.root.child(Key(index: middle)), -1)]
        let image = tree.beforeImage(of: assignments)
        tree.apply(assignments)
        tree.apply(image)
      }
      #expect(undo.large <= 2 * undo.small)
      #expect(undo.large <= 60)
    }

    @Test func `twenty children by key`() throws {
      for limit in [Query.Limit.first(20), .last(20)] {
        let all = try touched("query by key") { node, _ in
          _ = try Query(order: .key, limit: limit).children(of: node)
        }
        #expect(all.large <= 2 * all.small)
        let bounded = try touched("query by key from a bound") { node, middle in
          let bound = Query.Bound(.absent, key: Key(index: middle))
          let isFirst = limit == .first(20)
          let query = try Query(
            order: .key, lower: isFirst ? bound : nil, upper: isFirst ? nil : bound, limit: limit)
          #expect(query.children(of: node).count == 20)
        }
        // The way down is twice as long, with perhaps one page more at its end.
        #expect(bounded.large <= 2 * bounded.small + 1)
        #expect(bounded.large <= 12)
      }
    }

    @Test func `twenty children by index`() throws {
      for limit in [Query.Limit.first(20), .last(20)] {
        let all = try touched("query by index") { node, _ in
          _ = try Query(order: .value, limit: limit).children(of: node)
        }
        #expect(all.large <= 2 * all.small + 2)
        #expect(all.large <= 150)
        let bounded = try touched("query by index from a bound") { node, middle in
          let bound = Query.Bound(.integer(Int64(middle)))
          let isFirst = limit == .first(20)
          let query = try Query(
            order: .value, lower: isFirst ? bound : nil, upper: isFirst ? nil : bound,
            limit: limit)
          #expect(query.children(of: node).count == 20)
        }
        #expect(bounded.large <= 2 * bounded.small + 2)
        #expect(bounded.large <= 150)
      }
    }

    @Test func `counting a range`() throws {
      for order in [Order.key, .value] {
        let work = try touched("count by \(order)") { node, middle in
          let query = try Query(
            order: order, lower: .init(.integer(10), key: "10"),
            upper: .init(.integer(Int64(middle)), key: Key(index: middle)))
          #expect(query.count(in: node) == Int(middle) - 9)
        }
        #expect(work.large <= 2 * work.small)
        #expect(work.large <= 16)
      }
    }

    @Test func `the first priority among ten thousand siblings`() throws {
      let count: Int32 = 10_000
      let posts = Node(
        children: (0..<count).map { (Key(index: $0), Node.of(["n": Node(Int64($0))])) })
      let before = Tree(root: .of(["posts": posts]))
      func touched(_ assignment: Assignment) -> (tree: Tree, nodes: Int) {
        var tree = before
        let nodes = WorkCounter.nodesTouched { tree.apply([assignment]) }
        return (tree, nodes)
      }
      let usual = touched(.at("posts/5000/n", -1))
      let first = touched(.at("posts/5000/.priority", 1))
      print("nodes touched, a value and a first priority: \(usual.nodes) and \(first.nodes)")
      #expect(first.nodes <= usual.nodes + 10)

      // The query by priority needs no more than that by key.
      var tree = first.tree
      tree.apply([
        .at("posts/7/.priority", 1), .at("posts/9000/.priority", 1), .at("posts/9999/.priority", 1),
      ])
      let node = tree.root.child("posts")
      #expect(node.brokenInvariant() == nil)
      for (limit, keys): (Query.Limit, [Int32]) in [
        (.first(9), [0, 1, 2, 3, 4, 5, 6, 8, 9]), (.last(5), [9998, 7, 5000, 9000, 9999]),
      ] {
        let query = try Query(limit: limit)
        #expect(query.isIndexed(in: node))
        let nodes = WorkCounter.nodesTouched {
          #expect(query.children(of: node).map(\.key.integer) == keys)
        }
        #expect(nodes <= 50)
      }
      // A listener is notified of the priority at the cost of the change.
      let query = try Query(limit: .last(5))
      let nodes = WorkCounter.nodesTouched {
        let changes = query.changes(from: posts, to: node)
        #expect(changes.map(\.kind).contains(.removed))
      }
      #expect(nodes <= 600)
    }

    @Test func `the few without a priority among ten thousand siblings`() throws {
      let count: Int32 = 10_000
      let others: [Int32] = [17, 5000, 9950]
      let node = Node(
        children: (0..<count).map {
          (Key(index: $0), Node(true).withPriority(others.contains($0) ? .absent : 1))
        })
      for limit in [Query.Limit.first(3), .last(3)] {
        let query = try Query(upper: .init(.absent), limit: limit)
        let nodes = WorkCounter.nodesTouched {
          #expect(query.children(of: node).map(\.key.integer) == others)
        }
        // A walk through all children reads 1,250 pages and more.
        #expect(nodes <= 800)
      }
    }

    @Test func `a post is one node: to find, to read, to write out, to star`() {
      let id = Key.of("-OaBcDeFgHiJkLmNoPqR")
      let post = Node.of([
        "author": "Ada", "body": "…", "starCount": 0, "title": "Hello", "uid": "u",
      ])
      #expect(WorkCounter.nodesTouched { _ = post.json() } == 1)
      #expect(WorkCounter.nodesTouched { _ = post.child("starCount") } == 1)
      #expect(WorkCounter.nodesTouched { _ = post.height } == 0)
      #expect(WorkCounter.nodesTouched { _ = post == Node.of(["title": "Hello"]) } <= 1)
      var tree = Tree(
        root: .of([
          "posts": .of([id: post]), "user-posts": .of(["u": .of([id: post])]),
        ]))
      let places = [Path(keys: ["posts", id]), Path(keys: ["user-posts", "u", id])]
      let star = places.flatMap { place in
        [
          Assignment(place.child("starCount"), 1),
          Assignment(place.child("stars").child("me"), true),
        ]
      }
      let nodes = WorkCounter.nodesTouched { tree.apply(star) }
      print("nodes touched, starring a post that is a record: \(nodes)")
      // The paths to both, and the accesses to the one node that both share.
      #expect(nodes <= 14)
      let (one, other) = (tree.root.at(places[0]), tree.root.at(places[1]))
      #expect(one.isIdentical(to: other) && one.isPacked && one.at("stars/me") == true)
    }

    @Test func `a star in two locations copies no more of a post with a million stars`() throws {
      func touched(_ stars: Int32) throws -> Int {
        let post = Node.of([
          "title": "Hello", "body": "…", "uid": "u", "starCount": Node(Int64(stars)),
          "stars": Node(children: (0..<stars).map { (Key(index: $0), true) }),
        ])
        let posts = Node(children: (0..<10_000).map { (Key(index: $0), $0 == 5000 ? post : 1) })
        let root = Node.of([
          "posts": posts, "user-posts": .of(["u": posts]), "users": .of(["u": "U"]),
        ])
        var tree = Tree(root: root)
        let old = tree
        let write = try Write([
          .init("posts/5000/stars/me", true),
          .init(Location("posts/5000/starCount"), WriteValue(json: #"{".sv":{"increment":1}}"#)),
          .init("user-posts/u/5000/stars/me", true),
          .init(
            Location("user-posts/u/5000/starCount"), WriteValue(json: #"{".sv":{"increment":1}}"#)),
        ])
        let nodes = WorkCounter.nodesTouched {
          tree.apply(write.resolved(in: tree.root, at: 0))
        }
        #expect(
          tree.root.at("posts/5000").isIdentical(to: tree.root.at("user-posts/u/5000")))
        #expect(tree.root.at("posts/5000/stars").childCount == Int(stars) + 1)
        #expect(old.root.at("posts/5000/stars").childCount == Int(stars))
        return nodes
      }
      let (small, large) = (try touched(1000), try touched(1_000_000))
      print("nodes touched, starring: \(small) of 1,000 stars and \(large) of 1,000,000")
      #expect(large <= 60)
    }
  }
#endif
