import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// The lock that keeps other programs from removing the write-ahead log of an open folder.
@Suite(.timeLimit(.minutes(20))) struct DatabaseLockTests {
  /// An opening of a folder.
  enum Case: CaseIterable {
    case firstStart
    case nextStart
    case withoutTail
    case damagedTail
    case leftLog
    case duringScrub
  }

  /// Whether another program could remove the log of a folder: it needs the lock for writing.
  ///
  /// A lock of SQLite itself would be released when the descriptor is closed.
  private func canRemoveLog(_ folder: Folder) -> Bool {
    let file = open(folder.database, O_RDWR | O_CLOEXEC)
    defer { close(file) }
    var range = Foundation.flock()
    range.l_type = Int16(F_WRLCK)
    (range.l_start, range.l_len) = (DatabaseFiles.sharedLock.start, DatabaseFiles.sharedLock.count)
    // F_OFD_SETLK.
    return fcntl(file, 37, &range) == 0
  }

  @Test(arguments: Case.allCases)
  func `an open folder keeps its lock, whatever the process opens and closes`(
    _ opening: Case
  ) async throws {
    var folder = try Folder()
    if opening != .firstStart {
      let crashed = try await folder.withStore { store in
        try store.append([commit(1, "a", 1)], after: 0)
        return try folder.crashed()
      }
      if opening == .leftLog { folder = crashed }
      #expect(canRemoveLog(folder))
    }
    let tail = folder.path + "/canopy.tail"
    if opening == .withoutTail { try FileManager.default.removeItem(atPath: tail) }
    if opening == .damagedTail { try Data("damaged".utf8).write(to: URL(filePath: tail)) }
    let scrub = opening == .duringScrub ? try Scrub(folder: folder.path) : nil
    let store = try SQLiteStore(folder: folder.path)
    #expect(!canRemoveLog(folder))
    scrub?.close()
    _ = try Data(contentsOf: URL(filePath: folder.database))
    #expect(!canRemoveLog(folder))
    let last = opening == .firstStart ? 0 : 1 as Int64
    try store.append([commit(last + 1, "b", 1)], after: last)
    try store.close()
    #expect(canRemoveLog(folder))
    #expect(!LogScan.exists(database: folder.database), "the store itself removes the log")
  }

  @Test func `a folder whose database another program keeps locked is refused`() throws {
    let folder = try Folder()
    try SQLiteStore(folder: folder.path).close()
    let files = DatabaseFiles([folder.database])
    defer { files.close() }
    let other = open(folder.database, O_RDWR | O_CLOEXEC)
    var range = Foundation.flock()
    range.l_type = Int16(F_WRLCK)
    (range.l_start, range.l_len) = (DatabaseFiles.sharedLock.start, DatabaseFiles.sharedLock.count)
    try #require(fcntl(other, 37, &range) == 0)
    var waits = 0
    let error = #expect(throws: StoreError.self) { try files.lock { waits += 1 } }
    expectAdvice(error, mentions: folder.database, "locked by another program")
    #expect(waits == 500)
    // The other program ends.
    try files.lock { if waits == 510 { close(other) } else { waits += 1 } }
    #expect(waits == 510)
  }
}
