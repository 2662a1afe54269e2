import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Commits that a listener gets as if they were one, because its client reads slowly.
struct WithheldChangesTests {
  /// Applies a write, and returns its change.
  private static func commit(
    _ assignments: [Assignment], to tree: inout Tree, _ sequence: Int64, bytes: Int = 100
  ) -> CommittedChange {
    let before = tree.root
    tree.apply(assignments)
    let commit = Commit(sequence: sequence, time: sequence, assignments: assignments)
    let change = Change(
      commit: commit, views: ConcernedViews(), before: before, after: tree.root)
    return CommittedChange(change, bytes: bytes)
  }

  @Test
  func `the events of withheld commits lead a copy from the version before them to the newest`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "WithheldChangesTests")
    var writes = RandomWrites()
    writes.keysMax = 4
    writes.bigOnceIn = 1_000
    var tree = Tree()
    for round in 0..<200 {
      let old = tree.root
      let listenings = try (0..<8).map { _ in try Listening.random(&random) }
      var withheld: [WithheldChanges?] = Array(repeating: nil, count: listenings.count)
      var sequence = Int64(round * 10)
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        sequence += 1
        let assignments = writes.next(&random).resolved(in: tree.root, at: 0)
        let change = Self.commit(assignments, to: &tree, sequence)
        for (index, listening) in listenings.enumerated() {
          // As the engine: a view in which nothing changed is not notified.
          if change.events(for: listening).isEmpty { continue }
          if withheld[index] == nil {
            withheld[index] = WithheldChanges(before: change, for: listening)
          }
          _ = withheld[index]?.append(change)
        }
      }
      for (listening, withheld) in zip(listenings, withheld) {
        let (before, after) = (old.at(listening.path), tree.root.at(listening.path))
        guard let withheld else {
          if listening.form == .child {
            #expect(listening.query.changes(from: before, to: after).isEmpty)
          } else {
            #expect(listening.query.value(of: before) == listening.query.value(of: after))
          }
          continue
        }
        let change = withheld.change(to: Snapshot(root: tree.root, sequence: sequence))
        #expect(change.sequence == sequence)
        let events = change.events(for: listening)
        listening.expect(events, from: before, to: after)
      }
    }
  }

  @Test(arguments: [false, true])
  func `each value that is shown and replaced is counted once, and no other value`(
    _ isMerged: Bool
  ) throws {
    let text = { (count: Int) in Node(String(repeating: "x", count: count)) }
    var tree = Tree(
      root: Node(children: [
        ("a", Node(children: [("b", text(100_000)), ("c", text(10_000)), ("d", text(50_000))]))
      ]))
    func commit(_ paths: [String], _ value: Node) throws -> CommittedChange {
      let assignments = try paths.map { Assignment(Location(try Path($0)), value) }
      let change = Self.commit(assignments, to: &tree, 1, bytes: 1_000_000)
      // A merged change does not know the bytes of its values.
      return isMerged ? CommittedChange(merging: [change]) : change
    }
    let first = try commit(["a/b"], text(200_000))
    var withheld = try #require(WithheldChanges(before: first, for: Listening(try Path("a"))))
    #expect((100_000..<101_000).contains(withheld.append(first)))
    // The value is in the tree, and was never shown.
    #expect(try withheld.append(commit(["a/b"], 2)) == 0)
    #expect(try (10_000..<11_000).contains(withheld.append(commit(["a/b", "a/c"], 3))))
    #expect(try withheld.append(commit(["a/c", "other"], text(1_000_000))) == 0)
    #expect(try withheld.append(commit(["a/e"], text(1_000_000))) < 1_000)
    #expect(try withheld.append(commit(["a/e"], 1)) == 0)
    // The whole of it counts, with the values that have counted already.
    #expect(try (160_000..<163_000).contains(withheld.append(commit(["a"], 1))))
    #expect(try withheld.append(commit(["a"], 2)) == 0)
  }

  @Test(arguments: [0, 1])
  func `everything that is shown counts when there are too many places, and nothing afterwards`(
    _ excess: Int
  ) throws {
    let text = Node(String(repeating: "x", count: 1_000_000))
    var tree = Tree(root: Node(children: [("a", Node(children: [("b", text)]))]))
    let listening = Listening(try Path("a"))
    var withheld: WithheldChanges?
    var last = 0
    func append(_ range: Range<Int>) throws {
      let assignments = try range.map { Assignment(Location(try Path("a/c/\($0)")), 1) }
      let change = Self.commit(assignments, to: &tree, 1)
      if withheld == nil { withheld = WithheldChanges(before: change, for: listening) }
      last = withheld?.append(change) ?? 0
    }
    let step = CommittedChange.locationsMax
    for start in stride(from: 0, to: WithheldChanges.locationsMax, by: step) {
      try append(start..<start + step)
      #expect(last < 1_000_000)
    }
    try append(0..<step)
    #expect(last == 0)
    // One commit may have too many places as well.
    if excess == 0 { try append(0..<step + 1) } else { try append(20_000..<20_001) }
    #expect((1_000_000..<1_010_000).contains(last))
    try append(30_000..<30_001)
    #expect(last == 0)
  }

  @Test func `the list of the children that a query selects is counted once`() throws {
    let count = 1_000
    var tree = Tree(
      root: Node(children: [
        ("a", Node(children: (0..<Int32(count)).map { (Key(index: $0), 1) }))
      ]))
    let listening = Listening(try Path("a"), try Query(order: .key, limit: .first(count)))
    let change = Self.commit([Assignment(Location(try Path("a/0")), 2)], to: &tree, 1)
    var withheld = try #require(WithheldChanges(before: change, for: listening))
    #expect((count * 64..<count * 65).contains(withheld.append(change)))
    #expect(withheld.append(change) == 0)
  }

  @Test func `a version that has not all commits is not enough`() throws {
    var tree = Tree()
    let place = Assignment(Location(try Path("a")), 1)
    let first = Self.commit([place], to: &tree, 7)
    var withheld = try #require(WithheldChanges(before: first, for: Listening(try Path("a"))))
    _ = withheld.append(first)
    _ = withheld.append(Self.commit([place], to: &tree, 9))
    for (sequence, isEnough) in [(8, false), (9, true), (10, true)] as [(Int64, Bool)] {
      let snapshot = Snapshot(root: tree.root, sequence: sequence)
      #expect(withheld.isContained(in: snapshot) == isEnough)
    }
  }

  @Test func `a query may select so many children, and not one more`() throws {
    var children: [(Key, Node)] = (0..<Int32(WithheldChanges.childrenMax)).map {
      (Key(index: $0), 1)
    }
    let query = try Query(order: .key, limit: .first(2 * WithheldChanges.childrenMax))
    for isWithheld in [true, false] {
      var tree = Tree(root: Node(children: [("a", Node(children: children))]))
      let change = Self.commit([Assignment(Location(try Path("a/0")), 2)], to: &tree, 1)
      let path = try Path("a")
      #expect(
        (WithheldChanges(before: change, for: Listening(path, query)) != nil) == isWithheld)
      // All children take no memory of their own.
      #expect(WithheldChanges(before: change, for: Listening(path)) != nil)
      children.append((Key(index: Int32(children.count)), 1))
    }
  }

  /// A list of numbered children with an index.
  private static func list(_ count: Int, _ order: Order) -> Tree {
    var plan = IndexPlan()
    plan.declare(order, at: ["a"])
    let children = (0..<Int32(count)).map {
      (Key(index: $0), Node(children: [("n", Node(Int64($0)))]))
    }
    return Tree(root: Node(children: [("a", Node(children: children))]), indexPlan: plan)
  }

  @Test(arguments: EventForm.allCases)
  func `the events of a catch-up are those of the difference, for lists of many children`(
    _ form: EventForm
  ) throws {
    var random = SeededGenerator(printingSeedFor: "WithheldChangesTests.lists")
    let list = try Path("a")
    for round in 0..<100 {
      let order: Order = random.pick([.key, .value, .priority, .child(try Path("n"))])
      let n = Int.random(in: 1...30, using: &random)
      let limit: Query.Limit? = random.pick([nil, .first(n), .last(n)])
      func bound() -> Query.Bound? {
        guard random.oneIn(3) else { return nil }
        let key = Key(index: Int32.random(in: 0..<80, using: &random))
        let value = Int64.random(in: 0..<40, using: &random)
        return order == .key
          ? Query.Bound(.absent, key: key, isInclusive: random.oneIn(2))
          : Query.Bound(.integer(value), key: random.oneIn(2) ? key : nil)
      }
      let query = try Query(order: order, lower: bound(), upper: bound(), limit: limit)
      let listening = Listening(list, query, form: form)
      var tree = random.oneIn(2) ? Self.list(60, order) : Self.list(60, .key)
      let before = tree.root
      var withheld: WithheldChanges?
      for sequence in 1...Int64.random(in: 1...8, using: &random) {
        var assignments: [Assignment] = []
        for key in Set((0..<3).map { _ in Int32.random(in: 0..<80, using: &random) }).sorted() {
          let child = list.child(Key(index: key))
          let node = tree.root.at(child)
          let number = Node(Int64.random(in: 0..<40, using: &random))
          switch Int.random(in: 0..<6, using: &random) {
          case 0: assignments.append(Assignment(child, .absent))
          case 1: assignments.append(Assignment(child, number))
          case 2 where !node.isAbsent:
            assignments.append(Assignment(Location(child, isPriority: true), number))
          case 3: assignments.append(Assignment(child, node))
          default: assignments.append(Assignment(child.child("n"), number))
          }
        }
        if random.oneIn(40) {
          assignments = [Assignment(list, Self.list(20, .key).root.at(list))]
        }
        let change = Self.commit(assignments, to: &tree, sequence)
        if withheld == nil { withheld = WithheldChanges(before: change, for: listening) }
        _ = withheld?.append(change)
      }
      let caughtUp = try #require(withheld).change(to: Snapshot(root: tree.root, sequence: 99))
      let events = caughtUp.events(for: listening)
      listening.expect(events, from: before.at(list), to: tree.root.at(list))
      guard form == .child else { continue }
      let changes = listening.query.changes(from: before.at(list), to: tree.root.at(list))
      try #require(events == changes.map(ListenEvent.child), "round \(round)")
    }
  }

  #if CANOPY_COUNT_WORK
    /// Queries of which each selects about a hundred children of `list`, or all of them.
    private static func queries(of count: Int) throws -> [(name: String, query: Query)] {
      let order = Order.child(try Path("n"))
      let bound = Query.Bound(.integer(Int64(count - 100)))
      return [
        ("the last by key", try Query(order: .key, limit: .last(100))),
        ("the last by a child", try Query(order: order, limit: .last(100))),
        ("the first by a child", try Query(order: order, limit: .first(100))),
        ("a range without a limit", try Query(order: order, lower: bound)),
        ("the first by priority", try Query(order: .priority, limit: .first(100))),
        ("all", .all),
        ("all by a child", try Query(order: order)),
      ]
    }

    @Test(arguments: EventForm.allCases)
    func `the work of a catch-up depends on the list and the writes, not on the children stored`(
      _ form: EventForm
    ) throws {
      func work(_ count: Int) throws -> [(name: String, nodes: Int)] {
        var result: [(name: String, nodes: Int)] = []
        let list = Self.list(count, .child(try Path("n")))
        for (name, query) in try Self.queries(of: count) {
          let listening = Listening(try Path("a"), query, form: form)
          var tree = list
          var withheld: WithheldChanges?
          for sequence in 1...20 as ClosedRange<Int64> {
            let number = count - 10 * Int(sequence)
            let place = try Path("a/\(number)/n")
            let change = Self.commit(
              [Assignment(place, Node(Int64(count) + sequence))], to: &tree, sequence)
            let nodes = WorkCounter.nodesTouched {
              if withheld == nil { withheld = WithheldChanges(before: change, for: listening) }
              _ = withheld?.append(change)
            }
            #expect(nodes <= 1_500, "\(name): \(nodes) nodes to withhold a commit of \(count)")
          }
          let merged = try #require(withheld).change(
            to: Snapshot(root: tree.root, sequence: 20))
          let notification = merged.notification(for: listening)
          #expect(!notification.takesLong(bytesMax: 64 * 1024, childrenMax: 4_096), "\(name)")
          result.append((name, WorkCounter.nodesTouched { _ = notification.events }))
        }
        return result
      }
      for (small, large) in zip(try work(1_000), try work(100_000)) {
        print("nodes of 1,000 and 100,000, \(small.name): \(small.nodes) and \(large.nodes)")
        #expect(large.nodes <= 2 * small.nodes + 100, "\(small.name)")
        #expect(large.nodes <= 3_000, "\(small.name)")
      }
    }

    @Test(arguments: [0, 1])
    func `a catch-up between two long lists takes long, and so does one without an index`(
      _ excess: Int
    ) throws {
      // The list grows while commits are withheld: a bound without a limit.
      var tree = Self.list(2_048, .key)
      let listening = Listening(
        try Path("a"), try Query(order: .key, lower: .init(.absent, key: Key(index: 0))))
      let added = try (0..<excess).map { Assignment(try Path("a/\(5_000 + $0)"), 1) }
      let change = Self.commit(
        [Assignment(try Path("a/0"), 1)] + added, to: &tree, 1)
      var withheld = try #require(WithheldChanges(before: change, for: listening))
      _ = withheld.append(change)
      let merged = withheld.change(to: Snapshot(root: tree.root, sequence: 1))
      #expect(
        merged.notification(for: listening).takesLong(bytesMax: .max, childrenMax: 4_096)
          == (excess == 1))
      let order = Order.child(try Path("n"))
      let sorted = Listening(try Path("a"), try Query(order: order, limit: .last(1)))
      var other = Self.list(4_096 - 1 + excess, .key)
      let write = Self.commit([Assignment(try Path("a/0/n"), 1)], to: &other, 1)
      #expect(WithheldChanges.childrenSorted(before: write, for: sorted) == 4_095 + excess)
      var last = try #require(WithheldChanges(before: write, for: sorted))
      _ = last.append(write)
      let difference = last.change(to: Snapshot(root: other.root, sequence: 1))
      #expect(
        difference.notification(for: sorted).takesLong(bytesMax: .max, childrenMax: 4_096)
          == (excess == 1))
    }
  #endif
}
