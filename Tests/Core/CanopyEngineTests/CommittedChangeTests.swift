import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Merging commits, and the memory that notifications share.
struct CommittedChangeTests {
  /// Applies a write, and returns its change.
  private static func commit(
    _ assignments: [Assignment], to tree: inout Tree, _ sequence: Int64
  ) -> CommittedChange {
    let before = tree.root
    tree.apply(assignments)
    let commit = Commit(sequence: sequence, time: 0, assignments: assignments)
    let change = Change(
      commit: commit, views: ConcernedViews(), before: before, after: tree.root)
    return CommittedChange(change, bytes: 100)
  }

  @Test func `the events of merged commits lead a copy from the oldest tree to the newest`() throws
  {
    var random = SeededGenerator(printingSeedFor: "CommittedChangeTests")
    var writes = RandomWrites()
    writes.keysMax = 4
    writes.bigOnceIn = 1_000
    var tree = Tree()
    for round in 0..<400 {
      let old = tree.root
      var changes: [CommittedChange] = []
      for index in 0..<Int.random(in: 1...6, using: &random) {
        let assignments = writes.next(&random).resolved(in: tree.root, at: 0)
        changes.append(Self.commit(assignments, to: &tree, Int64(round * 10 + index)))
      }
      // Merging merged changes gives the same result.
      let split = Int.random(in: 1...changes.count, using: &random)
      let first = CommittedChange(merging: Array(changes[..<split]))
      let merged = CommittedChange(merging: [first] + changes[split...])
      #expect(merged.sequence == changes.last?.sequence)
      for _ in 0..<8 {
        let listening = try Listening.random(&random)
        let events = merged.events(for: listening)
        let (before, after) = (old.at(listening.path), tree.root.at(listening.path))
        let isFound = merged.paths.contains {
          $0.hasPrefix(listening.path) || listening.path.hasPrefix($0)
        }
        #expect(events.isEmpty || isFound, "a view that the paths do not lead to has events")
        listening.expect(events, from: before, to: after)
      }
    }
  }

  /// Writes that empty branches with priorities and fill them again.
  private static func emptying() -> RandomWrites {
    var writes = RandomWrites()
    writes.keysMax = 3
    writes.depthMax = 3
    writes.bigOnceIn = 1_000
    return writes
  }

