import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySQLite

/// Retention of commits and of clients' writes whose times are at the bounds of a number.
@Suite(.timeLimit(.minutes(20))) struct RetentionBoundTests {
  static let bounds: [Int64] = [.min, .min + 1, -1, 0, 1, .max - 1, .max]

  @Test(arguments: bounds, bounds)
  func `a checkpoint drops old commits whatever their times are`(_ first: Int64, _ last: Int64)
    async throws
  {
    for span in [0, 1, .max] as [Int64] {
      var configuration = SQLiteStore.Configuration()
      configuration.retainedMilliseconds = span
      let kept = try await Folder().withStore(configuration) { store in
        let times = [first, last]
        let commits = try times.enumerated().map { index, time in
          Commit(
            sequence: Int64(index + 1), time: time,
            assignments: [Assignment(try Path("n"), Node(Int64(index)))],
            origin: try WriteOrigin(client: "c\(index)", number: 1, seen: 0))
        }
        try store.append(commits, after: 0)
        var tree = Tree()
        for commit in commits { tree.apply(commit.assignments) }
        try await store.checkpoint(tree.root, through: 2)
        let isInKeys = max(first, last) < PushIDGenerator.timeMax
        #expect(try await store.problems().count == (isInKeys ? 0 : 1))
        return try await store.wholeHistory().map(\.sequence)
      }
      let (age, overflow) = last.subtractingReportingOverflow(first)
      let isKept = overflow ? last < 0 : age <= span
      #expect(kept == (isKept ? [1, 2] : [2]), "\(span)")
    }
  }
}
