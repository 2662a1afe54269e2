import CanopyEngine
import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The copying of the write-ahead log into the database file.
@Suite(.timeLimit(.minutes(20))) struct LogCopierTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private var configuration: SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    configuration.logFramesMax = 20
    return configuration
  }

  private var logBytes: Int {
    get throws {
      try FileManager.default.attributesOfItem(atPath: folder.database + "-wal")[.size] as? Int ?? 0
    }
  }

  private func append(_ store: SQLiteStore, _ number: Int64) throws {
    try store.append([commit(number, "n/\(number % 10)", Node(number))], after: number - 1)
  }

  @Test func `no commit copies the log, even if it is long`() async throws {
    try await folder.withStore { _ in }
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      let gate = DispatchSemaphore(value: 0)
      copier.queue.async { gate.wait() }
      let before = try Data(contentsOf: URL(filePath: folder.database))
      for number in 1...100 as ClosedRange<Int64> { try append(store, number) }
      #expect(try Data(contentsOf: URL(filePath: folder.database)) == before)
      #expect(try logBytes > 100 * 4_096)
      gate.signal()
      copier.queue.sync {}
      #expect(try Data(contentsOf: URL(filePath: folder.database)) != before)
      // The log was copied completely, so the next commit restarts it.
      let bytes = try logBytes
      try append(store, 101)
      #expect(try logBytes == bytes)
    }
    #expect(try await folder.withStore { try await $0.tree().sequence } == 101)
  }

  @Test func `the log stays short while commits go on`() async throws {
    // The migrations of a new file make a longer log.
    try await folder.withStore { _ in }
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      for number in 1...300 as ClosedRange<Int64> {
        try append(store, number)
        copier.queue.sync {}
      }
      #expect(try logBytes < 60 * 4_120)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `the writer synchronizes the last frames of a copy only`() async throws {
    var configuration = configuration
    configuration.logFramesMax = 1_000
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      let gate = DispatchSemaphore(value: 0)
      copier.queue.async { gate.wait() }
      let text = Node(String(repeating: "x", count: 100_000))
      for number in 1...60 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", text)], after: number - 1)
      }
      #expect(copier.frames > 1_400)
      gate.signal()
      copier.queue.sync {}
      #expect(copier.copies == 1)
      #expect(copier.writerFramesMax <= 250)
    }
  }

  @Test func `the log is copied after fewer frames of background steps`() async throws {
    var configuration = configuration
    configuration.logFramesMax = 1_000_000
    configuration.logStepFramesMax = 200
    configuration.uptime = { 0 }
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      let text = Node(String(repeating: "x", count: 300_000))
      for number in 1...12 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", text)], after: number - 1)
      }
      #expect(copier.copies == 0, "commits alone do not reach their own bound")
      try await store.checkpoint(try await store.tree().root, through: 12)
      copier.queue.sync {}
      // Each row has 74 pages, so three rows reach the bound, and 12 rows reach it four times.
      #expect(3...5 ~= copier.copies, "\(copier.copies)")
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a copy that a reader delays is repeated when the log has grown`() async throws {
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      try append(store, 1)
      try await store.pool.read { db in
        _ = try CommitRow.last(db)
        for number in 2...1_100 as ClosedRange<Int64> {
          try append(store, number)
        }
        copier.queue.sync {}
      }
      let bytes = try logBytes
      #expect(bytes > 1_000 * 4_096)
      for number in 1_101...2_300 as ClosedRange<Int64> { try append(store, number) }
      copier.queue.sync {}
      try append(store, 2_301)
      #expect(try logBytes < 2 * bytes + bytes / 2)
      #expect(try await store.tree().sequence == 2_301)
    }
  }
}
