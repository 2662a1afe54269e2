import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySQLite

/// The retention of commits that the checkpoint has.
@Suite(.timeLimit(.minutes(20))) struct RetentionTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  @Test func `a listener can resume from the last removed commit, but not from an earlier one`()
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 4
    try await folder.withStore(configuration) { store in
      try store.append(try (1...10).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.checkpoint(json(#"{"n":10}"#), through: 10)
      #expect(try await store.wholeHistory(after: 6, through: 10).count == 4)
      #expect(try await store.wholeHistory(after: 5, through: 10).count == 4)
    }
  }
}
