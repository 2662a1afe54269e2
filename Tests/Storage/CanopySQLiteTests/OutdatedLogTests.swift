import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Damaged write-ahead logs whose pages the database file has already.
@Suite(.timeLimit(.minutes(20))) struct OutdatedLogTests {
  private static let commits: Int64 = 60
  private static let frameBytes = 4_120

  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Returns a folder as a crash would leave it, after the log was copied into the database file.
  ///
  /// - Parameter more: the number of commits after that, which only the log has.
  private func crash(more: Int64 = 0) async throws -> Folder {
    // Closed once, so that the tables are in the database file.
    try await folder.withStore { _ in }
    return try await folder.withStore { store in
      for number in 1...Self.commits + more {
        if number == Self.commits + 1 { try await Self.copyLog(of: store) }
        try store.append(
          [commit(number, "n/\(number)", Node(String(repeating: "x", count: 700)))],
          after: number - 1)
        guard [20, 40].contains(number) else { continue }
        try await store.checkpoint(try await store.tree().root, through: number)
      }
      let account = Account(
        uid: "u", email: "e", emailNormalized: "e", username: "n", passwordHash: "h",
        createdAt: 1, isDisabled: false, isPending: false)
      #expect(try await store.insert(account))
      if more == 0 { try await Self.copyLog(of: store) }
      return try folder.crashed()
    }
  }

  private static func copyLog(of store: SQLiteStore) async throws {
    try await store.pool.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
  }

  private func log(_ folder: Folder, _ name: String = "canopy.sqlite-wal") throws -> Data {
    try Data(contentsOf: URL(filePath: folder.file(name)))
  }

  /// Changes a part of a page in the log.
  private func damage(_ folder: Folder, frame: Int) throws {
    var data = try log(folder)
    let start = 32 + frame * Self.frameBytes + 1_024
    for offset in start..<start + 512 { data[offset] ^= 0xFF }
    try data.write(to: URL(filePath: folder.file("canopy.sqlite-wal")))
  }

  private func accept(_ folder: Folder) async throws -> (notes: [String], commits: Int) {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let notes = try await folder.withStore(configuration) { try await $0.acceptLosses().notes }
    return try await folder.withStore { store in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      return (notes, try await store.tree().root.child("n").childCount)
    }
  }

  @Test func `damage in a log that is copied into the database file costs nothing`() async throws {
    let crashed = try await crash()
    let frames = (try log(crashed).count - 32) / Self.frameBytes
    var removed = 0
    for frame in Array(stride(from: 0, to: frames, by: max(1, frames / 16))) + [frames - 1] {
      let copy = try crashed.crashed()
      try damage(copy, frame: frame)
      let damaged = try log(copy)
      let found = try await accept(copy)
      #expect(found.notes.isEmpty, "frame \(frame): \(found.notes)")
      #expect(found.commits == Int(Self.commits), "frame \(frame)")
      let account = try await copy.withStore { try await $0.account(uid: "u") }
      #expect(account != nil, "frame \(frame)")
      guard FileManager.default.fileExists(atPath: copy.file("damaged-1.sqlite")) else { continue }
      removed += 1
      #expect(try log(copy, "damaged-1.sqlite-wal") == damaged, "frame \(frame)")
    }
    // Without the first frame SQLite uses none, and without the last ones it has all pages.
    #expect(removed > 8)
  }

  @Test func `a damaged log that has later commits than the database file stays in use`()
    async throws
  {
    let crashed = try await crash(more: 40)
    let data = try log(crashed)
    // The frames behind these belong to the log that was copied.
    let frames = stride(from: 32, through: data.count - Self.frameBytes, by: Self.frameBytes)
      .prefix { data[$0 + 8..<$0 + 16].elementsEqual(data[16..<24]) }
    #expect(frames.count > 40)
    try damage(crashed, frame: frames.count - 10)
    let found = try await accept(crashed)
    #expect(!found.notes.isEmpty)
    #expect(found.commits > Int(Self.commits) && found.commits < Int(Self.commits) + 40)
  }

  @Test func `an intact log is not compared away`() async throws {
    for more in [0, 40] as [Int64] {
      let crashed = try await OutdatedLogTests().crash(more: more)
      let found = try await accept(crashed)
      #expect(found.notes.isEmpty && found.commits == Int(Self.commits + more))
      #expect(!FileManager.default.fileExists(atPath: crashed.file("damaged-1.sqlite")))
    }
  }
}
