import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// Write-ahead logs that are longer than the disk, because they have gaps.
@Suite(.timeLimit(.minutes(20))) struct LogFramesTests {
  private static let longBytes: off_t = 8 << 40
  private static let commits: Int64 = 20

  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Returns a folder with commits that only the log has.
  private func crash() async throws -> Folder {
    try await folder.withStore { _ in }
    return try await folder.withStore { store in
      for number in 1...Self.commits {
        try store.append([commit(number, "n/\(number)", 1)], after: number - 1)
      }
      return try folder.crashed()
    }
  }

  private func lengthen(_ folder: Folder) {
    #expect(truncate(folder.database + "-wal", Self.longBytes) == 0)
  }

  /// Returns the positions of the frames that are read.
  private func offsets(_ folder: Folder) throws -> [Int] {
    let frames = try #require(try LogFrames(database: folder.database))
    var offsets: [Int] = []
    while let frame = try frames.next() { offsets.append(frame.offset) }
    return offsets
  }

  /// Writes bytes into the log.
  private func write(_ bytes: Data, at offset: Int, _ folder: Folder) throws {
    let file = try FileHandle(forWritingTo: URL(filePath: folder.database + "-wal"))
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: bytes)
    try file.close()
  }

  private func frame(_ offset: Int, _ folder: Folder) throws -> Data {
    try Data(contentsOf: URL(filePath: folder.database + "-wal"))[offset..<offset + 4_120]
  }

  @Test func `the frames in a gap are not read`() async throws {
    let crashed = try await crash()
    let found = try offsets(crashed)
    #expect(found.count >= Int(Self.commits))
    lengthen(crashed)
    let long = try offsets(crashed)
    #expect(long.starts(with: found))
    // The walk reads at least one frame of the gap, and more if the file system has large blocks.
    #expect(long.count <= found.count + 64)
  }

  @Test func `a transaction behind a gap is found`() async throws {
    let crashed = try await crash()
    let scan = try #require(try LogScan.scan(database: crashed.database))
    let found = try offsets(crashed)
    let last = try frame(try #require(found.last), crashed)
    let far = 32 + (1 << 30) * 4_120
    try write(last, at: far, crashed)
    let long = try offsets(crashed)
    #expect(long.last == far)
    #expect(long.count <= found.count + 128)
    let longScan = try #require(try LogScan.scan(database: crashed.database))
    #expect(longScan.transactions == scan.transactions)
    #expect(scan.lostTransactions == 0 && longScan.lostTransactions == 1)
  }

  @Test func `a folder whose log ends with a long gap is read, verified and opened as before`()
    async throws
  {
    let crashed = try await crash()
    let scan = try LogScan.scan(database: crashed.database)
    lengthen(crashed)
    #expect(try LogScan.scan(database: crashed.database) == scan)
    #expect(try LogComparison.run(database: crashed.database) == nil)
    #expect(try !LogCorrection.run(database: crashed.database))
    let reader = try SQLiteStore.reading(crashed.path)
    #expect(try await reader.problems().isEmpty)
    try reader.close()
    try await crashed.withStore { store async throws in
      #expect(try await store.tree().sequence == Self.commits)
      try store.append([commit(Self.commits + 1, "more", 1)], after: Self.commits)
    }
    #expect(!LogScan.exists(database: crashed.database))
    try await crashed.withStore { store async throws in
      #expect(try await store.tree().sequence == Self.commits + 1)
    }
  }

  @Test func `the losses of a folder whose log has a long gap are accepted`() async throws {
    let crashed = try await crash()
    let found = try offsets(crashed)
    // The header is lost, so SQLite reads no frame.
    try write(Data(count: 32), at: 0, crashed)
    lengthen(crashed)
    #expect(SalvagePages(path: crashed.database) != nil)
    try write(Data(repeating: 9, count: 64), at: try #require(found.last) + 2_048, crashed)
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    try await crashed.withStore(configuration) { store async throws in
      #expect(try await !store.acceptLosses().notes.isEmpty)
    }
    try await crashed.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
  }
}
