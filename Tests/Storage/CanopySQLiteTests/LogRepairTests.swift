import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Synchronization
import Testing

@testable import CanopySQLite

/// The repair of the write-ahead log after an error of the disk. `CanopyDiskTests` makes the errors.
@Suite(.timeLimit(.minutes(20))) struct LogRepairTests {
  private func fill(_ store: SQLiteStore, _ numbers: ClosedRange<Int64>) throws {
    for number in numbers {
      try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
    }
  }

  @Test
  func `after an error of the disk the next append repairs the log, and all commits are there`()
    async throws
  {
    let folder = try Folder()
    let crashed = try await folder.withStore { store async throws in
      try fill(store, 1...40)
      #expect(store.files.unrepairedErrors == nil)
      store.files.noteError()
      #expect(store.files.unrepairedErrors == 1)
      try fill(store, 41...42)
      #expect(store.files.unrepairedErrors == nil)
      #expect(try await store.load().sequence == 42)
      #expect(try await store.problems().isEmpty)
      return try folder.crashed()
    }
    for folder in [folder, crashed] {
      try await folder.withStore { store async throws in
        #expect(try await store.load().tree.root.child("n").childCount == 42)
      }
    }
  }

  @Test func `a repair that does not find a stored commit refuses all writes`() async throws {
    let folder = try Folder()
    try await folder.withStore { store async throws in
      try fill(store, 1...3)
      let log = try FileHandle(forUpdating: URL(filePath: folder.database + "-wal"))
      let bytes = try log.seekToEnd()
      try log.seek(toOffset: bytes - 100)
      try log.write(contentsOf: [1, 2, 3])
      store.files.noteError()
      for _ in 0..<2 {
        let error = #expect(throws: StoreError.self) { try fill(store, 4...4) }
        expectAdvice(error, mentions: "does not contain all that was stored", "backup")
      }
    }
  }

  @Test func `a checkpoint ends when the disk has lost one of its steps, and drops no commit`()
    async throws
  {
    let folder = try Folder()
    let current = Mutex<SQLiteStore?>(nil)
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 10
    configuration.retainedCommits = 1
    configuration.retainedMilliseconds = 0
    configuration.afterStep = {
      current.withLock { $0.take() }?.lostSteps.add(1, ordering: .relaxed)
    }
    try await folder.withStore(configuration) { store async throws in
      try fill(store, 1...30)
      let root = try await store.tree().root
      current.withLock { $0 = store }
      let error = await #expect(throws: StoreError.self) {
        try await store.checkpoint(root, through: 30)
      }
      expectAdvice(error, mentions: "lost steps of the checkpoint")
      #expect(try await store.number("SELECT count(*) FROM commits") == 30)
      try await store.checkpoint(root, through: 30)
      #expect(try await store.number("SELECT count(*) FROM commits") == 1)
      #expect(try await store.checkpointRoot() == root)
    }
  }
}
