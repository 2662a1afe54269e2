#if CANOPY_COUNT_WORK
  import CanopyTesting
  import Testing

  @testable import CanopyTree

  /// The cache of branches' hashes.
  struct NodeDigestTests {
    /// Random trees with branches of all forms: pages, packed branches, indexes and priorities.
    @Test func `a cached hash equals the hash of the current tree`() throws {
      try withSeed { random in
        for indexes in [[Order](), [.value, .child("a")]] {
          var plan = IndexPlan()
          for order in indexes { plan.declare(order, at: [nil]) }
          var tree = Tree(indexPlan: plan)
          var model = NaiveTree()
          var versions: [(Node, String)] = []
          for step in 0..<400 {
            let changes = random.changes(1 + random.below(3), height: 3)
            try tree.carryOut(changes)
            model.update(changes)
            if random.oneIn(3) { continue }
            try #require(tree.root.hash == model.hash, "step \(step)")
            if random.oneIn(4) { versions.append((tree.root, model.hash)) }
          }
          for (root, hash) in versions { try #require(root.hash == hash) }
        }
      }
    }

    private func big(_ posts: Int) -> Node {
      Node(
        children: (0..<posts).map { i -> (Key, Node) in
          let stars = Node(children: (0..<20).map { (Key.of("user\($0)"), Node(true)) })
          let post = Node.of([
            "title": "Post", "body": Node(String(repeating: "x", count: 2_000)), "stars": stars,
          ])
          return (Key.of("post\(i)"), post)
        })
    }

    @Test func `hashing pauses at each node, and may be given up and begun again`() throws {
      struct Stop: Error {}
      for count in [1, 100] {
        let root = Node.of(["posts": big(count)])
        var calls = 0
        #expect(throws: Stop.self) {
          _ = try root.hash(pausing: { () throws(Stop) in
            calls += 1
            if calls == 3 { throw Stop() }
          })
        }
        #expect(calls == 3)
        let hash = root.hash(pausing: { calls += 1 })
        #expect(hash == Node.of(["posts": big(count)]).hash)
        #expect(calls > 20 * count)
        calls = 0
        let again = root.hash(pausing: { calls += 1 })
        #expect(again == hash && calls == 0)
      }
    }

    @Test func `a change only rehashes the branches on the way to it`() throws {
      for count in [40, 400] {
        var root = Node.of(["posts": big(count), "other": big(10)])
        let whole = WorkCounter.nodesTouched { _ = root.hash }
        #expect(whole > count * 4)
        #expect(WorkCounter.nodesTouched { _ = root.hash } == 0)
        let old = root
        let oldHash = root.hash
        root.set(5, at: "posts/post7/stars/user3")
        let changed = WorkCounter.nodesTouched { #expect(root.hash != oldHash) }
        // The children of four branches, and the pages of the largest on the way to them.
        let pages = count / 4
        #expect(changed <= 4 + 20 + 3 + 2 + pages, "\(changed) of \(whole)")
        var again = ""
        #expect(WorkCounter.nodesTouched { again = old.hash } == 0)
        #expect(again == oldHash)
      }
    }

    @Test func `small branches cache their hashes too`() throws {
      func tree(_ height: Int) -> Node {
        if height == 0 { return Node(String(repeating: "x", count: 2_100)) }
        return Node(children: [("a", tree(height - 1)), ("b", tree(height - 1).withPriority(1))])
      }
      var root = tree(10)
      let whole = WorkCounter.nodesTouched { _ = root.hash }
      #expect(whole > 1_000)
      root.set(1, at: try Path([Key](repeating: "b", count: 10)))
      let changed = WorkCounter.nodesTouched { _ = root.hash }
      #expect(changed <= 10 * 8, "\(changed) of \(whole)")
    }

    @Test func `freed and changed branches leave no entry in the cache`() throws {
      var ids: [ObjectIdentifier] = []
      func kept() -> Int { ids.count { DigestCache.shared.digest(of: $0) != nil } }
      do {
        var root = Node.of(["posts": big(50)])
        _ = root.hash
        root.child("posts").forEachChild { _, post in
          if let owner = post.digestOwner { ids.append(ObjectIdentifier(owner)) }
          return true
        }
        #expect(ids.count == 50 && kept() == 50)
        for i in 0..<25 { root.set(.absent, at: try Path("posts/post\(i)")) }
        // Another test may have reused memory that was freed.
        #expect(25...30 ~= kept())
      }
      #expect(kept() <= 5)
    }

    @Test func `the cache is bounded and keeps used entries`() {
      let cache = DigestCache(entriesMax: 64 * 8)
      final class Thing {}
      let things = (0..<5_000).map { _ in Thing() }
      let digest = NodeDigest(words: (1, 2, 3))
      let used = ObjectIdentifier(things[0])
      for thing in things {
        cache.insert(digest, of: ObjectIdentifier(thing))
        #expect(cache.digest(of: used) == digest)
      }
      #expect(cache.count <= 64 * 8)
      for thing in things { cache.remove(ObjectIdentifier(thing)) }
      #expect(cache.count == 0)
    }

    @Test func `many threads may hash one tree`() async throws {
      let root = Node.of(["posts": big(60)])
      let hashes = await withTaskGroup(of: String.self) { group in
        for _ in 0..<8 { group.addTask { root.hash } }
        return await group.reduce(into: Set<String>()) { $0.insert($1) }
      }
      #expect(hashes == [root.hash])
    }
  }
#endif
