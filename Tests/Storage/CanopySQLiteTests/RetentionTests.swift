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

  @Test(arguments: [(0, 1), (1, 1), (2, 2), (3, 3), (10, 10), (100, 10)])
  func `the latest commits are kept up to a number of bytes, and the last one in any case`(
    _ whole: Int, _ kept: Int
  ) async throws {
    // Each commit has 40 bytes besides its value at most.
    let bytes = Int(AppendedBytes.partBytesMin)
    var configuration = SQLiteStore.Configuration()
    configuration.retainedBytes = Int64(whole * (bytes + 40))
    try await folder.withStore(configuration) { store in
      let values = (1...10).map { Node(String(repeating: "\($0 % 10)", count: bytes)) }
      var tree = Tree()
      for (number, value) in zip(1..., values) {
        let made = try commit(Int64(number), "n", value)
        try store.append([made], after: Int64(number - 1))
        tree.apply(made.assignments)
      }
      try await store.checkpoint(tree.root, through: 10)
      #expect(try await store.wholeHistory().map(\.sequence) == Array(Int64(11 - kept)...10))
    }
  }

  @Test func `small commits are counted together, and commits of which none is kept are forgotten`()
  {
    var appended = AppendedBytes()
    #expect(appended.firstSequence(bytesMax: 0) == .min)
    let half = Int(AppendedBytes.partBytesMin / 2)
    for sequence in 1...6 { appended.note(Int64(sequence), bytes: half) }
    // Three parts of two commits each.
    #expect(appended.firstSequence(bytesMax: Int64(6 * half)) == .min)
    #expect(appended.firstSequence(bytesMax: Int64(6 * half - 1)) == 3)
    #expect(appended.firstSequence(bytesMax: Int64(2 * half)) == 5)
    #expect(appended.firstSequence(bytesMax: 0) == 7)
    appended.forget(before: 4)
    #expect(appended.firstSequence(bytesMax: Int64(4 * half)) == .min)
    appended.forget(before: 7)
    #expect(appended.firstSequence(bytesMax: 0) == .min)
  }
}
