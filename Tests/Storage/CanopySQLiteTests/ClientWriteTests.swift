import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Logging
import Testing

@testable import CanopySQLite

/// The stored writes that clients may send again.
struct ClientWriteTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func write(
    _ sequence: Int64, by client: String, _ number: Int64, seen: Int64 = 0, time: Int64 = 5
  ) throws -> Commit {
    Commit(
      sequence: sequence, time: time, assignments: [Assignment(try Path("n"), Node(sequence))],
      origin: try WriteOrigin(client: client, number: number, seen: seen))
  }

  private func remembered(_ store: SQLiteStore) async throws -> [String] {
    try await store.load().clientWrites.map {
      "\($0.origin.client)\($0.origin.number)@\($0.sequence)"
    }
  }

  @Test func `a write is stored with its commit until its client has seen the reply`()
    async throws
  {
    try await folder.withStore { store async throws in
      try store.append(
        [write(1, by: "a", 1), write(2, by: "b", 1), write(3, by: "a", 2)], after: 0)
      #expect(try await remembered(store) == ["a1@1", "b1@2", "a2@3"])
      try store.append([write(4, by: "a", 4, seen: 1)], after: 3)
      #expect(try await store.problems().isEmpty)
    }
    try await folder.withStore { store async throws in
      #expect(try await remembered(store) == ["b1@2", "a2@3", "a4@4"])
    }
  }

  @Test func `a write is stored with its owner, and rows of earlier versions have none`()
    async throws
  {
    var owned = try write(1, by: "k", 1)
    owned.origin?.owner = "ada"
    var anonymous = try write(2, by: "k", 1)
    anonymous.origin?.owner = WriteOrigin.anonymousOwner
    let commits = [owned, anonymous, try write(3, by: "k", 1)]
    try await folder.withStore { store async throws in
      try store.append(commits, after: 0)
      // Removes only writes of the same owner.
      var later = try write(4, by: "k", 2, seen: 1)
      later.origin?.owner = "ada"
      try store.append([later], after: 3)
      #expect(try await store.problems().isEmpty)
      #expect(
        try store.resolveAppend(after: 0).map(\.origin).suffix(3) == [
          anonymous.origin, commits[2].origin, later.origin,
        ])
    }
    try await folder.withStore { store async throws in
      let origins = try await store.load().clientWrites.map(\.origin)
      #expect(origins.map(\.owner) == [WriteOrigin.anonymousOwner, nil, "ada"])
      #expect(origins.map(\.client) == ["k", "k", "k"])
    }
  }

  @Test func `a write of a client that the engine has forgotten is stored again`() async throws {
    try await folder.withStore { store async throws in
      try store.append([write(1, by: "a", 1)], after: 0)
      try store.append([write(2, by: "b", 1), write(3, by: "a", 1)], after: 1)
      #expect(try await remembered(store) == ["b1@2", "a1@3"])
    }
  }

  @Test func `a failed append stores no write, and a conflict returns the origins`()
    async throws
  {
    try await folder.withStore { store async throws in
      try store.append([write(1, by: "a", 1)], after: 0)
      #expect(throws: (any Error).self) {
        try store.append([write(2, by: "a", 2), write(2, by: "a", 3)], after: 1)
      }
      do {
        try store.append([write(1, by: "b", 1)], after: 0)
        Issue.record("the append should conflict")
      } catch JournalError.conflict(let missed) {
        #expect(missed.map(\.origin?.client) == ["a"])
      }
      #expect(try await remembered(store) == ["a1@1"])
    }
  }

  @Test func `a restarted engine knows the committed writes`() async throws {
    for turn in 1...3 {
      try await folder.withStore { store async throws in
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
          #expect(engine.root == json(#"{"n":1}"#))
        }
      }
    }
  }

  @Test func `the number that a client has seen survives restarts and forgetting`() async throws {
    let lines: [(number: Int64, seen: Int64)] = [(1, 0), (9, 8), (12, 3)]
    try await folder.withStore { store async throws in
      try await withEngine(store) { engine async throws in
        for line in lines { #expect(try await increment(engine, line.number, line.seen) == nil) }
      }
    }
    // As after a long time: all writes except the last are removed.
    try await folder.withStore { store async throws in
      try await store.pool.write { db in
        try db.execute(sql: "DELETE FROM client_writes WHERE number < 12")
      }
      #expect(try await store.load().clientWrites.map(\.origin.seen) == [8])
      #expect(try await store.problems().isEmpty)
    }
    try await folder.withStore { store async throws in
      try await withEngine(store) { engine async throws in
        for number: Int64 in [1, 8] {
          #expect(try await increment(engine, number, 0) == .alreadyAnswered(number))
        }
        #expect(try await increment(engine, 13, 12) == nil)
        #expect(try await increment(engine, 12, 0) == .alreadyAnswered(12))
        #expect(engine.root == json(#"{"n":4}"#))
      }
    }
  }

  /// Makes an increment of a client. Returns the error if it was refused.
  private func increment(
    _ engine: Engine, _ number: Int64, _ seen: Int64
  ) async throws -> EngineError? {
    let origin = try WriteOrigin(client: "k", number: number, seen: seen)
    return await withCheckedContinuation { continuation in
      engine.submit(
        { proposal in
          let sum = (proposal.root.child("n").integerValue ?? 0) + 1
          return Decision(try .set(Location("n"), WriteValue(Node(sum))), ())
        }, once: origin
      ) { result in
        switch result {
        case .success: continuation.resume(returning: nil)
        case .failure(let error): continuation.resume(returning: error as? EngineError)
        }
      }
    }
  }

  @Test func `a checkpoint removes the writes of clients that have not written for thirty days`()
    async throws
  {
    try await folder.withStore { store async throws in
      let day: Int64 = 24 * 3_600_000
      try store.append(
        [
          write(1, by: "a", 1, time: day), write(2, by: "b", 1, time: day + 1),
          write(3, by: "c", 1, time: 31 * day + 1),
        ], after: 0)
      try await store.checkpoint(json(#"{"n":3}"#), through: 3)
      #expect(try await remembered(store) == ["b1@2", "c1@3"])
    }
  }
}
