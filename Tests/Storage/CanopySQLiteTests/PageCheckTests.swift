import CanopyEngine
import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// The check of all pages beside the load of the tree.
@Suite(.timeLimit(.minutes(20))) struct PageCheckTests {
  /// The events in their order.
  private final class Events: Sendable {
    private let names = Mutex<[String]>([])

    var all: [String] { names.withLock { $0 } }

    func add(_ name: String) {
      names.withLock { $0.append(name) }
    }
  }

  private let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func fill() async throws {
    try await folder.withStore { store in
      for number in 1...50 as ClosedRange<Int64> {
        try store.append(
          [commit(number, "n/\(number)", Node(String(repeating: "x", count: 500)))],
          after: number - 1)
      }
      try await store.checkpoint(try await store.tree().root, through: 50)
      // Leaves free pages.
      try await store.damage(
        "CREATE TABLE other(x); INSERT INTO other VALUES (zeroblob(40000)); DROP TABLE other",
        isSealed: false)
    }
  }

  /// Lets the list of free pages contain a page that is in use.
  private func damageList(of folder: Folder) throws {
    var data = try Data(contentsOf: URL(filePath: folder.database))
    let first = Int(data[32..<36].reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
    try #require(first > 1)
    data[(first - 1) * 4_096 + 11] = 2
    try data.write(to: URL(filePath: folder.database))
  }

  /// Overwrites a page with leaves. SQLite cannot read it as a page of a table.
  private func damageLeaves() async throws {
    let root = try await folder.withStore { store in
      try await store.pool.read {
        try Int.fetchOne($0, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'leaves'")
      }
    }
    var data = try Data(contentsOf: URL(filePath: folder.database))
    let start = (try #require(root) - 1) * 4_096
    let child = Int(data[start + 8..<start + 12].reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
    try #require([2, 5].contains(data[start]) && child > 1, "an interior page")
    data.replaceSubrange(
      (child - 1) * 4_096..<child * 4_096, with: repeatElement(0xEE, count: 4_096))
    try data.write(to: URL(filePath: folder.database))
  }

  @Test func `a page that SQLite cannot read is named, with the ways out`() async throws {
    try await fill()
    try await damageLeaves()
    let store = try SQLiteStore.reading(folder.path)
    let problems = try await store.problems()
    try store.close()
    #expect(
      problems.contains {
        $0.contains("the pages of \(folder.database) are damaged (") && $0.contains("page")
          && $0.contains("canopy repair")
      }, "\(problems)")
    let copy = try Folder()
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore.copyDatabase(of: folder.path, isServed: true, to: copy.path + "/copy")
    }
    expectAdvice(error, mentions: "the pages of \(folder.database) are damaged (")
    var scrub = try Scrub(folder: folder.path)
    defer { scrub.close() }
    var found: [String] = []
    while !scrub.isDone { found += try await scrub.step().problems }
    #expect(
      found.contains { $0.contains("the pages of") && $0.contains("canopy repair") }, "\(found)")
  }

  private func contents(_ folder: Folder) throws -> [String: Data] {
    try FileManager.default.contentsOfDirectory(atPath: folder.path)
      .filter { ["canopy.sqlite", "canopy.sqlite-wal"].contains($0) }
      .reduce(into: [:]) { $0[$1] = try Data(contentsOf: URL(filePath: folder.path + "/" + $1)) }
  }

  @Test(arguments: [false, true])
  func `after damage is found nothing was written, and nothing can be`(hasLog: Bool) async throws {
    try await fill()
    let damaged = try await folder.withStore { store in
      if hasLog { try store.append([commit(51, "last", 1)], after: 50) }
      return try folder.crashed()
    }
    if !hasLog { try? FileManager.default.removeItem(atPath: damaged.database + "-wal") }
    try damageList(of: damaged)
    let before = try contents(damaged)
    let store = try SQLiteStore(folder: damaged.path)
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) { _ = try await store.load() }
      expectAdvice(error, mentions: "the pages of", "are damaged")
    }
    #expect(throws: StoreError.self) {
      try store.append([commit(52, "more", 1)], after: hasLog ? 51 : 50)
    }
    await #expect(throws: StoreError.self) {
      try await store.writeInBackground { try $0.execute(sql: "DELETE FROM leaves") }
    }
    await #expect(throws: (any Error).self) {
      try await store.pool.write { try $0.execute(sql: "DELETE FROM leaves") }
    }
    #expect(throws: StoreError.self) { try store.close() }
    #expect(try contents(damaged) == before)
  }

  @Test func `rows are read while the pages are checked, and the first write comes after that`()
    async throws
  {
    try await fill()
    let events = Events()
    let (begun, mayCheck) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    var configuration = SQLiteStore.Configuration()
    configuration.beforePageCheck = {
      begun.signal()
      mayCheck.wait()
      events.add("check")
    }
    try await folder.withStore(configuration) { store in
      async let state = store.load()
      async let written: Void = store.writeInBackground { db in
        events.add("write")
        try db.execute(sql: "UPDATE meta SET value = value")
      }
      // The check waits, and the rows are read.
      #expect(try await store.leaves().isEmpty == false)
      events.add("read")
      mayCheck.signal()
      #expect(try await state.sequence == 50)
      try await written
    }
    #expect(events.all == ["read", "check", "write"])
    #expect(begun.wait(timeout: .now()) == .success)
  }

  @Test func `opening a folder writes no frame to the log before the first write`() async throws {
    try await fill()
    let before = try contents(folder)
    let store = try SQLiteStore(folder: folder.path)
    _ = try await store.load()
    let log = try #require(try contents(folder)["canopy.sqlite-wal"])
    #expect(log.count < 32)
    // A crash leaves the byte, which SQLite does not take for a log.
    let crashed = try folder.crashed()
    try store.close()
    #expect(try contents(folder) == before)
    try await crashed.withStore { store in
      #expect(try await store.load().sequence == 50)
      try store.append([commit(51, "last", 1)], after: 50)
    }
    #expect(try await crashed.withStore { try await $0.tree().sequence } == 51)
  }
}
