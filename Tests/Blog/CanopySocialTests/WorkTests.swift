#if CANOPY_COUNT_WORK
  import CanopyEngine
  import CanopySocial
  import CanopyTesting
  import CanopyTree
  import Testing

  /// The cost of requests in touched tree nodes, which is the same on every machine.
  @Suite(.serialized, .timeLimit(.minutes(20))) struct WorkTests {
    /// A tree of posts, with 100 posts for each user. The posts of one user are complete. The others are
    /// copies of a few posts and share their memory, so that a million are created quickly.
    struct World {
      let root: Node
      /// The user with complete posts, and these posts.
      let uid: Key = "u5"
      let ids: [Key]

      init(posts count: Int, stars: Int = 0) throws {
        let users = count / 100
        var generator = PushIDGenerator()
        var posts: [(Key, Node)] = []
        var own: [[(Key, Node)]] = Array(repeating: [], count: users)
        posts.reserveCapacity(count)
        let kinds = (0..<100).map { World.post("somebody", stars: $0 / 25) }
        for turn in 0..<100 {
          for user in 0..<users {
            let id = generator.next(at: Int64(turn * users + user)) { 0 }
            let post = user == 5 ? World.post("u5", stars: turn / 25) : kinds[turn]
            posts.append((id, post))
            own[user].append((id, post))
          }
        }
        ids = own[5].map(\.0)
        let profile = json(#"{"username":"ada","createdAt":1}"#)
        root = Node(children: [
          (Key("users"), Node(children: try (0..<users).map { (try Key("u\($0)"), profile) })),
          (Key("posts"), Node(children: posts)),
          (
            Key("user-posts"),
            Node(children: try own.enumerated().map { (try Key("u\($0)"), Node(children: $1)) })
          ),
        ])
      }

      static func post(_ uid: String, stars: Int) -> Node {
        var post = json(
          #"{"author":"ada","body":"body","createdAt":1,"title":"title","uid":"\#(uid)"}"#)
        let all = Node(children: (0..<stars).map { (Key(index: Int32($0)), true) })
        post.set(all, at: Path.root.child("stars"))
        post.set(Node(Int64(stars)), at: Path.root.child("starCount"))
        return post
      }

      /// An engine on this tree while `body` uses it, and what counts the work of its task.
      func withEngine<R: Sendable>(
        _ body: @escaping @Sendable (Engine, WorkCounter) async throws -> R
      ) async throws -> R {
        try await WorkTests.withEngine(on: root, body)
      }
    }

    private static func withEngine<R: Sendable>(
      on root: Node, _ body: @escaping @Sendable (Engine, WorkCounter) async throws -> R
    ) async throws -> R {
      var configuration = Engine.Configuration()
      configuration.indexPlan = Layout.indexPlan
      return try await WorkCounter.counting { counter in
        try await CanopyTesting.withEngine(
          InMemoryJournal(root: root, checkpoint: 1), configuration: configuration,
          clock: ManualClock(1_700_000_000_000)
        ) { try await body($0, counter) }
      }
    }

    /// Returns the number of nodes that requests touch: for reads including the encoding of the
    /// reply, and for writes while deciding and applying.
    private func touched(in world: World) async throws -> [(name: String, nodes: Int)] {
      let (uid, id) = (world.uid, world.ids[50])
      return try await world.withEngine { engine, counter in
        func read(_ entries: (Node) throws -> [Feeds.Entry]) throws -> Int {
          let root = engine.root
          return try WorkCounter.nodesTouched {
            var output = JSONOutput()
            for entry in try entries(root) { output.append(entry.node) }
          }
        }
        func write<T: Sendable>(_ transaction: @escaping BlogTransaction<T>) async throws -> Int {
          let before = counter.count
          _ = try await engine.transact(transaction)
          return counter.count - before
        }
        return [
          ("RECENT 20", try read { Feeds.recent(try Feeds.Page(limit: 20), in: $0) }),
          (
            "RECENT 20 before",
            try read { Feeds.recent(try Feeds.Page(limit: 20, before: id), in: $0) }
          ),
          ("TOP 10", try read { try Feeds.top(by: nil, Feeds.Page(limit: 10), in: $0) }),
          ("TOP 10 of a user", try read { try Feeds.top(by: uid, Feeds.Page(limit: 10), in: $0) }),
          ("SHOW", try read { [(id, try Posts.find(id, in: $0))] }),
          ("POST", try await write { try Posts.create(by: uid, title: "t", body: "b", in: &$0) }),
          ("STAR", try await write { try Posts.toggleStar(id, by: "me", in: &$0) }),
          ("unSTAR", try await write { try Posts.toggleStar(id, by: "me", in: &$0) }),
          ("EDIT", try await write { try Posts.edit(id, by: uid, title: "t", body: "b", in: &$0) }),
          ("COMMENT", try await write { try Comments.create(on: id, by: uid, text: "c", in: &$0) }),
        ]
      }
    }

    @Test func `a request costs about the same among a million posts as among a thousand`()
      async throws
    {
      let small = try await touched(in: World(posts: 1_000))
      let large = try await touched(in: World(posts: 1_000_000))
      for (small, large) in zip(small, large) {
        print(
          "nodes touched, \(small.name): \(small.nodes) of 1,000 posts, \(large.nodes) of 1,000,000"
        )
      }
      for (small, large) in zip(small, large) {
        #expect(2 * large.nodes <= 3 * small.nodes, "\(small.name): \(small.nodes), \(large.nodes)")
      }
    }

    @Test func `a star costs about the same on a post with a hundred thousand stars`() async throws
    {
      var counts: [Int] = []
      for stars in [3, 100_000] {
        let id: Key = "p"
        let post = World.post("u", stars: stars)
        let root = Node(children: [
          (Key("posts"), Node(children: [(id, post)])),
          (Key("user-posts"), Node(children: [(Key("u"), Node(children: [(id, post)]))])),
        ])
        counts += try await Self.withEngine(on: root) { engine, counter in
          var counts: [Int] = []
          for _ in 0..<2 {
            let before = counter.count
            _ = try await engine.transact { try Posts.toggleStar(id, by: "me", in: &$0) }
            counts.append(counter.count - before)
          }
          return counts
        }
      }
      print("nodes touched, STAR and unSTAR: \(counts) on 3 and 100,000 stars")
      #expect(2 * counts[2] <= 3 * counts[0])
      // A removal is looked up first, in both copies of the post. So it passes the pages of many stars twice in each copy,
      // and grows by more than a star: from 54 nodes to 84, and a star from 45 to 65.
      #expect(5 * counts[3] <= 8 * counts[1])
    }
  }
#endif
