internal import CanopyEngine
internal import CanopyTree
internal import Testing

/// The requirements of the history and of the retention of commits, the same for every store.
package enum HistoryContract<Fixture: StoreFixture> {
  /// The checks.
  package static var checks: [ContractCheck<Fixture>] {
    [
      ContractCheck("commits have their before-images, also after a restart", checkImages),
      ContractCheck(
        "a range has the commits after its start, up to and including its end", checkRanges),
      ContractCheck(
        "a page is bounded by bytes and commits, and has only the requested commits", checkPages),
      ContractCheck(
        "a large before-image is not stored, and the commit is read without it", checkLargeImage),
      ContractCheck("a listener resumes at the next engine on the same data", checkResuming),
      ContractCheck("exactly the configured number of commits is kept", checkKeptCommits),
      ContractCheck(
        "commits within the configured milliseconds before the last are kept, including the bound",
        checkKeptTime),
      ContractCheck("both limits apply at once, and the last commit always stays", checkBothLimits),
      ContractCheck("commits that the checkpoint does not have are kept", checkUnfolded),
      ContractCheck(
        "a clock that was set back removes no commit that must be kept, and leaves no gap",
        checkClock),
    ]
  }

  private static func checkImages(_ fixture: Fixture) async throws {
    let random = SeededGenerator(printingSeedFor: "HistoryContract.images")
    let before = try await fixture.withStore { store in
      try await store.makeRandomCommits(200, random)
      let commits = try await store.wholeHistory()
      #expect(commits.map(\.sequence) == Array(1...200))
      try checkBeforeImages(of: commits)
      return commits
    }
    for _ in 0..<2 {
      try await fixture.withStore { store in
        #expect(try await store.wholeHistory(through: 200) == before)
        let state = try await store.load()
        try await store.checkpoint(state.tree.root, through: state.sequence)
        #expect(try await store.wholeHistory(through: 200) == before, "folded or not")
        #expect(try await fixture.problems(of: store).isEmpty)
      }
    }
  }

  private static func checkRanges(_ fixture: Fixture) async throws {
    var random = SeededGenerator(printingSeedFor: "HistoryContract.ranges")
    var settings = StoreSettings()
    settings.retainedCommits = 15
    try await fixture.withStore(settings) { store in
      let commits = try (1...20).map { try contractCommit($0, "n", Node($0)) }
      try await store.append(commits, after: 0)
      try await store.checkpoint(commits.folded(), through: 20)
      func numbers(_ after: Int64, _ through: Int64) async throws -> [Int64] {
        try await store.wholeHistory(after: after, through: through).map(\.sequence)
      }
      for _ in 0..<100 {
        let first = Int64.random(in: -3...23, using: &random)
        let last = Int64.random(in: -3...23, using: &random)
        let expected = (6...20).filter { $0 > first && $0 <= last }
        #expect(try await numbers(first, last) == expected, "(\(first), \(last)]")
      }
      #expect(try await numbers(5, 20) == Array(6...20))
      #expect(try await numbers(19, 20) == [20])
      #expect(try await numbers(20, 20) == [])
      #expect(try await numbers(20, .max) == [])
      #expect(try await numbers(.min, .max) == Array(6...20))
      #expect(try await numbers(10, 9) == [])
    }
  }

  private static func checkPages(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      let large = Node(String(repeating: "x", count: 400_000))
      try await store.append(try (1...7).map { try contractCommit($0, "large", large) }, after: 0)
      try await store.append(try (8...10).map { try contractCommit($0, "a/b", Node($0)) }, after: 7)
      let place = try Path("a")
      func page(_ first: Int64, _ last: Int64) async throws -> HistoryPage {
        try await store.history(after: first, through: last) { locations in
          locations.contains { $0.path.hasPrefix(place) }
        }
      }
      var page1 = try await page(0, 10)
      #expect(page1.read == 5...10)
      #expect(page1.commits.map(\.sequence) == [10, 9, 8])
      #expect((HistoryPage.bytesMax...HistoryPage.bytesMax + 401_000).contains(page1.bytes))
      page1 = try await page(0, 4)
      #expect(page1.read == 2...4)
      #expect(page1.commits.isEmpty)
      #expect(try await page(3, 4).read == 4...4)
      #expect(try await page(10, 20).read == nil)
      #expect(try await page(8, 20).read == 9...10)
      let last = Int64(10 + HistoryPage.commitsMax + 5)
      try await store.append(
        try (11...last).map { try contractCommit($0, "n", Node($0)) }, after: 10)
      #expect(try await page(0, last).read == last - Int64(HistoryPage.commitsMax) + 1...last)
    }
  }

  private static func checkLargeImage(_ fixture: Fixture) async throws {
    try await fixture.withStore { store in
      let text = Node(String(repeating: "x", count: BeforeImageCodec.bytesMax))
      try await withEngine(store) { engine in
        for value in [text, 1, .absent] {
          _ = try await engine.transact { _ in
            Decision(try .set(Location("n"), WriteValue(value)), ())
          }
        }
      }
      let commits = try await store.wholeHistory(through: 3)
      #expect(commits.map(\.assignments.first?.value) == [text, 1, .absent])
      #expect(commits.map { $0.beforeImage?.map(\.value) } == [[.absent], nil, [1]])
    }
  }

  private static func checkResuming(_ fixture: Fixture) async throws {
    var random = SeededGenerator(printingSeedFor: "HistoryContract.resuming")
    let replicas = try (0..<40).map { _ in Replica(try .random(&random, keysMax: 5)) }
    let random0 = random
    for run in 0..<6 {
      var settings = StoreSettings()
      settings.stepRows = 20
      var engineConfiguration = Engine.Configuration()
      engineConfiguration.checkpointEvery = 25
      let configuration = engineConfiguration
      try await fixture.withStore(settings) { store in
        try await withEngine(store, configuration: configuration) { engine in
          for replica in replicas { try await replica.check(run, engine) }
        }
        // Written while the listeners are disconnected.
        var seeds = random0
        for _ in 0...run { seeds = SeededGenerator(seed: seeds.next()) }
        try await store.makeRandomCommits(40, seeds)
      }
    }
  }
}

