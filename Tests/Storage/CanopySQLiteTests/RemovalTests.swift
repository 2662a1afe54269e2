import CanopySQLite
import CanopyTesting
import Foundation
import Testing

/// The creation of folders, and the remains of removed ones.
struct RemovalTests {
  @Test func `a folder is created as a whole, and not in place of one that has files`() throws {
    let parent = try TemporaryFolder()
    let (path, new) = (parent.file("a"), parent.file(".new-a"))
    // An empty folder has nothing to lose.
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    try SQLiteStore.create(folder: path, through: new)
    #expect(try FileManager.default.contentsOfDirectory(atPath: parent.path) == ["a"])
    try SQLiteStore.reading(path).close()
    let before = try Data(contentsOf: URL(filePath: path + "/canopy.sqlite"))
    #expect(throws: StoreError.self) { try SQLiteStore.create(folder: path, through: new) }
    #expect(try FileManager.default.contentsOfDirectory(atPath: parent.path) == ["a"])
    #expect(try Data(contentsOf: URL(filePath: path + "/canopy.sqlite")) == before)
  }

  @Test func `a rest that another command is deleting is left to it`() async throws {
    let folder = try Folder()
    try await folder.withStore { _ in
      try SQLiteStore.deleteRest(folder.path)
      #expect(FileManager.default.fileExists(atPath: folder.database))
    }
    try SQLiteStore.deleteRest(folder.path)
    #expect(!FileManager.default.fileExists(atPath: folder.path))
    // The other command may have deleted it meanwhile.
    try SQLiteStore.deleteRest(folder.path)
  }
}
