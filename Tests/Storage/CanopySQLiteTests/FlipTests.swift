import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Single bytes of the database or its log that were changed. `Scripts/flip-test` changes thousands.
@Suite(.timeLimit(.minutes(20))) struct FlipTests {
  private static let addresses = (0..<30).map { "user\($0)@example.org" }

  private func fill(_ store: SQLiteStore, _ random: inout SeededGenerator) async throws {
    for (number, address) in Self.addresses.enumerated() {
      _ = try await store.insert(
        Account(
          uid: "u\(number)", email: address, emailNormalized: address, username: "user\(number)",
          passwordHash: "$argon2id$\(random.next())", createdAt: Int64(number), isDisabled: false,
          isPending: number % 7 == 0))
    }
    for number in 0..<5 {
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /gone/\(number) 1"), exceptions: [:], removing: [])
    }
    for number in 1...90 as ClosedRange<Int64> {
      let text = String(
        repeating: "t\(random.next()) ", count: Int.random(in: 1...40, using: &random))
      var commit = try commit(number, "n/\(number % 40)/text", Node(text))
      commit.beforeImage = [Assignment(commit.assignments[0].location, .absent)]
      commit.origin = try WriteOrigin(client: "c\(number % 3)", number: number, seen: 0)
      try store.append([commit], after: number - 1)
      if number == 60 {
        try await store.checkpoint(try await store.tree().root, through: number)
      }
    }
  }

  @Test(arguments: [true, false])
  func `a changed byte is reported, or has no effect`(afterCrash: Bool) async throws {
    var random = SeededGenerator(printingSeedFor: "FlipTests")
    let folder = try Folder()
    let (expected, whole) = try await folder.withStore { store in
      try await fill(store, &random)
      if afterCrash {
        // One half is in the database file, and the other in its log.
        try await store.pool.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
        for number in 91...120 as ClosedRange<Int64> {
          try store.append([commit(number, "m/\(number)", Node(number))], after: number - 1)
        }
      }
      return (try await StoredContents(store, Self.addresses), try folder.crashed())
    }
    let source = afterCrash ? whole : folder
    var told = 0
    for _ in 0..<30 {
      let copy = try source.crashed()
      let name = afterCrash && random.oneIn(2) ? "-wal" : ""
      let url = URL(filePath: copy.database + name)
      var data = try Data(contentsOf: url)
      let offset = Int.random(in: 0..<data.count, using: &random)
      data[offset] ^= UInt8.random(in: 1...255, using: &random)
      try data.write(to: url)
      do {
        var found = try await copy.withStore { try await StoredContents($0, Self.addresses) }
        // The history ends after a damaged commit that the checkpoint has.
        if found.commits.count < expected.commits.count, !found.commits.isEmpty {
          #expect(found.commits == Array(expected.commits.suffix(found.commits.count)))
          found.commits = expected.commits
          told += 1
        }
        #expect(found == expected, "\(name) at byte \(offset) was served in silence")
      } catch is StoreError {
        told += 1
      } catch {
        // An error of SQLite itself, for a damaged page.
        told += 1
      }
    }
    print("reported changes: \(told) of 30")
    // About a quarter of the changes after a crash are reported, so 30 of them hardly ever without one report.
    #expect(told > 0)
  }
}
