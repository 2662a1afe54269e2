internal import CanopyEngine
internal import CanopyTree
internal import Testing

/// The requirements of a durable ``Journal``, the same for every store.
package enum JournalContract<Fixture: StoreFixture> {
  /// The checks.
  package static var checks: [ContractCheck<Fixture>] {
    [
      ContractCheck("a new store is empty", checkEmpty),
      ContractCheck("commits are read as they were written", checkCommits),
      ContractCheck("keys that sort around the slash have separate subtrees", checkKeys),
      ContractCheck(
        "an append after a wrong number is refused, and the error has the missed commits",
        checkConflict),
      ContractCheck(
        "an append with existing or non-consecutive numbers stores nothing", checkNumbers),
      ContractCheck("the writes of an engine survive a restart", checkEngine),
      ContractCheck(
        "resolving an append returns the later commits with their origins", checkResolve),
      ContractCheck("the record of the rules in force survives a restart", checkRulesRecord),
    ]
  }

  private static func checkEmpty(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      let state = try await store.load()
      #expect(state.tree.root.isAbsent)
      #expect(state.checkpoint == 0)
      #expect(state.sequence == 0)
      #expect(state.clientWrites.isEmpty)
      #expect(try await store.wholeHistory().isEmpty)
      #expect(try await fixture.problems(of: store).isEmpty)
    }
  }

  private static func checkCommits(_ fixture: Fixture) async throws {
    var random = SeededGenerator(printingSeedFor: "JournalContract")
    let writes = RandomWrites()
    var commits: [Commit] = []
    for sequence in 1...200 {
      let assignments = writes.next(&random).items.map { Assignment($0.location, $0.value.node) }
      commits.append(
        Commit(
          sequence: Int64(sequence), time: Int64.random(in: 0...(1 << 48) - 2, using: &random),
          assignments: assignments))
    }
    let special: [Node] = [
      Node(Int64.max), Node(Int64.min), Node(1 << 53 + 1), Node(-0.5) ?? 0,
      Node(Double.leastNonzeroMagnitude) ?? 0,
      Node(1.7976931348623157e308) ?? 0, Node(String(repeating: "é🌳\"\\\u{1}", count: 100_000)),
      Node("\u{0}"), Node("e\u{301}"), Node("\u{E9}"), Node(5).withPriority("p"),
      contractNode(#"{".priority":-1.5,"a":{".value":false,".priority":"z"}}"#), .absent, true,
    ]
    for node in special {
      let sequence = Int64(commits.count + 1)
      commits.append(Commit(sequence: sequence, time: 0, assignments: [Assignment(.root, node)]))
    }
    let all = commits
    try await fixture.withStore { store in
      try await store.append(Array(all[..<1]), after: 0)
      try await store.append(Array(all[1..<200]), after: 1)
      try await store.append(Array(all[200...]), after: 200)
    }
    try await fixture.withStore { store in
      let state = try await store.load()
      #expect(state.tree.root == all.folded())
      #expect(state.sequence == Int64(all.count))
      #expect(state.lastTime == all.map(\.time).max())
      let loaded = try await store.wholeHistory()
      #expect(loaded.count == all.count)
      for (loaded, commit) in zip(loaded, all) { #expect(loaded == commit) }
      #expect(try await fixture.problems(of: store).isEmpty)
    }
  }

  private static func checkKeys(_ fixture: Fixture) async throws {
    let keys = ["a", "a!", "a-b", "a0", "a/b", "a%", "a'", "a\"", "a 🌳", "A", "1", "01"]
    for key in keys {
      let value = contractNode(
        #"{"x":{"y":"\#(String(repeating: "t", count: 9_000))"},"z":1}"#)
      let commits = [
        Commit(
          sequence: 1, time: 0,
          assignments: try keys.filter { $0 != "a/b" }.map { Assignment(try Path($0), value) }),
        Commit(sequence: 2, time: 0, assignments: [Assignment(try Path(key + "/z"), 2)]),
        Commit(sequence: 3, time: 0, assignments: [Assignment(try Path(key), .absent)]),
      ]
      let other = try await Fixture()
      try await other.withStore { store in
        for (i, commit) in commits.enumerated() {
          try await store.append([commit], after: Int64(i))
          let root = commits[...i].folded()
          try await store.checkpoint(root, through: Int64(i + 1))
          let state = try await store.load()
          #expect(state.tree.root == root && state.checkpoint == Int64(i + 1))
          #expect(try await other.problems(of: store).isEmpty)
        }
      }
    }
  }

  private static func checkConflict(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      let commits = try (1...5).map { try contractCommit($0, "n", Node($0)) }
      try await store.append(Array(commits[..<3]), after: 0)
      for last in [0, 1, 2, 4, 9] as [Int64] {
        do {
          try await store.append([contractCommit(last + 1, "x", 1)], after: last)
          Issue.record("the append after \(last) succeeded")
        } catch JournalError.conflict(let missed) {
          #expect(missed == commits[..<3].filter { $0.sequence > last })
        }
      }
      try await store.append(Array(commits[3...]), after: 3)
      #expect(try await store.wholeHistory() == commits)
    }
  }

  private static func checkNumbers(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      try await store.append([contractCommit(1, "n", 1)], after: 0)
      await #expect(throws: (any Error).self) {
        try await store.append([contractCommit(2, "n", 2), contractCommit(2, "n", 3)], after: 1)
      }
      #expect(try await store.load().sequence == 1)
      #expect(try await fixture.commitCount(of: store) == 1)
      // The store goes on.
      try await store.append([contractCommit(2, "n", 2)], after: 1)
      #expect(try await fixture.problems(of: store).isEmpty)
    }
  }

  private static func checkEngine(_ fixture: Fixture) async throws {
    var random = SeededGenerator(printingSeedFor: "JournalContract.engine")
    let run = (0..<30).map { _ in RandomWrites().next(&random) }
    var roots: [Node] = []
    for _ in 0..<2 {
      roots.append(
        try await fixture.withStore { store in
          try await withEngine(store) { engine in
            for write in run { _ = try await engine.transact { _ in Decision(write, ()) } }
            return engine.root
          }
        })
      let last = roots.last
      let count = Int64(run.count * roots.count)
      try await fixture.withStore { store async throws in
        let state = try await store.load()
        #expect(state.tree.root == last)
        #expect(state.sequence == count)
      }
    }
  }

  private static func checkResolve(_ fixture: Fixture) async throws {
    func commit(_ sequence: Int64, by client: String? = nil) throws -> Commit {
      Commit(
        sequence: sequence, time: 5, assignments: [Assignment(try Path("n"), Node(sequence))],
        origin: try client.map { try WriteOrigin(client: $0, number: 9, seen: 3) })
    }
    try await fixture.withStore { store async throws in
      try await store.append([commit(1), commit(2, by: "a"), commit(3)], after: 0)
      #expect(try await store.resolveAppend(after: 3).isEmpty)
      let stored = try await store.resolveAppend(after: 1)
      #expect(stored == [try commit(2, by: "a"), try commit(3)])
      try await store.append([commit(4)], after: 3)
      #expect(try await fixture.problems(of: store).isEmpty)
    }
  }

  private static func checkRulesRecord(_ fixture: Fixture) async throws {
    let records = [
      RulesRecord(digest: "one", sequence: 0), RulesRecord(digest: "two", sequence: .max), nil,
      RulesRecord(digest: "é", sequence: 7),
    ]
    try await fixture.withStore { store async throws in
      #expect(try await store.rulesRecord() == nil)
    }
    for record in records {
      try await fixture.withStore { store async throws in
        try await store.setRulesRecord(RulesRecord(digest: "before", sequence: 5))
        try await store.setRulesRecord(record)
      }
      try await fixture.withStore { store async throws in
        #expect(try await store.rulesRecord() == record)
        #expect(try await fixture.problems(of: store).isEmpty)
      }
    }
  }
}
