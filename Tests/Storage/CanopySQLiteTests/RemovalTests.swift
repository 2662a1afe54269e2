import CanopySQLite
import CanopyTesting
import Foundation
import Testing

/// The rests of removed folders.
struct RemovalTests {
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
