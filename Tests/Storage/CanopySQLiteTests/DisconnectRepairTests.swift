import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The on-disconnect writes that a repair removes.
@Suite(.timeLimit(.minutes(20))) struct DisconnectRepairTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Accepts the loss, and expects a sound folder. Returns the losses.
  private func acceptLosses() async throws -> [String] {
    let notes = try await folder.acceptLosses()
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
    return notes
  }

  @Test func `an older on-disconnect write removes all, and an altered one only itself`()
    async throws
  {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      for request in ["a", "b", "c"] {
        _ = try await store.changeDisconnectWrites(
          adding: ("administrator", request), exceptions: [:], removing: [])
      }
      try await store.damage(
        "UPDATE disconnect_writes SET request = 'x' WHERE request = 'c'", isSealed: false)
    }
    #expect(try await acceptLosses() == ["1 altered rows of the table disconnect_writes"])
    #expect(try await folder.count(.disconnectWrites) == 2)
    try await folder.lose(
      "DELETE FROM disconnect_writes WHERE request = 'a'", of: .disconnectWrites)
    let notes = try await acceptLosses()
    #expect(
      notes == [
        "rows of the table disconnect_writes that are missing or older",
        "all on-disconnect writes, because it is not known which of them were cancelled",
      ])
    #expect(try await folder.count(.disconnectWrites) == 0)
  }

  /// Adds the writes 1 to 7: a group of three, one alone, a group of two, and another one alone.
  private func addGroups(_ store: SQLiteStore) async throws {
    let groups: [DisconnectWriteID?] = [nil, 1, 1, nil, nil, 5, nil]
    for (number, group) in groups.enumerated() {
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /\(number + 1) 1"), to: group, exceptions: [:], removing: [])
    }
  }

  @Test(arguments: [
    // The first, the second and the last one of a group, and one alone.
    ("request = 'x' WHERE id = 1", [4, 5, 6, 7], 2),
    ("request = 'x' WHERE id = 2", [4, 5, 6, 7], 2),
    ("request = 'x' WHERE id = 3", [4, 5, 6, 7], 2),
    ("request = 'x' WHERE id = 4", [1, 2, 3, 5, 6, 7], 0),
    // The id of the first one, and of a later one.
    ("id = 65 WHERE id = 1", [4, 5, 6, 7], 2), ("id = 66 WHERE id = 2", [4, 5, 6, 7], 2),
    ("id = 71 WHERE id = 7", [1, 2, 3, 4, 5, 6], 0),
  ])
  func `the writes of a group are kept together or not at all`(
    change: String, kept: [DisconnectWriteID], others: Int
  ) async throws {
    try await folder.withStore { store in
      try await addGroups(store)
      _ = try await store.changeDisconnectWrites(
        adding: nil, exceptions: [3: ["3/a"], 6: ["6/a"]], removing: [])
      try await store.damage("UPDATE disconnect_writes SET \(change)", isSealed: false)
    }
    let notes = try await acceptLosses()
    let more =
      "\(others) more on-disconnect writes, because they belong to the same commit as one that is lost"
    #expect(
      notes == ["1 altered rows of the table disconnect_writes"] + (others > 0 ? [more] : []))
    try await folder.withStore { store async throws in
      #expect(try await store.disconnectWriteIDs() == Set(kept))
      let groups = try await store.disconnectWrites().filter { $0.id == 6 }.map(\.group)
      #expect(groups == [5])
    }
    #expect(try await folder.count(.disconnectGroups) == (kept.contains(1) ? 3 : 1))
    #expect(try await folder.count(.disconnectExceptions) == (kept.contains(1) ? 2 : 1))
  }

  @Test(arguments: ["first = 4 WHERE write = 6", "write = 7 WHERE write = 6"])
  func `without a row of a group no on-disconnect write is made, because any could belong to it`(
    change: String
  ) async throws {
    try await folder.withStore { store in
      try await addGroups(store)
      try await store.damage("UPDATE disconnect_groups SET \(change)", isSealed: false)
    }
    let notes = try await acceptLosses()
    #expect(
      notes == [
        "1 altered rows of the table disconnect_groups",
        "all on-disconnect writes, because it is not known which of them belong to one commit",
      ])
    for table in [SealedTable.disconnectWrites, .disconnectGroups] {
      #expect(try await folder.count(table) == 0)
    }
  }
}
