import CanopyEngine
import CanopyTesting
import CanopyTree
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// Checkpoints that fold commits a portion at a time, and rest in between.
@Suite(.timeLimit(.minutes(5))) struct PortionTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// The last commits of the portions that some commits, of these places each, come in.
  private func ends(_ commits: [[String]], locationsMax: Int) async throws -> [Int64] {
    let folder = try Folder()
    return try await folder.withStore { store in
      let all = try commits.enumerated().map { index, places in
        Commit(
          sequence: Int64(index + 1), time: 1,
          assignments: try places.map { Assignment(try Path($0), 1) })
      }
      try store.append(all, after: 0)
      return try await store.pool.read { db in
        var ends: [Int64] = []
        while ends.last ?? 0 < Int64(all.count) {
          var portion = Portion(
            after: ends.last ?? 0, through: Int64(all.count), locationsMax: locationsMax)
          while !portion.isWhole { portion.add(try Portion.read(db, portion.nextCommits)) }
          ends.append(portion.sequence)
        }
        return ends
      }
    }
  }

  @Test func `a portion ends with the commit that makes it as many places`() async throws {
    let apart = (1...6).map { ["n/\($0)"] }
    #expect(try await ends(apart, locationsMax: 5) == [5, 6])
    #expect(try await ends(apart, locationsMax: 6) == [6])
    #expect(try await ends(apart, locationsMax: 1) == [1, 2, 3, 4, 5, 6])
    #expect(try await ends(apart.map { $0 + ["m"] }, locationsMax: 3) == [2, 4, 6])
  }

  @Test func `a portion comes further, however few places it may have`() {
    for locationsMax in [-1, 0, 1] {
      let portion = Portion(after: 3, through: 6, locationsMax: locationsMax)
      #expect(!portion.isWhole && portion.nextCommits == 4...6)
    }
  }

  @Test func `places that are written again and again count once`() async throws {
    let commits = (1...2_500).map { ["stars/\($0 % 3)"] }
    #expect(try await ends(commits, locationsMax: 4) == [2_500])
    #expect(try await ends(commits + [["a"], ["b"]], locationsMax: 4) == [2_501, 2_502])
  }

  @Test func `with each portion the checkpoint has come further, and a crash loses none of it`()
    async throws
  {
    let crashes = Crashes()
    var configuration = crashes.configuration(of: folder)
    configuration.checkpointPortionLocations = 2
    let root = try await folder.withStore(configuration) { store in
      // Each writes a place and the one before it again, so that portions share places.
      for sequence in 1...7 as ClosedRange<Int64> {
        let assignments = [sequence - 1, sequence].map {
          Assignment(Path.root.child(Key(index: Int32($0))), Node(sequence))
        }
        let commit = Commit(sequence: sequence, time: 1, assignments: assignments)
        try store.append([commit], after: sequence - 1)
      }
      let (root, sequence) = try await store.tree()
      #expect(sequence == 7)
      try await store.checkpoint(root, through: 7)
      #expect(try await store.checkpointRoot() == root)
      return root
    }
    var checkpoints: [Int64] = []
    for crashed in crashes.folders {
      try await crashed.withStore { store in
        let state = try await store.load()
        #expect(state.tree.root == root)
        #expect(state.sequence == 7)
        checkpoints.append(state.checkpoint)
        #expect(try await store.problems().isEmpty)
      }
    }
    #expect(Set(checkpoints) == [0, 1, 2, 3, 4, 5, 6, 7])
    #expect(checkpoints == checkpoints.sorted())
  }

  @Test func `it rests after every reading, step and deletion, and appends go on`() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 2
    configuration.retainedCommits = 1
    let steps = Steps()
    let rests = Steps()
    configuration.afterStep = { _ = steps.next() }
    try await folder.withStore(configuration) { store in
      let count = 2 * Portion.readCommits + 1
      let all = try (1...count).map { try commit($0, "n/\($0 % 7)", Node($0)) }
      try store.append(all, after: 0)
      let (root, _) = try await store.tree()
      try await store.checkpoint(root, through: count) {
        let last = count + Int64(rests.next())
        do { try store.append([commit(last, "m", 1)], after: last - 1) } catch {
          Issue.record(error)
        }
      }
      // All steps but the one that notes how far the checkpoint came.
      let readings = 3
      #expect(rests.next() - 1 == readings + (steps.next() - 2))
      #expect(try await store.tree().root.child("n") == root.child("n"))
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a checkpoint does not pass over a commit that is missing`() async throws {
    try await folder.withStore { store in
      try store.append(try (1...5).map { try commit($0, "n", Node($0)) }, after: 0)
      try await store.damage("DELETE FROM commits WHERE sequence = 3")
      let error = await #expect(throws: StoreError.self) {
        try await store.checkpoint(json(#"{"n":5}"#), through: 5)
      }
      expectAdvice(error, mentions: "commit 3", "backup")
      #expect(try await store.number("SELECT value FROM meta WHERE name = 'checkpoint'") == 0)
    }
  }
}
