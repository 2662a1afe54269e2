import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Logging
import Synchronization
import Testing

@testable import CanopySQLite

/// Files that are moved, replaced or cut while a store uses them.
struct ReplacedFileTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  @Test(
    arguments: [
      ("", false), ("/canopy.sqlite", false), ("/canopy.sqlite", true),
      ("/canopy.sqlite-wal", false), ("/canopy.sqlite-wal", true),
    ])
  func `no append succeeds after a file was removed or replaced`(
    removed: String, isReplaced: Bool
  ) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      let path = folder.path + removed
      if isReplaced {
        try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
        #expect(rename(path + ".new", path) == 0)
      } else {
        try FileManager.default.removeItem(atPath: path)
      }
      for _ in 0..<2 {
        let error = #expect(throws: StoreError.self) {
          try store.append([commit(2, "n", 2)], after: 1)
        }
        expectAdvice(error, mentions: "removed or replaced", "backup")
        await #expect(throws: StoreError.self) {
          _ = try await store.changeDisconnectWrites(
            adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
        }
        let last = try await store.pool.writeWithoutTransaction { try CommitRow.last($0).sequence }
        #expect(last == 1)
      }
    }
  }

  @Test(arguments: ["", "-wal"])
  func `no append succeeds after a file was moved and a copy took its place`(
    suffix: String
  ) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      let (path, moved) = (folder.database + suffix, folder.database + suffix + ".moved")
      try FileManager.default.moveItem(atPath: path, toPath: moved)
      try FileManager.default.copyItem(atPath: moved, toPath: path)
      let error = #expect(throws: StoreError.self) {
        try store.append([commit(2, "n", 2)], after: 1)
      }
      expectAdvice(error, mentions: path, "removed or replaced", "moved", "backup")
      try FileManager.default.removeItem(atPath: path)
      try FileManager.default.moveItem(atPath: moved, toPath: path)
      try store.append([commit(2, "n", 2)], after: 1)
    }
    #expect(try await folder.withStore { try await $0.load().sequence } == 2)
  }

  @Test(arguments: [0, 4_096, 8_192])
  func `no append succeeds after the database was cut, and closing keeps the log`(
    bytes: Int
  ) async throws {
    let (files, warnings) = try await close { store in
      try store.emptyLog()
      try store.append([commit(4, "n", 4)], after: 3)
      #expect(truncate(folder.database, bytes) == 0)
      let error = #expect(throws: StoreError.self) {
        try store.append([commit(5, "n", 5)], after: 4)
      }
      expectAdvice(error, mentions: "or cut", "backup")
    }
    #expect(contents(folder.path) == files)
    #expect(files[0]?.count == bytes && files[1]?.isEmpty == false)
    #expect(warnings.count == 1)
  }

  @Test func `neither a scrub nor a copy removes the log beside an empty database`() async throws {
    let store = try SQLiteStore(folder: folder.path)
    try store.append([commit(1, "n", 1)], after: 0)
    #expect(truncate(folder.database, 0) == 0)
    let before = contents(folder.path)
    expectAdvice(
      #expect(throws: StoreError.self) { try Scrub(folder: folder.path) }, mentions: "is empty",
      "-wal", "backup")
    let copy = folder.file("copy")
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore.copyDatabase(of: folder.path, isServed: true, to: copy)
    }
    expectAdvice(error, mentions: "is empty", "backup")
    #expect(contents(folder.path) == before)
    try store.close()
    #expect(contents(folder.path) == before)
  }

  /// Returns the contents of the database file and its log.
  private func contents(_ path: String) -> [Data?] {
    ["", "-wal"].map { FileManager.default.contents(atPath: path + "/canopy.sqlite" + $0) }
  }

  /// Fills the folder with three commits that only the log has, runs `body`, and closes the store. Returns the files as
  /// they were before the store was closed, and the warnings that it logged then.
  private func close(
    after body: (SQLiteStore) throws -> Void
  ) async throws -> (files: [Data?], warnings: [String]) {
    let lines = Mutex<[String]>([])
    var configuration = SQLiteStore.Configuration()
    configuration.logger = Logger(label: "test") { _ in
      LogLines { line in lines.withLock { $0.append(line) } }
    }
    let files = try await folder.withStore(configuration) { store in
      for sequence in 1...3 as ClosedRange<Int64> {
        try store.append([commit(sequence, "n", Node(sequence))], after: sequence - 1)
      }
      try body(store)
      lines.withLock { $0 = [] }
      return contents(folder.path)
    }
    return (files, lines.withLock { $0 }.filter { $0.contains("write-ahead log is kept") })
  }

  @Test func `closing keeps the log of a database that was replaced by a copy`() async throws {
    let (files, warnings) = try await close { _ in
      try FileManager.default.copyItem(atPath: folder.database, toPath: folder.database + ".new")
      #expect(rename(folder.database + ".new", folder.database) == 0)
    }
    #expect(contents(folder.path) == files)
    #expect(warnings.count == 1)
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.load().sequence == 3)
    }
  }

  @Test func `closing keeps the log of a database that was removed, and a log that was cut`()
    async throws
  {
    let (removed, _) = try await close { _ in
      try FileManager.default.removeItem(atPath: folder.database)
    }
    #expect(contents(folder.path) == removed)
    #expect(removed[0] == nil && removed[1]?.isEmpty == false)
    let other = try ReplacedFileTests()
    let (cut, warnings) = try await other.close { _ in
      let log = other.folder.database + "-wal"
      let bytes = try Data(contentsOf: URL(filePath: log)).count
      #expect(truncate(log, bytes - 10_000) == 0)
    }
    #expect(other.contents(other.folder.path) == cut)
    #expect(warnings.count == 1)
    expectAdvice(
      #expect(throws: StoreError.self) { try SQLiteStore(folder: other.folder.path) },
      mentions: "which were stored, are missing", "backup")
  }

  @Test(arguments: [false, true])
  func `closing copies a log that has lost its name, and keeps the file that has the name`(
    isReplaced: Bool
  ) async throws {
    let log = folder.database + "-wal"
    var old = Data()
    let (_, warnings) = try await close { store in
      old = try Data(contentsOf: URL(filePath: log))
      try store.append([commit(4, "n", 4)], after: 3)
      try FileManager.default.removeItem(atPath: log)
      if isReplaced { try old.write(to: URL(filePath: log)) }
    }
    #expect(warnings.isEmpty)
    #expect(
      FileManager.default.contents(atPath: log + ".replaced") == (isReplaced ? old : nil))
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.load().sequence == 4)
    }
  }

  @Test func `no background step succeeds after the database was replaced`() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try FileManager.default.copyItem(atPath: folder.database, toPath: folder.database + ".new")
      #expect(rename(folder.database + ".new", folder.database) == 0)
      await #expect(throws: StoreError.self) {
        try await store.step { db, _ in try db.execute(sql: "DELETE FROM commits") }
      }
    }
  }

  @Test func `no append succeeds after the folder was moved`() async throws {
    let (data, moved) = (folder.path + "/data", folder.path + "/moved")
    let store = try SQLiteStore(folder: data)
    try store.append([commit(1, "n", 1)], after: 0)
    try FileManager.default.moveItem(atPath: data, toPath: moved)
    #expect(throws: StoreError.self) { try store.append([commit(2, "n", 2)], after: 1) }
    try store.close()
  }

  @Test func `no append succeeds after the log was cut, and the store itself may cut it`()
    async throws
  {
    try await folder.withStore { store in
      for sequence in 1...3 as ClosedRange<Int64> {
        try store.append([commit(sequence, "n", Node(sequence))], after: sequence - 1)
        try store.emptyLog()
      }
      for sequence in 4...6 as ClosedRange<Int64> {
        try store.append([commit(sequence, "n", Node(sequence))], after: sequence - 1)
      }
      #expect(truncate(folder.database + "-wal", 0) == 0)
      for _ in 0..<2 {
        let error = #expect(throws: StoreError.self) {
          try store.append([commit(7, "n", 7)], after: 6)
        }
        expectAdvice(error, mentions: "-wal", "cut", "backup")
      }
    }
  }
}
