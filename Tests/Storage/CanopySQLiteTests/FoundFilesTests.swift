import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// The copy of damaged files that a folder keeps.
@Suite(.timeLimit(.minutes(20))) struct FoundFilesTests {
  private let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Returns a folder with a checkpoint, and a commit that only the log has.
  private func crash() async throws -> Folder {
    try await folder.withStore { store in
      for number in 1...60 as ClosedRange<Int64> {
        try store.append(
          [commit(number, "n/\(number)", Node(String(repeating: "x", count: 700)))],
          after: number - 1)
      }
      try await store.checkpoint(try await store.tree().root, through: 60)
    }
    return try await folder.withStore { store in
      try store.append([commit(61, "last", 1)], after: 60)
      return try folder.crashed()
    }
  }

  private func change(_ folder: Folder, _ name: String, _ change: (inout Data) throws -> Void)
    throws
  {
    let file = URL(filePath: folder.file(name))
    var data = try Data(contentsOf: file)
    try change(&data)
    try data.write(to: file)
  }

  private func files(_ folder: Folder, _ name: String) throws -> [Data] {
    try ["", "-wal"].map { try Data(contentsOf: URL(filePath: folder.file(name + $0))) }
  }

  private func accept(_ folder: Folder) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    try await folder.withStore(configuration) { _ = try await $0.acceptLosses() }
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root.child("last") == 1)
    }
  }

  @Test(arguments: ["canopy.sqlite-wal", "canopy.sqlite"])
  func `the copy has the files as they were found, also the bytes that are corrected before it`(
    corrected: String
  ) async throws {
    _ = try await crash()
    let page = try #require(
      try DatabasePages(folder).pages.first {
        $0.kind == .leaf && $0.tree.hasSameBytes(as: "leaves")
      })
    let crashed = try await folder.withStore { store in
      try store.append([commit(62, "last", 1)], after: 61)
      return try folder.crashed()
    }
    // A counter in the header of the log, or a constant of the database.
    try change(crashed, corrected) { $0[corrected.hasSuffix("-wal") ? 14 : 20] ^= 1 }
    // A page that the log does not have.
    try change(crashed, "canopy.sqlite") { data in
      let start = (page.number - 1) * 4_096
      for offset in start..<start + 4_096 { data[offset] = 0xFF }
    }
    let found = try files(crashed, "canopy.sqlite")
    try await accept(crashed)
    let kept = try files(crashed, "damaged-1.sqlite")
    #expect(kept == found)
  }

  @Test func `a file with altered definitions is kept as it was found`() async throws {
    let crashed = try await crash()
    try change(crashed, "canopy.sqlite") { data in
      let range = try #require(data.range(of: Data("CREATE TABLE leaves".utf8)))
      data[range.lowerBound] = UInt8(ascii: "c")
    }
    let found = try files(crashed, "canopy.sqlite")
    try await accept(crashed)
    let kept = try files(crashed, "damaged-1.sqlite")
    #expect(kept == found)
    #expect(!FileManager.default.fileExists(atPath: crashed.file("damaged-2.sqlite")))
  }

  @Test func `the copy of a file with a gap has the gap`() throws {
    let bytes = 1 << 26
    try Data("head".utf8).write(to: URL(filePath: folder.database))
    #expect(truncate(folder.database, off_t(bytes)) == 0)
    var files = FoundFiles(Opening(folder: folder.path, configuration: .init(), tail: nil))
    try files.keep()
    var status = stat()
    #expect(stat(folder.file("damaged-1.sqlite"), &status) == 0)
    #expect(Int(status.st_size) == bytes)
    // A block has 512 bytes.
    #expect(Int(status.st_blocks) < bytes / 512 / 16)
  }

  private func keep() throws -> Bool {
    var files = FoundFiles(Opening(folder: folder.path, configuration: .init(), tail: nil))
    #expect(!files.areChanged)
    try files.keep()
    return files.areChanged
  }

  @Test func `files that were found before are kept once`() throws {
    for (number, text) in ["one", "two", "one"].enumerated() {
      for hasLog in [false, true] {
        try Data(text.utf8).write(to: URL(filePath: folder.database))
        // A log has a header.
        let log = Data(text.utf8) + Data(count: hasLog ? 32 : 0)
        try log.write(to: URL(filePath: folder.database + "-wal"))
        #expect(truncate(folder.database, 1 << 40) == 0)
        for _ in 0..<3 { #expect(try keep()) }
        let copies = try folder.files().filter { $0.hasPrefix("damaged-") && !$0.hasSuffix("-wal") }
        #expect(copies.count == 2 * number + (hasLog ? 2 : 1))
      }
    }
  }

  @Test func `files that cannot be copied leave no copy`() throws {
    try Data("head".utf8).write(to: URL(filePath: folder.database))
    try FileManager.default.createDirectory(
      atPath: folder.database + "-wal", withIntermediateDirectories: false)
    // An interrupted start has left this.
    try Data("rest".utf8).write(to: URL(filePath: FoundFiles.work(in: folder.path)))
    #expect(throws: StoreError.self) { try keep() }
    #expect(try folder.files() == ["canopy.sqlite", "canopy.sqlite-wal"])
  }
}
