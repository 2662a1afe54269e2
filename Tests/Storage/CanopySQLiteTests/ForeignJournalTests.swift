import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopySQLite

/// A rollback journal beside the database. SQLite would change the database by it, or remove a file that it names.
@Suite(.timeLimit(.minutes(20))) struct ForeignJournalTests {
  let folder: Folder
  private var journal: String { folder.database + "-journal" }

  init() throws {
    folder = try Folder()
  }

  /// Returns a journal that cuts the database to so many pages.
  private func bytes(pages: UInt32, naming other: String? = nil) -> Data {
    func word(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
    let magic: [UInt8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]
    var data = Data(magic + word(0) + word(7) + word(pages) + word(512) + word(4_096))
    data.append(Data(count: 512 - data.count))
    guard let other else { return data }
    let name = Array(other.utf8)
    let sum = name.reduce(UInt32(0)) { $0 &+ UInt32($1) }
    // The number of the page for locks, in whose place the name is.
    data.append(Data(word(262_145) + name + word(UInt32(name.count)) + word(sum) + magic))
    return data
  }

  @Test(arguments: [0, 3] as [UInt32], [false, true])
  func `a folder that was used is refused, and nothing changes`(pages: UInt32, namesOther: Bool)
    async throws
  {
    try await folder.withStore { store in
      for number in 1...9 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
    }
    let other = folder.file("other")
    try Data("kept".utf8).write(to: URL(filePath: other))
    let before = try Data(contentsOf: URL(filePath: folder.database))
    try bytes(pages: pages, naming: namesOther ? other : nil).write(to: URL(filePath: journal))
    var configuration = SQLiteStore.Configuration()
    for acceptsLoss in [false, true] {
      configuration.acceptsLoss = acceptsLoss
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore(folder: folder.path, configuration: configuration)
      }
      expectAdvice(
        error, mentions: "canopy.sqlite-journal is not of this database", "move the file out")
    }
    #expect(throws: StoreError.self) { try SQLiteStore.reading(folder.path) }
    #expect(try Data(contentsOf: URL(filePath: folder.database)) == before)
    #expect(FileManager.default.fileExists(atPath: other))
    try FileManager.default.removeItem(atPath: journal)
    try await folder.withStore { store async throws in
      #expect(try await store.load().sequence == 9)
    }
  }

  @Test func `a first start does not remove a file that a journal names`() throws {
    let other = folder.file("other")
    try Data("kept".utf8).write(to: URL(filePath: other))
    try Data().write(to: URL(filePath: folder.database))
    try bytes(pages: 0, naming: other).write(to: URL(filePath: journal))
    #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
    #expect(FileManager.default.fileExists(atPath: other))
    // Without the name it is that of an interrupted first start.
    try bytes(pages: 0).write(to: URL(filePath: journal))
    try SQLiteStore(folder: folder.path).close()
  }
}
