internal import CanopyEngine
internal import CanopyTree
internal import Testing

/// The requirements of a ``DisconnectStore`` beside a journal, the same for every store.
package enum DisconnectContract<Fixture: StoreFixture> {
  /// The checks.
  package static var checks: [ContractCheck<Fixture>] {
    [
      ContractCheck(
        "stored writes are read unchanged and in order, also after a restart", checkReading),
      ContractCheck("one change adds, excepts and removes in one step", checkChange),
      ContractCheck("new identities replace those of the writes that exist", checkIdentities),
      ContractCheck(
        "ids ascend, though the last was removed and the store opened again", checkIDs),
      ContractCheck("the commit that makes a write removes it", checkCompletion),
      ContractCheck("an append that conflicts or fails removes nothing", checkFailure),
      ContractCheck(
        "an engine's transaction completes an on-disconnect write when it writes, and only then",
        checkEngine),
      ContractCheck("checkpoints leave the writes alone", checkCheckpoint),
      ContractCheck(
        "a page ends with a whole group, by its number of writes or their bytes", checkPages),
      ContractCheck("changes that are made at the same time all take place", checkConcurrency),
    ]
  }

  private static func add(
    _ store: Fixture.Store, _ request: String, to group: DisconnectWriteID? = nil
  ) async throws -> DisconnectWriteID {
    try #require(
      try await store.changeDisconnectWrites(
        adding: ("administrator", request), to: group, exceptions: [:], removing: []))
  }

  private static func requests(_ store: Fixture.Store) async throws -> [String] {
    try await store.disconnectWrites().map(\.request)
  }

  /// A commit that carries out a write.
  private static func completing(_ sequence: Int64, _ id: DisconnectWriteID) throws -> Commit {
    var commit = try contractCommit(sequence, "n", Node(sequence))
    commit.completedDisconnectWrites = [id]
    return commit
  }

  private static func checkReading(_ fixture: Fixture) async throws {
    let texts = ["SET /a 1", "UPDATE /é {\"x\":\"\\u0000 '\\\"🌳\"}", "REMOVE /b c", ""]
    let exceptions = ["a/b", "é 🌳/\"q\"/.priority", "", "a,b c"]
    var ids: [DisconnectWriteID] = []
    try await fixture.withStore { store in
      for text in texts { ids.append(try await add(store, text)) }
      #expect(ids == ids.sorted() && Set(ids).count == ids.count)
      let none = try await store.changeDisconnectWrites(
        adding: nil, exceptions: [ids[1]: exceptions, ids[2]: []], removing: [])
      #expect(none == nil)
      // The same once more changes nothing.
      try await store.changeDisconnectWrites(
        adding: nil, exceptions: [ids[1]: ["a/b", "a/b"]], removing: [])
    }
    try await fixture.withStore { store async throws in
      let kept = try await store.disconnectWrites()
      #expect(kept.map(\.id) == ids && kept.map(\.group) == ids)
      #expect(kept.map(\.request) == texts)
      #expect(kept.map { $0.exceptions.sorted() } == [[], exceptions.sorted(), [], []])
      #expect(kept.allSatisfy { $0.identity == "administrator" })
      #expect(try await store.disconnectWriteIDs() == Set(ids))
      #expect(try await fixture.problems(of: store).isEmpty)
    }
  }

  private static func checkChange(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      var ids: [DisconnectWriteID] = []
      for text in ["a", "b", "c"] { ids.append(try await add(store, text)) }
      let id = try await store.changeDisconnectWrites(
        adding: ("administrator", "d"), exceptions: [ids[1]: ["x"]],
        removing: [ids[0], ids[2], ids[2] + 77])
      #expect(id.map { $0 > ids[2] } == true)
      let kept = try await store.disconnectWrites()
      #expect(kept.map(\.request) == ["b", "d"])
      #expect(kept.map(\.exceptions) == [["x"], []])
    }
  }

  private static func checkIdentities(_ fixture: Fixture) async throws {
    var ids: [DisconnectWriteID] = []
    try await fixture.withStore { store in
      for text in ["a", "b", "c"] { ids.append(try await add(store, text)) }
      try await store.changeDisconnectWrites(adding: nil, exceptions: [:], removing: [ids[1]])
      try await store.setDisconnectIdentities([ids[0]: "é", ids[1]: "gone", ids[2] + 9: "unknown"])
      try await store.setDisconnectIdentities([:])
    }
    try await fixture.withStore { store async throws in
      let kept = try await store.disconnectWrites()
      #expect(kept.map(\.identity) == ["é", "administrator"])
      #expect(kept.map(\.request) == ["a", "c"])
    }
  }

  private static func checkIDs(_ fixture: Fixture) async throws {
    var last: DisconnectWriteID = 0
    for _ in 0..<4 {
      try await fixture.withStore { store in
        // Stores of one database may share the numbers, so the ids may have gaps.
        var added: [DisconnectWriteID] = []
        for _ in 0..<2 {
          let id = try await add(store, "a")
          #expect(id > last)
          last = id
          added.append(id)
        }
        _ = try await store.changeDisconnectWrites(
          adding: nil, exceptions: [:], removing: added)
        #expect(try await store.disconnectWrites().isEmpty)
        let id = try await add(store, "b")
        #expect(id > last)
        last = id
        let sequence = try await store.load().sequence
        try await store.append([completing(sequence + 1, id)], after: sequence)
        #expect(try await store.disconnectWrites().isEmpty)
      }
    }
  }

  private static func checkCompletion(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      var ids: [DisconnectWriteID] = []
      for text in ["a", "b", "c"] { ids.append(try await add(store, text)) }
      try await store.append(
        [contractCommit(1, "m", 1), completing(2, ids[1]), contractCommit(3, "n", 3)], after: 0)
      #expect(try await requests(store) == ["a", "c"])
      #expect(
        try await store.wholeHistory(through: 3).map(\.completedDisconnectWrites) == [[], [], []])
      let unknown = ids[2] + 99
      if Fixture.refusesUnknownDisconnectWrites {
        do {
          try await store.append([completing(4, unknown)], after: 3)
          Issue.record("the append succeeded")
        } catch JournalError.disconnectWritesTaken(let ids) {
          #expect(ids == [unknown])
        }
      } else {
        try await store.append([completing(4, unknown)], after: 3)
      }
    }
    try await fixture.withStore { store async throws in
      #expect(try await requests(store) == ["a", "c"])
      let count: Int64 = Fixture.refusesUnknownDisconnectWrites ? 3 : 4
      #expect(try await store.load().sequence == count)
    }
  }

  private static func checkFailure(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      var ids: [DisconnectWriteID] = []
      for text in ["a", "b"] { ids.append(try await add(store, text)) }
      try await store.append([contractCommit(1, "n", 1)], after: 0)
      for last in [0, 2] as [Int64] {
        await #expect(throws: JournalError.self) {
          try await store.append([completing(last + 1, ids[0])], after: last)
        }
      }
      await #expect(throws: (any Error).self) {
        try await store.append([completing(2, ids[0]), completing(2, ids[1])], after: 1)
      }
      #expect(try await requests(store) == ["a", "b"])
      #expect(try await store.load().sequence == 1)
      try await store.append([completing(2, ids[0])], after: 1)
      #expect(try await requests(store) == ["b"])
    }
  }

  private static func checkEngine(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      var ids: [DisconnectWriteID] = []
      for text in ["a", "b"] { ids.append(try await add(store, text)) }
      let first = ids[0]
      let journal = FaultyJournal(store)
      try await withEngine(journal) { engine in
        journal.plan(.failBefore)
        await #expect(throws: EngineError.journalFailed) {
          try await engine.transact { _ in
            Decision(try .set(Location("n"), WriteValue(1)), (), completedDisconnectWrite: first)
          }
        }
        #expect(try await requests(store) == ["a", "b"])
        await #expect(throws: PlannedFailure.self) {
          try await engine.transact { _ -> Decision<Void> in throw PlannedFailure() }
        }
        _ = try await engine.transact { _ in
          Decision(try .set(Location("n"), WriteValue(1)), (), completedDisconnectWrite: first)
        }
        #expect(try await requests(store) == ["b"])
      }
    }
  }

  private static func checkCheckpoint(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      var ids: [DisconnectWriteID] = []
      for text in ["a", "b"] { ids.append(try await add(store, text)) }
      try await store.append([completing(1, ids[0])], after: 0)
      try await store.checkpoint(contractNode(#"{"n":1}"#), through: 1)
      #expect(try await requests(store) == ["b"])
    }
  }

  private static func checkPages(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      // Three connections that arm in turn, with one write of 600,000 bytes each time.
      var groups: [DisconnectWriteID] = []
      for text in ["a", "b", "c"] { groups.append(try await add(store, text)) }
      for number in 0..<2 {
        for group in groups {
          _ = try await add(
            store, String(repeating: "x", count: number == 0 ? 600_000 : 2), to: group)
        }
      }
      func page(
        after group: DisconnectWriteID, _ countMax: Int, _ bytesMax: Int
      ) async throws -> [DisconnectWriteID] {
        let page = try await store.disconnectWrites(
          after: group, countMax: countMax, bytesMax: bytesMax)
        #expect(page.map(\.id) == page.sorted { ($0.group, $0.id) < ($1.group, $1.id) }.map(\.id))
        return page.map(\.group)
      }
      let three = groups.map { [$0, $0, $0] }
      #expect(try await page(after: .min, .max, .max) == three.flatMap { $0 })
      #expect(try await page(after: .min, 1, .max) == three[0])
      #expect(try await page(after: .min, 3, .max) == three[0])
      #expect(try await page(after: .min, 4, .max) == three[0] + three[1])
      #expect(try await page(after: .min, .max, 600_003) == three[0])
      #expect(try await page(after: .min, .max, 600_004) == three[0] + three[1])
      #expect(try await page(after: groups[0], 0, 0) == three[1])
      #expect(try await page(after: groups[2], .max, .max) == [])
      try await store.changeDisconnectWrites(adding: nil, exceptions: [:], removing: [groups[0]])
      #expect(try await page(after: .min, 2, .max) == [groups[0], groups[0]])
    }
  }

  private static func checkConcurrency(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      let ids = try await withThrowingTaskGroup(of: DisconnectWriteID.self) { group in
        for number in 0..<100 { group.addTask { try await add(store, "SET /a \(number)") } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(Set(ids).count == 100)
      #expect(try await Set(requests(store)) == Set((0..<100).map { "SET /a \($0)" }))
      #expect(try await fixture.problems(of: store).isEmpty)
    }
  }
}
