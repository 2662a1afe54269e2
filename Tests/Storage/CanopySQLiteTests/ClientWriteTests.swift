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

  @Test(arguments: [
    "UPDATE commits SET body = '[[[\"n\"],7]]' WHERE sequence = 9",
    "DELETE FROM commits WHERE sequence >= 9",
  ])
  func `a write whose commit is lost is made when its client sends it again, and a kept one is not`(
    damage: String
  ) async throws {
    try await folder.withStore { store in
      for number in 1...10 as ClosedRange<Int64> {
        var commit = try commit(number, "n", Node(number))
        commit.origin = try WriteOrigin(client: "k", number: number, seen: 0)
        try store.append([commit], after: number - 1)
        if number == 6 { try await store.checkpoint(try await store.tree().root, through: 6) }
      }
      try await store.damage(damage, isSealed: false)
    }
    let notes = try await folder.acceptLosses()
    #expect(
      notes.contains(
        "the replies to 2 writes whose commits are lost; a client that sends one again makes it again"
      ),
      "\(notes)")
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.load().clientWrites.map(\.origin.number) == Array(1...8))
      try await withEngine(store) { engine async throws in
        for number in [8, 9, 9] as [Int64] { _ = try await increment(engine, number, 0) }
        #expect(engine.root == json(#"{"n":9}"#))
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

}
