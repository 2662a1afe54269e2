import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Files of one folder from different times, as an incomplete restore from backups leaves them.
@Suite(.timeLimit(.minutes(20))) struct MixedFilesTests {
  /// A copy of the files, taken while the store was open.
  private struct Backup {
    var files: Folder
    /// The index in `Past.states` of its contents.
    var state: Int
  }

  /// The history of a folder: its contents at some moments, and backups of some of them.
  private struct Past {
    var states: [StoredContents] = []
    var backups: [Backup] = []
    var addresses: [String] = []
    var digests: [TokenDigest] = []
  }

  private func live(_ folder: Folder, _ random: inout SeededGenerator) async throws -> Past {
    var past = Past()
    try await folder.withStore { _ in }
    let store = try SQLiteStore(folder: folder.path)
    for round in 0..<6 as Range<Int64> {
      // Each round changes other tables.
      if round != 3 { try await signUp(store, &past, &random) }
      for _ in 0..<25 {
        let last = try await store.number("SELECT coalesce(max(sequence), 0) FROM commits")
        var commit = try commit(
          last + 1, "n/\(random.next() % 60)", Node(String(repeating: "x\(round)", count: 150)))
        if round % 2 == 0 {
          commit.origin = try WriteOrigin(client: "c", number: last + 1, seen: last / 2)
        }
        try store.append([commit], after: last)
      }
      if round % 3 == 1 {
        let (root, sequence) = try await store.tree()
        try await store.checkpoint(root, through: sequence)
      }
      if round != 4 {
        past.states.append(try await StoredContents(store, [], tokens: []))
        try store.emptyLog()
      }
      // The changes stay in the log, and not every round changes every table.
      if round != 2 { try await signUp(store, &past, &random) }
      let last = try await store.number("SELECT coalesce(max(sequence), 0) FROM commits")
      try store.append([commit(last + 1, "m/\(round)", Node(round))], after: last)
      past.states.append(try await StoredContents(store, [], tokens: []))
      past.backups.append(Backup(files: try folder.crashed(), state: past.states.count - 1))
    }
    try store.close()
    return past
  }

  private func signUp(
    _ store: SQLiteStore, _ past: inout Past, _ random: inout SeededGenerator
  ) async throws {
    for _ in 0..<12 {
      let uid = "u\(random.next())"
      _ = try await store.insert(
        Account(
          uid: uid, email: uid, emailNormalized: uid, username: uid,
          passwordHash: String(repeating: "h", count: 90), createdAt: 0, isDisabled: false,
          isPending: false))
    }
    _ = try await store.changeDisconnectWrites(
      adding: ("administrator", "SET /gone/\(random.next()) 1"), exceptions: [:], removing: [])
  }

  /// Combines files of different backups. Nil omits a file.
  private func mix(_ database: Backup, _ log: Backup?, _ tail: Backup?) throws -> Folder {
    let folder = try Folder()
    for (name, backup) in [
      ("canopy.sqlite", database), ("canopy.sqlite-wal", log), ("canopy.tail", tail),
    ] {
      guard let backup else { continue }
      try FileManager.default.copyItem(
        atPath: backup.files.path + "/" + name, toPath: folder.path + "/" + name)
    }
    return folder
  }

  /// Returns the differences from the last state with the same sequence number.
  private func difference(_ found: StoredContents, _ states: [StoredContents]) -> String {
    guard let state = states.last(where: { $0.sequence == found.sequence }) else {
      return "no state has the sequence number \(found.sequence)"
    }
    let parts = [
      ("tree", state.root == found.root), ("accounts", state.accounts == found.accounts),
      ("on-disconnect writes", state.disconnectWrites == found.disconnectWrites),
      ("client writes", state.clientWrites == found.clientWrites),
      ("commits", state.commits == found.commits), ("time", state.lastTime == found.lastTime),
    ]
    return parts.filter { !$0.1 }.map(\.0).joined(separator: ", ")
  }

  @Test func `files of different times are refused, or are equal to one earlier state`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "MixedFilesTests")
    let past = try await live(try Folder(), &random)
    let all = Array(past.backups.indices)
    var (served, refused) = (0, 0)
    for database in all {
      for log in [nil] + all.map(Optional.init) {
        for tail in [nil] + all.map(Optional.init) {
          let name = "database \(database), log \(log ?? -1), tail \(tail ?? -1)"
          let mixed = try mix(
            past.backups[database], log.map { past.backups[$0] }, tail.map { past.backups[$0] })
          do {
            let found = try await mixed.withStore { try await StoredContents($0, []) }
            served += 1
            let state = past.states.firstIndex(of: found)
            #expect(
              state != nil, "\(name) was served in silence: \(difference(found, past.states))")
            if let tail, let state {
              #expect(state >= past.backups[tail].state, "\(name) has lost commits in silence")
            }
            if log == database { #expect(state == past.backups[database].state, "\(name)") }
          } catch {
            refused += 1
            #expect(log != database || (tail ?? 0) > database, "\(name): \(error)")
          }
        }
      }
    }
    print("mixed files: served \(served), refused \(refused)")
    #expect(served > 20)
    #expect(refused > 100)
  }
}
