import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Removed data in the files of a folder.
@Suite struct RemovedDataTests {
  @Test func `VACUUM by another program removes deleted texts, and leaves a sound folder`()
    async throws
  {
    let folder = try Folder()
    let text = "a removed text"
    func occurs() throws -> Bool {
      try Data(contentsOf: URL(filePath: folder.database)).firstRange(of: Data(text.utf8)) != nil
    }
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 0
    try await folder.withStore(configuration) { store async throws in
      let texts = Node(children: (0..<2_000).map { (Key(index: $0), Node(text + " \($0)")) })
      try store.append([commit(1, "n", texts)], after: 0)
      try await store.checkpoint(try await store.tree().root, through: 1)
      try store.append([commit(2, "n", Node(2)), commit(3, "m", Node(3))], after: 1)
      try await store.checkpoint(try await store.tree().root, through: 3)
    }
    #expect(try occurs(), "without VACUUM the texts are in free pages")
    let queue = try DatabaseQueue(path: folder.database)
    try await queue.vacuum()
    try queue.close()
    #expect(try !occurs())
    try await folder.withStore(configuration) { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().sequence == 3)
      #expect(try await store.tree().root.child("m") == Node(3))
    }
  }
}
