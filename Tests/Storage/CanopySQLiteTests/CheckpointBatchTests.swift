import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import GRDB
import Synchronization
import Testing

@testable import CanopySQLite

/// Checkpoints that fold commits in batches, and rest in between.
@Suite(.timeLimit(.minutes(20))) struct CheckpointBatchTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Returns the last commit of each batch, for commits with the given locations.
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
          var batch = CheckpointBatch(
            after: ends.last ?? 0, through: Int64(all.count), locationsMax: locationsMax)
          while !batch.isFull { batch.add(try CheckpointBatch.read(db, batch.nextCommits)) }
          ends.append(batch.sequence)
        }
        return ends
      }
    }
  }

  @Test func `a batch ends with the commit that reaches the number of locations`() async throws {
    let apart = (1...6).map { ["n/\($0)"] }
    #expect(try await ends(apart, locationsMax: 5) == [5, 6])
    #expect(try await ends(apart, locationsMax: 6) == [6])
    #expect(try await ends(apart, locationsMax: 1) == [1, 2, 3, 4, 5, 6])
    #expect(try await ends(apart.map { $0 + ["m"] }, locationsMax: 3) == [2, 4, 6])
  }

  @Test func `a batch advances even without room for a location`() {
    for locationsMax in [-1, 0, 1] {
      let batch = CheckpointBatch(after: 3, through: 6, locationsMax: locationsMax)
      #expect(!batch.isFull && batch.nextCommits == 4...6)
    }
  }

  @Test func `a batch ends with the commit that reaches the number of keys`() async throws {
    // Paths of seven keys; a batch of at most three locations may have twelve keys and one commit more.
    let deep = (1...6).map { ["a/b/c/d/e/f/\($0)"] }
    #expect(try await ends(deep, locationsMax: 3) == [2, 4, 6])
    #expect(try await ends(deep, locationsMax: 4) == [2, 4, 6])
    #expect(try await ends(deep, locationsMax: 5) == [3, 6])
  }

  @Test func `a read ends with the commit that reaches the number of keys`() async throws {
    let keys: [Key] = (0..<30).map { Key(index: $0) }
    let locations = try (0..<Int32(1_000)).map { Location(try Path(keys + [Key(index: $0)])) }
    try await folder.withStore { store in
      let all = (1...12).map { number in
        Commit(
          sequence: Int64(number), time: 1, assignments: locations.map { Assignment($0, 1) })
      }
      try store.append(all, after: 0)
      try await store.pool.read { db in
        // Each commit has 32,000 keys.
        #expect(try CheckpointBatch.read(db, 1...12).entries.map(\.sequence) == [1, 2, 3, 4, 5])
        var batch = CheckpointBatch(after: 0, through: 12, locationsMax: 250_000)
        var reads: [Int] = []
        while !batch.isFull {
          let reading = try CheckpointBatch.read(db, batch.nextCommits)
          reads.append(reading.entries.count)
          batch.add(reading)
        }
        #expect(reads == [5, 5, 2] && batch.sequence == 12 && batch.locations.count == 1_000)
      }
    }
  }

  @Test func `locations that are written repeatedly count once`() async throws {
    let commits = (1...2_500).map { ["stars/\($0 % 3)"] }
    #expect(try await ends(commits, locationsMax: 4) == [2_500])
    #expect(try await ends(commits + [["a"], ["b"]], locationsMax: 4) == [2_501, 2_502])
  }

  @Test func `each batch advances the checkpoint, and a crash does not undo it`()
    async throws
  {
    let crashes = Crashes()
    var configuration = crashes.configuration(of: folder)
    configuration.checkpointBatchLocations = 2
    let root = try await folder.withStore(configuration) { store in
      // Each commit writes its location and that of the commit before, so that batches share locations.
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

  @Test func `a checkpoint rests after every read, step and removal, and appends continue`()
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.checkpointStepRows = 2
    configuration.retainedCommits = 1
    let steps = Steps()
    let rests = Steps()
    configuration.afterStep = { _ = steps.next() }
    try await folder.withStore(configuration) { store in
      let count = 2 * CheckpointBatch.readCommits + 1
      let all = try (1...count).map { try commit($0, "n/\($0 % 7)", Node($0)) }
      try store.append(all, after: 0)
      let (root, _) = try await store.tree()
      try await store.checkpoint(root, through: count) {
        let last = count + Int64(rests.next())
        do { try store.append([commit(last, "m", 1)], after: last - 1) } catch {
          Issue.record(error)
        }
      }
      // All steps except the one that advances the number of the checkpoint.
      let readings = 3
      #expect(rests.next() - 1 == readings + (steps.next() - 2))
      #expect(try await store.tree().root.child("n") == root.child("n"))
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a checkpoint does not skip a missing commit`() async throws {
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
