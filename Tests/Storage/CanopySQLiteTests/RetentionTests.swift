import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySQLite

/// The retention of commits that the checkpoint has.
@Suite(.timeLimit(.minutes(5))) struct RetentionTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Returns the sequence numbers that remain after a checkpoint, for commits with the given times.
  private func kept(
    times: [Int64], commits: Int64 = 1_000_000, milliseconds: Int64 = .max,
    through sequence: Int64? = nil
  ) async throws -> [Int64] {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = commits
    configuration.retainedMilliseconds = milliseconds
    let folder = try Folder()
    return try await folder.withStore(configuration) { store in
      let all = try times.enumerated().map { index, time in
        Commit(
          sequence: Int64(index + 1), time: time,
          assignments: [Assignment(try Path("n\(index % 3)"), Node(Int64(index)))])
      }
      try store.append(all, after: 0)
      let through = sequence ?? Int64(times.count)
      let root = Tree.folded(all.prefix(Int(through)))
      try await store.checkpoint(root, through: through)
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root == Tree.folded(all[...]))
      return try await store.commits(after: 0, through: .max).map(\.sequence)
    }
  }

  private static let ten = (1...10).map { Int64($0 * 1_000) }

  @Test func `exactly the configured number of commits is kept`() async throws {
    for count in 1...12 as ClosedRange<Int64> {
      #expect(
        try await kept(times: Self.ten, commits: count) == Array(max(1, 11 - count)...10))
    }
  }

  @Test
  func `commits within the configured milliseconds before the last are kept, including the bound`()
    async throws
  {
    for (milliseconds, first) in [
      (0, 10), (999, 10), (1_000, 9), (1_001, 9), (3_999, 7), (4_000, 6), (9_000, 1),
      (100_000, 1), (.max, 1),
    ] as [(Int64, Int64)] {
      #expect(
        try await kept(times: Self.ten, milliseconds: milliseconds) == Array(first...10),
        "\(milliseconds)")
    }
  }

  @Test func `both limits apply at once`() async throws {
    #expect(try await kept(times: Self.ten, commits: 4, milliseconds: 2_000) == [8, 9, 10])
    #expect(try await kept(times: Self.ten, commits: 2, milliseconds: 5_000) == [9, 10])
  }

  @Test func `the last commit always stays`() async throws {
    #expect(try await kept(times: Self.ten, commits: 0, milliseconds: 0) == [10])
    #expect(try await kept(times: [5], commits: 0, milliseconds: 0) == [1])
  }

  @Test func `commits that the checkpoint does not have are kept`() async throws {
    for through in 1...10 as ClosedRange<Int64> {
      let expected = Array(min(through + 1, 10)...10)
      #expect(
        try await kept(times: Self.ten, commits: 1, milliseconds: 0, through: through)
          == expected)
    }
  }

  @Test func `a clock that was set back removes no commit that must be kept, and leaves no gap`()
    async throws
  {
    // Removed from the oldest on, up to the first that is kept.
    let times: [Int64] = [9_000, 1_000, 2_000, 9_500, 3_000, 4_000, 5_000]
    #expect(try await kept(times: times, milliseconds: 1_000) == Array(1...7))
    #expect(try await kept(times: Array(times[1...]), milliseconds: 1_000) == Array(3...6))
    #expect(try await kept(times: [0, 0, 0], milliseconds: 5) == [1, 2, 3])
  }

  @Test func `a listener can resume from the last removed commit, but not from an earlier one`()
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 4
    try await folder.withStore(configuration) { store in
      try store.append(try (1...10).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.checkpoint(json(#"{"n":10}"#), through: 10)
      #expect(try await store.commits(after: 6, through: 10).count == 4)
      #expect(try await store.commits(after: 5, through: 10).count == 4)
    }
  }
}

extension Tree {
  fileprivate static func folded(_ commits: ArraySlice<Commit>) -> Node {
    var tree = Tree()
    for commit in commits { tree.apply(commit.assignments) }
    return tree.root
  }
}