/// Retention.
extension HistoryContract {
  /// Returns the sequence numbers that remain after a checkpoint, for commits with the given times.
  private static func kept(
    times: [Int64], commits: Int64 = 1_000_000, milliseconds: Int64 = .max,
    through sequence: Int64? = nil
  ) async throws -> [Int64] {
    var settings = StoreSettings()
    settings.retainedCommits = commits
    settings.retainedMilliseconds = milliseconds
    let fixture = try await Fixture()
    return try await fixture.withStore(settings) { store in
      let all = try times.enumerated().map { index, time in
        Commit(
          sequence: Int64(index + 1), time: time,
          assignments: [Assignment(try Path("n\(index % 3)"), Node(Int64(index)))])
      }
      try await store.append(all, after: 0)
      let through = sequence ?? Int64(times.count)
      try await store.checkpoint(all[..<Int(through)].folded(), through: through)
      #expect(try await fixture.problems(of: store).isEmpty)
      #expect(try await store.load().tree.root == all.folded())
      return try await store.wholeHistory().map(\.sequence)
    }
  }

  private static var ten: [Int64] { (1...10).map { Int64($0 * 1_000) } }

  private static func checkKeptCommits(_ fixture: Fixture) async throws {
    for count in 1...12 as ClosedRange<Int64> {
      #expect(try await kept(times: ten, commits: count) == Array(max(1, 11 - count)...10))
    }
  }

  private static func checkKeptTime(_ fixture: Fixture) async throws {
    for (milliseconds, first) in [
      (0, 10), (999, 10), (1_000, 9), (1_001, 9), (3_999, 7), (4_000, 6), (9_000, 1),
      (100_000, 1), (.max, 1),
    ] as [(Int64, Int64)] {
      #expect(
        try await kept(times: ten, milliseconds: milliseconds) == Array(first...10),
        "\(milliseconds)")
    }
  }

  private static func checkBothLimits(_ fixture: Fixture) async throws {
    #expect(try await kept(times: ten, commits: 4, milliseconds: 2_000) == [8, 9, 10])
    #expect(try await kept(times: ten, commits: 2, milliseconds: 5_000) == [9, 10])
    #expect(try await kept(times: ten, commits: 0, milliseconds: 0) == [10])
    #expect(try await kept(times: [5], commits: 0, milliseconds: 0) == [1])
  }

  private static func checkUnfolded(_ fixture: Fixture) async throws {
    for through in 1...10 as ClosedRange<Int64> {
      let expected = Array(min(through + 1, 10)...10)
      #expect(
        try await kept(times: ten, commits: 1, milliseconds: 0, through: through) == expected)
    }
  }

  private static func checkClock(_ fixture: Fixture) async throws {
    // Removed from the oldest on, up to the first that is kept.
    let times: [Int64] = [9_000, 1_000, 2_000, 9_500, 3_000, 4_000, 5_000]
    #expect(try await kept(times: times, milliseconds: 1_000) == Array(1...7))
    #expect(try await kept(times: Array(times[1...]), milliseconds: 1_000) == Array(3...6))
    #expect(try await kept(times: [0, 0, 0], milliseconds: 5) == [1, 2, 3])
  }
}
