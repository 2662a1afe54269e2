#if CANOPY_COUNT_WORK
  import CMallocCount
  import CanopyEngine
  import CanopySocial
  import CanopyTesting
  import CanopyTree
  import Synchronization
  import Testing

  /// The cost of stars in copied pages, created objects of the tree, calls of `malloc`, journaled bytes and memory, which
  /// are the same on every machine.
  @Suite(.serialized, .timeLimit(.minutes(5))) struct StarCostTests {
    /// The cost of one star.
    private struct Cost: CustomStringConvertible {
      var pagesCopied = 0.0
      var objectsCreated = 0.0
      /// The calls of `malloc` from the first decision to the last reply; nil if they are not counted.
      var mallocCalls: Double?
      var journaledBytes = 0.0
      /// The bytes that may be added to the memory of the tree, and those that are.
      var memoryMax = 0.0
      var memory = 0.0

      var description: String {
        "\(pagesCopied) copied pages, \(objectsCreated) created objects, "
          + "\(mallocCalls.map { "\($0)" } ?? "uncounted") calls of malloc, \(journaledBytes) journaled bytes, "
          + "\(memory) bytes of memory of at most \(memoryMax)"
      }
    }

    /// Returns the mean cost of stars that are carried out in one batch.
    ///
    /// - Parameter stars: the posts, and the users who star them.
    private static func cost(of stars: [(post: Key, uid: Key)], on root: Node) async throws -> Cost
    {
      var configuration = Engine.Configuration.forTests
      configuration.indexPlan = Layout.indexPlan
      let journal = InMemoryJournal(root: root, checkpoint: 1)
      return try await WorkCounter.counting { counter in
        let engine = try await Engine.forTests(journal, configuration: configuration)
        let refused = Mutex(0)
        let calls = Mutex<(first: Int64?, last: Int64)>((nil, 0))
        // They wait until the engine runs, so they come in one batch.
        for (post, uid) in stars {
          engine.submit {
            calls.withLock { $0.first = $0.first ?? MallocCallsOfThread() }
            return try Posts.toggleStar(post, by: uid, in: &$0)
          } completion: { outcome in
            calls.withLock { $0.last = MallocCallsOfThread() }
            if case .failure = outcome { refused.withLock { $0 += 1 } }
          }
        }
        engine.stop()
        let (pages, objects) = (counter.pagesCopied, counter.objectsCreated)
        await engine.run()
        #expect(journal.groups == [stars.count] && refused.withLock { $0 } == 0)
        let (pagesAfter, objectsAfter) = (counter.pagesCopied, counter.objectsCreated)
        var scratch = JSONOutput()
        var bytes = 0
        for commit in journal.commits {
          try commit.storedText(scratch: &scratch).withBytes {
            bytes += $0.count + ($1?.count ?? 0)
          }
        }
        var tree = Tree(root: root, indexPlan: Layout.indexPlan)
        let before = tree
        for commit in journal.commits { tree.apply(commit.assignments, countsMemory: true) }
        var memory = MemoryCount()
        memory.addDifference(from: before.root, to: tree.root)
        let count = Double(stars.count)
        let (first, last) = calls.withLock { $0 }
        let isCounted = MallocCallsOfThread() >= 0
        #expect(!isCounted || last > first ?? .max, "the program has another malloc")
        return Cost(
          pagesCopied: Double(pagesAfter - pages) / count,
          objectsCreated: Double(objectsAfter - objects) / count,
          mallocCalls: isCounted ? first.map { Double(last - $0) / count } : nil,
          journaledBytes: Double(bytes) / count,
          memoryMax: Double(tree.addedMemoryMax - before.addedMemoryMax) / count,
          memory: Double(memory.bytes) / count)
      }
    }

    @Test func `a star copies each page on its way once, and creates one text of the post`()
      async throws
    {
      let world = try WorkTests.World(posts: 10_000)
      // The first star of a process also calls `malloc` for caches that all later ones use.
      _ = try await Self.cost(of: [(world.ids[50], "me")], on: world.root)
      let cost = try await Self.cost(of: [(world.ids[50], "me")], on: world.root)
      print("a star alone:", cost)
      // The pages are those of the posts, of the posts of the author, and of the two indexes by stars, in which the post
      // moves from one place to another. The other objects are the text of the post, which both copies share, two boxes
      // of branches with indexes, and the pages that begin at full ones.
      #expect(cost.pagesCopied <= 24)
      #expect(cost.objectsCreated <= 30)
      // A release build calls it 94 times, with SQLite: see Benchmarks.md.
      #expect(cost.mallocCalls ?? 0 <= 340)
      #expect(cost.journaledBytes <= 210)
    }

    @Test func `the stars of a batch share the copies of pages`() async throws {
      let world = try WorkTests.World(posts: 10_000)
      let cost = try await Self.cost(of: world.ids.map { ($0, "me") }, on: world.root)
      print("a star of a batch:", cost)
      #expect(cost.pagesCopied <= 6)
      #expect(cost.objectsCreated <= 6.5)
      #expect(cost.mallocCalls ?? 0 <= 290)
      #expect(cost.journaledBytes <= 250)
      #expect(cost.memory <= cost.memoryMax && cost.memoryMax <= 4_500)
    }

    @Test func `stars of many users on one post share all copies of pages`() async throws {
      let world = try WorkTests.World(posts: 10_000)
      let stars = try (0..<50).map { (post: world.ids[50], uid: try Key("user\($0)")) }
      let cost = try await Self.cost(of: stars, on: world.root)
      print("a star of a batch on one post:", cost)
      #expect(cost.pagesCopied <= 4)
      #expect(cost.objectsCreated <= 4.5)
      #expect(cost.mallocCalls ?? 0 <= 270)
      #expect(cost.journaledBytes <= 220)
      #expect(cost.memory <= cost.memoryMax && cost.memoryMax <= 4_500)
    }
  }
#endif
