import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct RandomTests {
  @Test(arguments: [false, true])
  func `whatever concurrent writers do, the tree is the journal folded and the model's`(
    fails: Bool
  ) async throws {
    let random = SeededGenerator(printingSeedFor: "RandomTests.writers")
    let store = InMemoryJournal()
    let journal = FaultyJournal(store)
    if fails { RandomTests.planFaults(journal, random) }
    let acknowledged = try await withEngine(journal) { engine in
      let acknowledged = try await withThrowingTaskGroup(of: [Key: Int64].self) { group in
        for writer in 0..<8 {
          var random = random
          for _ in 0...writer { random = SeededGenerator(seed: random.next()) }
          group.addTask { [random] in await RandomTests.write(writer, random, engine) }
        }
        return try await group.reduce(into: [:]) { $0.merge($1) { a, _ in a } }
      }
      // Faults are used up or of no more interest.
      for _ in 0..<100 where (try? await engine.set("end", 1)) == nil {}
      #expect(engine.snapshot.sequence == Int64(store.commits.count))
      #expect(engine.root == store.commits.folded())
      #expect(engine.root.brokenInvariant() == nil)
      return acknowledged
    }

    var model = ModelTree()
    for (i, commit) in store.commits.enumerated() {
      #expect(commit.sequence == Int64(i + 1))
      model.apply(commit.assignments)
    }
    #expect(store.commits.folded() == model.root)

    var journaled: [Key: [Int64]] = [:]
    for commit in store.commits {
      for assignment in commit.assignments where assignment.location.path.keys.first == "log" {
        if let key = assignment.location.path.last {
          journaled[key, default: []].append(commit.sequence)
        }
      }
    }
    #expect(journaled.values.allSatisfy { $0.count == 1 }, "nothing is stored twice")
    for (key, sequence) in acknowledged { #expect(journaled[key] == [sequence]) }
    #expect(
      journaled.count == acknowledged.count, "a write was stored without an answer")
  }

  private static func planFaults(
    _ journal: FaultyJournal<InMemoryJournal>, _ random: SeededGenerator
  ) {
    var random = random
    for _ in 0..<60 {
      switch Int.random(in: 0..<5, using: &random) {
      case 0: journal.plan(.failBefore)
      case 1: journal.plan(.failAfter)
      default: journal.plan()
      }
    }
  }

  /// Writes a hundred times; each write leaves a key in `/log` by which it is found in the journal.
  private static func write(
    _ writer: Int, _ random: SeededGenerator, _ engine: Engine
  ) async -> [Key: Int64] {
    var random = random
    var writes = RandomWrites()
    writes.bigOnceIn = 1_000
    writes.keysMax = 6
    var acknowledged: [Key: Int64] = [:]
    for number in 0..<60 {
      guard let key = try? Key("\(writer)-\(number)") else { continue }
      let log = Write.Item(Path.root.child("log").child(key), Node(Int64(number)))
      guard let write = try? Write(writes.next(&random).items + [log]) else { continue }
      let isRefused = random.oneIn(10)
      let committed = try? await engine.transact { _ -> Decision<Void> in
        if isRefused { throw Refusal() }
        return Decision(write, ())
      }
      acknowledged[key] = committed?.sequence
    }
    return acknowledged
  }

  @Test func `commits that are applied again lead to the same tree, though some of it is newer`()
    async throws
  {
    // What `JournalState` promises: a checkpoint may hold parts of later trees.
    var random = SeededGenerator(printingSeedFor: "RandomTests.replay")
    for _ in 0..<60 {
      let store = InMemoryJournal()
      var writes = RandomWrites()
      writes.bigOnceIn = 1_000
      writes.keysMax = 3
      writes.depthMax = 3
      let run = (0..<14).map { _ in writes.next(&random) }
      try await withEngine(store) { engine in
        for write in run { _ = try await engine.transact { _ in Decision(write, ()) } }
      }
      var roots: [Node] = [.absent]
      for commit in store.commits { roots.append([commit].folded(onto: roots[roots.count - 1])) }
      for start in roots.indices {
        for newer in start..<roots.count {
          let mixed = RandomTests.mixture(roots[start], roots[newer], &random)
          let replayed = store.commits[start...].folded(onto: mixed)
          if replayed != roots[roots.count - 1] {
            Issue.record(
              """
              commits \(start + 1)... on \(mixed.json(.export)), which is \
              \(roots[start].json(.export)) with parts of \(roots[newer].json(.export)), lead to \
              \(replayed.json(.export)) instead of \(roots[roots.count - 1].json(.export)): \
              \(store.commits[start...].map { $0.assignments.map { "\($0.location.text)=\($0.value.json(.export))" } })
              """)
            return
          }
        }
      }
    }
  }

  /// Some of a tree's children as they are in a later one.
  private static func mixture(
    _ old: Node, _ new: Node, _ random: inout SeededGenerator
  ) -> Node {
    guard old.isBranch, new.isBranch, !random.oneIn(3) else { return random.oneIn(2) ? old : new }
    var children: [(Key, Node)] = []
    for key in RandomWrites.keys {
      children.append((key, random.oneIn(2) ? old.child(key) : new.child(key)))
    }
    return Node(children: children)
      .withPriority(random.oneIn(2) ? old.priority : new.priority)
  }
}
