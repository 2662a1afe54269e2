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
  /// - Parameters:
  ///   - more: the number of commits after that, which only the log has.
  ///   - hasReader: whether a reader keeps SQLite from beginning the log again for these commits.
  private func crash(more: Int64 = 0, hasReader: Bool = false) async throws -> Folder {
    // Closed once, so that the tables are in the database file.
    try await folder.withStore { _ in }
    return try await folder.withStore { store in
      var reader: DatabaseSnapshot?
      defer { try? reader?.close() }
      for number in 1...Self.commits + more {
        if number == Self.commits + 1 {
          if hasReader { reader = try store.pool.makeSnapshot() }
          try await Self.copyLog(of: store)
        }
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

  /// Returns a folder with commits and a disabled account that only the log has, beside an older state in the file.
  private func crashWithDisabledAccount() async throws -> Folder {
    try await folder.withStore { store in
      try store.append(try (1...3).map { try commit($0, "n/\($0)", 1) }, after: 0)
      let account = Account(
        uid: "u", email: "e", emailNormalized: "e", username: "n", passwordHash: "h",
        createdAt: 1, isDisabled: false, isPending: false)
      let token = TokenRecord(digest: Self.session, uid: "u", expiresAt: 100_000_000)
      #expect(try await store.insert(account, token: token, loginTime: nil))
    }
    return try await folder.withStore { store in
      let change = try await store.change(uid: "u", revokingTokens: true) { account in
        account.isDisabled = true
        return true
      }
      guard case .changed = change else { throw StoreError.damaged("the account is missing") }
      for number in 4...9 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", 1)], after: number - 1)
      }
      return try folder.crashed()
    }
  }

  private static let session = TokenDigest(bytes: Array(repeating: 1, count: 32))

  /// Returns the offsets of the frames of the log, and the number of the page of each.
  private func frames(_ data: Data) -> [(offset: Int, page: Int)] {
    stride(from: 32, through: data.count - Self.frameBytes, by: Self.frameBytes)
      .prefix { data[$0 + 8..<$0 + 16].elementsEqual(data[16..<24]) }
      .map { start in (start, data[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }) }
  }

  /// Copies the last version of each page up to a number into the database file, as a copy of the log that was interrupted.
  private func copyPages(upTo last: Int, in folder: Folder) throws {
    let data = try log(folder)
    let file = URL(filePath: folder.database)
    var database = try Data(contentsOf: file)
    for (offset, page) in frames(data) where page <= last {
      let start = (page - 1) * 4_096
      let missing = start + 4_096 - database.count
      if missing > 0 { database.append(Data(count: missing)) }
      database.replaceSubrange(
        start..<start + 4_096, with: data[offset + 24..<offset + Self.frameBytes])
    }
    try database.write(to: file)
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
    // The frames behind these belong to the log that was copied.
    let frames = frames(try log(crashed))
    #expect(frames.count > 40)
    try damage(crashed, frame: frames.count - 10)
    let found = try await accept(crashed)
    #expect(!found.notes.isEmpty)
    #expect(found.commits > Int(Self.commits) && found.commits < Int(Self.commits) + 40)
  }

  // A loss of power may leave an older canopy.tail, which does not show the loss of an account's change.
  @Test(arguments: [true, false])
  func `a damaged log of which some pages are copied stays in use, so that no account is older`(
    hasTail: Bool
  ) async throws {
    let crashed = try await crashWithDisabledAccount()
    if !hasTail { try FileManager.default.removeItem(atPath: crashed.file("canopy.tail")) }
    let frames = frames(try log(crashed))
    let pages = Set(frames.map(\.page)).sorted()
    #expect(pages.count > 3 && frames.count > 9)
    let whole = try crashed.crashed()
    try copyPages(upTo: .max, in: whole)
    for last in [0] + pages {
      let copy = try crashed.crashed()
      try copyPages(upTo: last, in: copy)
      try damage(copy, frame: frames.count - 3)
      let isCopied = FileManager.default.contentsEqual(
        atPath: copy.database, andPath: whole.database)
      let found = try await accept(copy)
      #expect(found.notes.isEmpty == isCopied, "page \(last): \(found.notes)")
      #expect(found.commits == (isCopied ? 9 : 6), "page \(last)")
      try await copy.withStore { store async throws in
        #expect(try await store.account(uid: "u")?.isDisabled == true, "page \(last)")
        #expect(try await store.token(Self.session)?.token == nil, "page \(last)")
      }
      let isLogKept = FileManager.default.fileExists(atPath: copy.file("damaged-1.sqlite-wal"))
      #expect(isLogKept == isCopied, "page \(last)")
    }
  }

  @Test func `transactions that follow the copy in a damaged log are lost, and no others`()
    async throws
  {
    let crashed = try await crash(more: 5, hasReader: true)
    let frames = frames(try log(crashed))
    // Without canopy.tail, the log alone shows the loss.
    try FileManager.default.removeItem(atPath: crashed.file("canopy.tail"))
    try damage(crashed, frame: frames.count / 2)
    let found = try await accept(crashed)
    #expect(found.commits == Int(Self.commits))
    #expect(
      found.notes.contains { $0.contains("transactions that only it has may be lost") },
      "\(found.notes)")
  }

  @Test func `a damaged frame with the number of another page does not replace that page`()
    async throws
  {
    let crashed = try await crashWithDisabledAccount()
    try copyPages(upTo: .max, in: crashed)
    var log = try log(crashed)
    let frames = frames(log)
    let last = Dictionary(frames.map { ($0.page, $0.offset) }) { $1 }
    let page = try #require(last.min { $0.value < $1.value })
    // A later frame of another page, whose last version follows.
    let altered = try #require(
      frames.first { $0.offset > page.value && last[$0.page] != $0.offset })
    log[altered.offset + 2] = UInt8(page.key >> 8)
    log[altered.offset + 3] = UInt8(page.key & 0xFF)
    try log.write(to: URL(filePath: crashed.file("canopy.sqlite-wal")))
    #expect(try LogComparison.run(database: crashed.database)?.isProven == true)

    // Now the page is not copied.
    var database = try self.log(crashed, "canopy.sqlite")
    database.resetBytes(in: (page.key - 1) * 4_096..<page.key * 4_096)
    try database.write(to: URL(filePath: crashed.database))
    #expect(try LogComparison.run(database: crashed.database) == nil)
  }

  @Test func `a frame without its head could be of any page, so the rows of the file are checked`()
    async throws
  {
    let crashed = try await crashWithDisabledAccount()
    try copyPages(upTo: .max, in: crashed)
    var log = try log(crashed)
    let frames = frames(log)
    let lost = try #require(frames.dropLast(3).last)
    log.resetBytes(in: lost.offset..<lost.offset + 24)
    try log.write(to: URL(filePath: crashed.file("canopy.sqlite-wal")))
    #expect(try LogComparison.run(database: crashed.database)?.isProven == false)
    let found = try await accept(crashed)
    #expect(found.notes.isEmpty && found.commits == 9)
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