  @Test
  func `a copy that resumes over writes that emptied branches has no priority that was lost`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "CommittedChangeTests.resumption")
    let writes = Self.emptying()
    var tree = Tree()
    for _ in 0..<600 {
      if random.oneIn(20) { tree = Tree(root: writes.value(&random, depth: 3)) }
      let old = tree.root
      var written: Set<Location> = []
      var images: [[Assignment]] = []
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        let assignments = writes.next(&random).resolved(in: tree.root, at: 0)
        images.append(tree.beforeImage(of: assignments))
        written.formUnion(tree.apply(assignments).map(\.location))
      }
      let path = try Path(random.oneIn(2) ? [] : [random.pick(RandomWrites.keys.prefix(3))])
      var copy = Tree(root: old.at(path))
      let listening = Listening(path, form: .sync)
      let concerned = written.filter { listening.isConcerned(by: $0) }
      for case .put(let puts) in listening.changes(to: tree.root, by: concerned) {
        copy.apply(puts)
      }
      #expect(copy.root == tree.root.at(path))
      // With before-images the old version is exact.
      var reverted = tree
      for image in images.reversed() { reverted.apply(image) }
      #expect(reverted.root == old)
    }
  }

  @Test func `a merged change keeps so many locations, and with more stands for the whole tree`()
    throws
  {
    var tree = Tree()
    let listening = Listening(try Path("a"), form: .sync)
    var changes: [CommittedChange] = []
    for index in 0..<CommittedChange.locationsMax {
      let location = Location(try Path("a/\(index)"))
      changes.append(Self.commit([Assignment(location, 1)], to: &tree, Int64(index)))
    }
    let most = CommittedChange(merging: changes)
    guard case .put(let puts)? = most.events(for: listening).first else {
      Issue.record("there is no event")
      return
    }
    #expect(puts.count == CommittedChange.locationsMax)
    #expect(most.paths.count == CommittedChange.locationsMax)
    let location = Location(try Path("b"))
    changes.append(Self.commit([Assignment(location, 1)], to: &tree, 10_000))
    let more = CommittedChange(merging: changes)
    #expect(more.events(for: listening) == [.put([Assignment(.root, tree.root.child("a"))])])
    #expect(more.paths == [.root] && more.bytes < most.bytes)
  }

  @Test func `a commit is measured with the memory of its values`() throws {
    let children = Node(children: (0..<1_000).map { (Key(index: $0), true) })
    let assignments = [Assignment(Location(try Path("a/b")), children)]
    var budget = ByteBudget(.max)
    #expect(children.fits(budget: &budget))
    let commit = Commit(
      sequence: 1, time: 0, assignments: assignments,
      beforeImage: [Assignment(Location(try Path("a/b")), 1)])
    // Two paths of four bytes, and a number.
    let all = commit.estimatedValues(upTo: .max / 2)
    #expect(all == ValueBytes(json: budget.used.json + 8 + 24, memory: budget.memory))
    #expect(all.memory > 4 * all.json)
    let part = commit.estimatedValues(upTo: 1_000)
    #expect(part.json == 1_000 + 28 && part.memory < all.memory)
  }

  @Test func `texts that notifications share have a bound, and are released with them`() throws {
    var tree = Tree()
    let change = Self.commit([Assignment(Location(try Path("a")), 1)], to: &tree, 1)
    let memory = DerivedBytes(bytesMax: 100)
    var made = 0
    func text(_ notification: Notification, _ bytes: Int) -> String {
      notification.shared {
        made += 1
        return "text"
      } bytes: { _ in
        bytes
      }
    }
    do {
      let first = Notification(Listening(.root), change, memory)
      for _ in 0..<3 { #expect(text(first, 60) == "text") }
      #expect(made == 1 && memory.count == 60)
      let second = Notification(Listening(.root), change, memory)
      for _ in 0..<3 { #expect(text(second, 41) == "text") }
      #expect(made == 4 && memory.count == 60, "a text beyond the bound is made each time")
      #expect(text(second, 40) == "text" && text(second, 40) == "text")
      #expect(made == 5 && memory.count == 100)
      withExtendedLifetime((first, second)) {}
    }
    #expect(memory.count == 0)
  }

  @Test func `a notification keeps its events without the versions of the tree`() throws {
    var tree = Tree()
    let change = Self.commit([Assignment(Location(try Path("a")), 1)], to: &tree, 1)
    let notification = change.notification(for: Listening(.root, form: .value))
    #expect(notification.change === change)
    notification.releaseChange()
    #expect(notification.change == nil && notification.events == [.value(tree.root)])
  }

  @Test func `children that a query by priority may pass count as compared`() throws {
    var query = Query.all
    query.order = .priority
    query.limit = .first(5)
    let listening = Listening(.root, query)
    func compared(_ children: [Node]) throws -> Int {
      let root = Node(children: children.enumerated().map { (Key(index: Int32($0)), $1) })
      var tree = Tree(root: root)
      let change = Self.commit([Assignment(Location(try Path("0")), 7)], to: &tree, 1)
      return change.childrenCompared(for: listening)
    }
    let (without, with) = (Node(1), Node(1).withPriority(2))
    #expect(try compared(Array(repeating: without, count: 1_000)) == 0)
    // Before and after the commit: 64 for each selected child, and no more than there are children.
    #expect(try compared((0..<1_000).map { $0 % 34 == 0 ? without : with }) == 2 * 5 * 64)
    #expect(try compared((0..<100).map { $0 % 34 == 0 ? without : with }) == 2 * 100)
  }
}
