#if CANOPY_COUNT_WORK
  import CanopyTree
  import Testing

  @testable import CanopyClient

  /// The number of nodes that a step touches with little and with much stored or pending data. The
  /// bounds hold on any machine.
  @Suite(.serialized) struct SyncWorkTests {
    private static let list = QuerySpec(Path.root.child("list"))
    private static let newest: Query = {
      var query = Query.all
      query.limit = .last(20)
      return query
    }()
    private static let byCount: Query = {
      var query = Query.all
      query.order = .child(Path.root.child("n"))
      query.limit = .last(20)
      return query
    }()

    /// Returns a tree with a list and three listeners: to all children, to the newest, and to those
    /// with the highest counts.
    private func tree(_ count: Int32, queries: [Query] = [.all, newest, byCount]) -> SyncTree {
      var tree = SyncTree()
      _ = tree.connected()
      for (index, query) in queries.enumerated() {
        let kinds: DataEvent.Kinds = query.isUnbounded ? .all : .children
        _ = tree.listen(ListenerID(index), to: QuerySpec(Self.list.path, query), for: kinds)
      }
      let children = (0..<count).map { index in
        let members: [(Key, Node)] = [("n", Node(Int64(index))), ("text", "…")]
        return (Key(index: index), Node(children: members))
      }
      if let tag = tree.listens[Self.list]?.tag {
        let data = Assignment(.root, Node(children: children))
        _ = tree.changed(tag, [data], isPatch: false, sequence: 1)
      }
      return tree
    }

    private func path(_ index: Int32, _ below: Key? = nil) -> Path {
      let child = Self.list.path.child(Key(index: index))
      return below.map(child.child) ?? child
    }

    private func write(_ path: Path, _ node: Node) throws -> Write {
      try Write.set(Location(path), WriteValue(node))
    }

    private func touched(
      _ name: String, small: inout SyncTree, large: inout SyncTree,
      _ body: (inout SyncTree) throws -> Void
    ) throws -> (small: Int, large: Int) {
      let result = (
        small: try WorkCounter.nodesTouched { try body(&small) },
        large: try WorkCounter.nodesTouched { try body(&large) }
      )
      print("nodes touched, \(name): \(result.small) and \(result.large)")
      return result
    }

    @Test
    func
      `the cost of a local write, its confirmation and its refusal does not depend on the stored data`()
      throws
    {
      var (small, large) = (tree(1_000), tree(100_000))
      let middle: Int32 = 500
      var ids: (WriteID, WriteID) = (WriteID(0), WriteID(0))
      for (name, place, value) in [
        ("deep set", path(middle, "n"), Node(7)), ("new child", path(-1), Node(1)),
        ("remove", path(middle + 1), .absent), ("new first place", path(3, "n"), Node(1 << 40)),
      ] {
        let set = try touched(name, small: &small, large: &large) { tree in
          let (id, effects) = tree.write(try write(place, value), at: 0)
          #expect(effects.events.count >= 2)
          ids = (ids.1, id)
        }
        #expect(set.large <= 2 * set.small)
        #expect(set.large <= 1_000)
        let undo = try touched("its refusal", small: &small, large: &large) { tree in
          #expect(tree.refused(ids.1).events.count >= 2)
        }
        #expect(undo.large <= 2 * undo.small)
        #expect(undo.large <= 1_000)
      }
    }

    @Test func `the cost of a server change to one child does not depend on the stored data`()
      throws
    {
      var (small, large) = (tree(1_000), tree(100_000))
      let work = try touched("a patch", small: &small, large: &large) { tree in
        let tag = try #require(tree.listens[Self.list]?.tag)
        let effects = tree.changed(
          tag, [Assignment(Path.root.child("500").child("n"), 1_000_000)], isPatch: true,
          sequence: 2)
        #expect(effects.events.count == 4)
      }
      #expect(work.large <= 2 * work.small)
      #expect(work.large <= 1_000)
    }

    @Test(arguments: [false, true])
    func `the cost of an event does not depend on the pending increments of its location`(
      areSent: Bool
    ) throws {
      let place = path(3, "n")
      func pending(_ count: Int) throws -> SyncTree {
        var tree = tree(100)
        for _ in 0..<count {
          let increment = try WriteValue(json: #"{".sv":{"increment":1}}"#)
          _ = tree.write(try Write.set(Location(place), increment), at: 0)
        }
        while areSent, tree.nextRequest() != nil {}
        return tree
      }
      var (small, large) = (try pending(20), try pending(2_000))
      let event = try touched("an event at pending increments", small: &small, large: &large) {
        tree in
        let tag = try #require(tree.listens[Self.list]?.tag)
        let same = Assignment(Path.root.child("3").child("n"), 3)
        #expect(tree.changed(tag, [same], isPatch: true, sequence: 2).events.isEmpty)
      }
      #expect(event.large <= 2 * event.small)
      let end = try touched("a confirmation before them", small: &small, large: &large) { tree in
        #expect(tree.acknowledged(WriteID(1)).events.isEmpty == areSent)
      }
      if areSent { #expect(end.large <= 2 * end.small) }
      #expect(small.latest(place) == Node(areSent ? 23 : 22))
      #expect(large.latest(place) == Node(areSent ? 2_003 : 2_002))
    }

    @Test(arguments: [0, 20_000] as [Int32])
    func `the cost of writes to distinct locations does not depend on pending writes`(stored: Int32)
      throws
    {
      func pending(_ count: Int32) throws -> SyncTree {
        var tree = tree(stored)
        for index in 0..<count { _ = tree.write(try write(path(index + 50_000), 1), at: 0) }
        return tree
      }
      var (small, large) = (try pending(100), try pending(10_000))
      let add = try touched("one more write", small: &small, large: &large) { tree in
        let (_, effects) = tree.write(try write(path(90_000), 1), at: 0)
        #expect(effects.events.count >= 2)
      }
      let acknowledge = try touched("the confirmation of one", small: &small, large: &large) {
        let tag = try #require($0.listens[Self.list]?.tag)
        let data = Assignment(Path.root.child("50050"), 1)
        #expect($0.changed(tag, [data], isPatch: true, sequence: 2).events.isEmpty)
        #expect($0.acknowledged(WriteID(51)).events.isEmpty)
      }
      let refuse = try touched("the refusal of one", small: &small, large: &large) {
        #expect($0.refused(WriteID(41)).events.count >= 2)
      }
      for work in [add, acknowledge, refuse] {
        #expect(work.large <= 3 * work.small)
        #expect(work.large <= 1_000)
      }
    }

    @Test func `the cost of writes to one location does not depend on pending writes there`() throws
    {
      func pending(_ count: Int64) throws -> SyncTree {
        var tree = tree(10)
        for value in 0..<count { _ = tree.write(try write(path(5, "n"), Node(value)), at: 0) }
        return tree
      }
      var (small, large) = (try pending(10), try pending(10_000))
      let add = try touched("one more write to a place", small: &small, large: &large) { tree in
        _ = tree.write(try write(path(5, "n"), -1), at: 0)
      }
      let acknowledge = try touched("its first confirmation", small: &small, large: &large) {
        #expect($0.acknowledged(WriteID(1)).events.isEmpty)
      }
      for work in [add, acknowledge] { #expect(work.large <= work.small + 10) }
    }

    @Test func `a listener inside known data finds it without a scan`() throws {
      var (small, large) = (tree(1_000), tree(100_000))
      let deep = try touched("listening to a child", small: &small, large: &large) { tree in
        let spec = QuerySpec(path(700))
        #expect(tree.listen(ListenerID(9), to: spec, for: .value).events.count == 1)
      }
      #expect(deep.large <= 2 * deep.small)
      let newest = try touched("listening to the newest", small: &small, large: &large) { tree in
        var query = Query.all
        query.limit = .last(10)
        let spec = QuerySpec(Self.list.path, query)
        #expect(tree.listen(ListenerID(10), to: spec, for: .value).events.count == 1)
      }
      #expect(newest.large <= 2 * newest.small)
    }
  }
#endif
