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
    for round in 0..<400 {
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
          #expect(listening.query.value(of: before) == listening.query.value(of: after))
          continue
        }
        let change = withheld.change(to: Snapshot(root: tree.root, sequence: sequence))
        #expect(change.sequence == sequence)
        let events = change.events(for: listening)
        switch listening.form {
        case .child:
          #expect(
            events == listening.query.changes(from: before, to: after).map(ListenEvent.child))
        case .value:
          let shown = listening.query.value(of: after)
          #expect(
            events.isEmpty ? listening.query.value(of: before) == shown : events == [.value(after)])
        case .sync:
          var copy = Tree(root: listening.query.value(of: before))
          for case .put(let puts) in events { copy.apply(puts) }
          #expect(copy.root == listening.query.value(of: after), "\(listening)")
        }
      }
    }
  }

  @Test
  func `a place that is written again and again is counted once, and each other place as well`()
    throws
  {
    var tree = Tree()
    func commit(_ paths: [String], _ value: Node, bytes: Int) throws -> CommittedChange {
      let assignments = try paths.map { Assignment(Location(try Path($0)), value) }
      return Self.commit(assignments, to: &tree, 1, bytes: bytes)
    }
    let listening = Listening(try Path("a"), form: .value)
    let first = try commit(["a/b"], 1, bytes: 10)
    var withheld = try #require(WithheldChanges(before: first, for: listening))
    #expect(withheld.append(first) == WithheldChanges.bytes(of: first))
    #expect(try withheld.append(commit(["a/b"], 2, bytes: 1_000)) == 0)
    let second = try commit(["a/b", "a/c"], 3, bytes: 100)
    #expect(withheld.append(second) == WithheldChanges.bytes(of: second))
    // Places elsewhere replace nothing that is kept.
    #expect(try withheld.append(commit(["a/c", "other"], 4, bytes: 7)) == 0)
    let places = (0..<CommittedChange.locationsMax).map { "a/b/\($0)" }
    let many = try commit(places, 1, bytes: 7)
    #expect(withheld.append(many) == WithheldChanges.bytes(of: many))
    // There are too many places to remember.
    let again = try commit(["a/c"], 5, bytes: 3)
    #expect(withheld.append(again) == WithheldChanges.bytes(of: again))
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
}
