import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The repair of tables whose rows are out of order or differ from their indexes.
@Suite(.timeLimit(.minutes(20))) struct RepairedTableTests {
  let folder: Folder
  let tables: AllTables

  init() async throws {
    folder = try Folder()
    var random = SeededGenerator(printingSeedFor: "RepairedTableTests")
    tables = try await AllTables(folder, &random)
  }

  /// A changed bit after the beginning of a text in the pages of a table or an index.
  struct Change: CustomTestStringConvertible, Sendable {
    var tree: String
    var text: String
    var offset: Int
    var mask: UInt8
    var table: String
    var lost = 1

    var testDescription: String { "\(tree), \(text) + \(offset), \(mask)" }
  }

  private static let hash = String(repeating: "0", count: 26) + "791900"

  @Test(arguments: [
    // Values of indexes.
    Change(
      tree: "accounts", text: "user100@example.orguser100@example.org", offset: 21, mask: 8,
      table: "accounts"),
    Change(tree: "tokens", text: Self.hash + "u0100", offset: 33, mask: 4, table: "tokens"),
    Change(
      tree: "account_codes", text: Self.hash + "u0100", offset: 33, mask: 4, table: "account_codes"),
    Change(
      tree: "deleted_accounts", text: "d0100", offset: 10, mask: 0x20, table: "deleted_accounts"),
    // Unique values that become those of the row before or after.
    Change(
      tree: "accounts", text: "user103@example.orguser103@example.org", offset: 25, mask: 1,
      table: "accounts"),
    Change(
      tree: "accounts", text: "user102@example.orguser102@example.org", offset: 25, mask: 1,
      table: "accounts"),
    // Keys of tables.
    Change(tree: "accounts", text: "u0100user", offset: 0, mask: 0x40, table: "accounts"),
    Change(
      tree: "account_details", text: "u0100Name", offset: 0, mask: 0x40, table: "account_details"),
    Change(
      tree: "custom_sessions", text: Self.hash, offset: 0, mask: 0x40, table: "custom_sessions"),
    Change(tree: "account_codes", text: Self.hash, offset: 0, mask: 0x40, table: "account_codes"),
    // Entries of indexes.
    Change(
      tree: "sqlite_autoindex_grdb_migrations_1", text: "sealed-sums", offset: 0, mask: 0x10,
      table: "grdb_migrations", lost: 0),
    Change(
      tree: "account_codes_by_expiry", text: Self.hash, offset: 3, mask: 1, table: "account_codes",
      lost: 0),
    Change(tree: "accounts_pending", text: "u0105", offset: 4, mask: 1, table: "accounts", lost: 0),
  ])
  func `an altered key or value of an index costs its row alone`(change: Change) async throws {
    let before = try folder.read { try AllTables.rows($0) }
    let offset = try #require(try folder.offset(of: change.text, in: change.tree))
    try folder.flip(change.mask, at: offset + change.offset)
    let notes = try await folder.acceptLosses()
    try await folder.withStore { store async throws in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      #expect(try await store.tree().root == tables.root)
    }
    let after = try folder.read { try AllTables.rows($0) }
    let kept = after[change.table, default: []]
    let lost = before[change.table, default: []].subtracting(kept).count
    // The end of all logins changes the rows of these tables.
    let isEnded = ["account_details", "custom_sessions"].contains(change.table)
    #expect(isEnded ? lost == AllTables.rows : lost == change.lost, "\(notes)")
    #expect(notes.isEmpty == (change.lost == 0), "\(notes)")
  }

  @Test func `a key of an exception that is out of order removes all on-disconnect writes`()
    async throws
  {
    let offset = try #require(
      try folder.offset(of: "gone/100/except", in: "disconnect_exceptions"))
    // The number before the path.
    try folder.flip(0x40, at: offset - 1)
    let notes = try await folder.acceptLosses()
    #expect(
      notes.contains(
        "all on-disconnect writes, because exceptions of them are altered or missing"))
    try await folder.withStore { store async throws in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
    }
  }

  // The second bit gives the row the path of another, and the third one a place out of order.
  @Test(arguments: [0x80, 0x01, 0x40] as [UInt8])
  func `a row of the checkpoint with an altered path is made again, also if the path is no text`(
    mask: UInt8
  ) async throws {
    // One of them may be in an inner page.
    let offsets = try (120..<130).compactMap { try folder.offset(of: "n/k\($0)x", in: "leaves") }
    try folder.flip(mask, at: try #require(offsets.first) + 4)
    let notes = try await folder.acceptLosses()
    #expect(notes.contains { $0.contains("rows of the checkpoint") }, "\(notes)")
    try await folder.withStore { store async throws in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      #expect(try await store.tree().root == tables.root)
    }
  }

  @Test func `an altered address never takes the place of another account in a damaged file`()
    async throws
  {
    // The address of account 103 becomes that of account 102, and another page cannot be read.
    let text = "user103@example.orguser103@example.org"
    let offset = try #require(try folder.offset(of: text, in: "accounts"))
    let other = try #require(try folder.offset(of: "u0002user2@", in: "accounts"))
    try #require(offset / 4_096 != other / 4_096)
    try folder.flip(1, at: offset + 25)
    for byte in 0..<4_096 { try folder.flip(0xFF, at: other / 4_096 * 4_096 + byte) }
    _ = try await folder.acceptLosses()
    try await folder.withStore { store async throws in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      #expect(try await store.account(uid: "u0102") != nil)
      #expect(try await store.account(uid: "u0103") == nil)
    }
  }

  @Test(arguments: [0x40, 0x80] as [UInt8])
  func `an altered time or number of changes does not stay`(mask: UInt8) async throws {
    try await folder.withStore { store in
      try await store.damage(
        "UPDATE meta SET value = (value | \(Int64(mask) << 55)) WHERE name IN ('key_time', 'revision')",
        isSealed: false)
    }
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.currentTime = 5_000_000
    try await folder.withStore(configuration) { try await $0.acceptLosses() }
    configuration.acceptsLoss = false
    try await folder.withStore(configuration) { store async throws in
      let state = try await store.load()
      #expect(state.lastTime.map { $0 < 5_000_000 } ?? false)
      #expect(try await store.delete(uid: "u0001", at: 1_000))
    }
  }
}
