internal import CanopyEngine
internal import CanopyTree
internal import Testing

/// The requirements of the stored writes that clients may send again, the same for every store.
package enum ClientWriteContract<Fixture: StoreFixture> {
  /// The checks.
  package static var checks: [ContractCheck<Fixture>] {
    [
      ContractCheck(
        "a write is stored with its commit until its client has seen the reply", checkSeen),
      ContractCheck("a write is stored with its owner", checkOwners),
      ContractCheck(
        "a write of a client that the engine has forgotten is stored again", checkForgotten),
      ContractCheck(
        "a failed append stores no write, and a conflict returns the origins", checkFailure),
      ContractCheck("a restarted engine knows the committed writes", checkRestart),
      ContractCheck(
        "the writes of one append change the stored ones as if each came by itself", checkBatches),
      ContractCheck(
        "a checkpoint removes the writes of clients that have not written for thirty days",
        checkOldClients),
    ]
  }

  private static func write(
    _ sequence: Int64, by client: String, _ number: Int64, seen: Int64 = 0, time: Int64 = 5
  ) throws -> Commit {
    Commit(
      sequence: sequence, time: time, assignments: [Assignment(try Path("n"), Node(sequence))],
      origin: try WriteOrigin(client: client, number: number, seen: seen))
  }

  private static func remembered(_ store: Fixture.Store) async throws -> [String] {
    try await store.load().clientWrites.map {
      "\($0.origin.client)\($0.origin.number)@\($0.sequence)"
    }
  }

  private static func checkSeen(_ fixture: Fixture) async throws {
    try await fixture.withStore { store async throws in
      try await store.append(
        [write(1, by: "a", 1), write(2, by: "b", 1), write(3, by: "a", 2)], after: 0)
      #expect(try await remembered(store) == ["a1@1", "b1@2", "a2@3"])
      try await store.append([write(4, by: "a", 4, seen: 1)], after: 3)
      #expect(try await fixture.problems(of: store).isEmpty)
    }
    try await fixture.withStore { store async throws in
      #expect(try await remembered(store) == ["b1@2", "a2@3", "a4@4"])
      #expect(try await store.load().clientWrites.map(\.time) == [5, 5, 5])
    }
  }

  private static func checkOwners(_ fixture: Fixture) async throws {
    var owned = try write(1, by: "k", 1)
    owned.origin?.owner = "ada"
    var anonymous = try write(2, by: "k", 1)
    anonymous.origin?.owner = WriteOrigin.anonymousOwner
    let commits = [owned, anonymous, try write(3, by: "k", 1)]
    try await fixture.withStore { store async throws in
      try await store.append(commits, after: 0)
      // Removes only writes of the same owner.
      var later = try write(4, by: "k", 2, seen: 1)
      later.origin?.owner = "ada"
      try await store.append([later], after: 3)
      #expect(try await fixture.problems(of: store).isEmpty)
      #expect(
        try await store.resolveAppend(after: 0).map(\.origin).suffix(3) == [
          commits[1].origin, commits[2].origin, later.origin,
        ])
    }
    try await fixture.withStore { store async throws in
      let origins = try await store.load().clientWrites.map(\.origin)
      #expect(origins.map(\.owner) == [WriteOrigin.anonymousOwner, nil, "ada"])
      #expect(origins.map(\.client) == ["k", "k", "k"])
    }
  }

  private static func checkForgotten(_ fixture: Fixture) async throws {
    try await fixture.withStore { store async throws in
      try await store.append([write(1, by: "a", 1)], after: 0)
      try await store.append([write(2, by: "b", 1), write(3, by: "a", 1)], after: 1)
      #expect(try await remembered(store) == ["b1@2", "a1@3"])
    }
  }

  private static func checkFailure(_ fixture: Fixture) async throws {
    try await fixture.withStore { store async throws in
      try await store.append([write(1, by: "a", 1)], after: 0)
      await #expect(throws: (any Error).self) {
        try await store.append([write(2, by: "a", 2), write(2, by: "a", 3)], after: 1)
      }
      do {
        try await store.append([write(1, by: "b", 1)], after: 0)
        Issue.record("the append should conflict")
      } catch JournalError.conflict(let missed) {
        #expect(missed.map(\.origin?.client) == ["a"])
      }
      #expect(try await remembered(store) == ["a1@1"])
    }
  }

  private static func checkRestart(_ fixture: Fixture) async throws {
    for turn in 1...3 {
      try await fixture.withStore { store async throws in
        try await withEngine(store) { engine async throws in
          let origin = try WriteOrigin(client: "k", number: 1, seen: 0)
          let outcome = await withCheckedContinuation { continuation in
            engine.submit(
              { _ in Decision(try .set(Location("n"), WriteValue(Node(Int64(turn)))), ()) },
              once: origin
            ) { continuation.resume(returning: $0) }
          }
          switch outcome {
          case .success(let committed): #expect(turn == 1 && committed.sequence == 1)
          case .failure(let error): #expect(error as? RepeatedWrite == RepeatedWrite(sequence: 1))
          }
          #expect(engine.root == contractNode(#"{"n":1}"#))
        }
      }
    }
  }

  private static func checkBatches(_ fixture: Fixture) async throws {
    var random = SeededGenerator(printingSeedFor: "ClientWriteContract")
    var commits: [Commit] = []
    for sequence in 1...60 as ClosedRange<Int64> {
      let number = Int64.random(in: 1...8, using: &random)
      let seen = Int64.random(in: 0..<number, using: &random)
      commits.append(try write(sequence, by: random.pick(["a", "b", "c"]), number, seen: seen))
    }
    let single = try await Fixture()
    let expected = try await single.withStore { store in
      for commit in commits { try await store.append([commit], after: commit.sequence - 1) }
      return try await remembered(store)
    }
    try await fixture.withStore { store in
      var last: Int64 = 0
      while last < 60 {
        let end = min(60, last + Int64.random(in: 1...20, using: &random))
        try await store.append(Array(commits[Int(last)..<Int(end)]), after: last)
        last = end
      }
      #expect(try await remembered(store) == expected)
    }
  }

  private static func checkOldClients(_ fixture: Fixture) async throws {
    try await fixture.withStore { store async throws in
      let day: Int64 = 24 * 3_600_000
      try await store.append(
        [
          write(1, by: "a", 1, time: day), write(2, by: "b", 1, time: day + 1),
          write(3, by: "c", 1, time: 31 * day + 1),
        ], after: 0)
      try await store.checkpoint(contractNode(#"{"n":3}"#), through: 3)
      #expect(try await remembered(store) == ["b1@2", "c1@3"])
    }
  }
}
