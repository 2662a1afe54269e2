import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The repair of folders that have lost the number of the checkpoint, or a checksum in the chain of commits.
@Suite(.timeLimit(.minutes(20))) struct LostCheckpointTests {
  private static let commits: Int64 = 120
  private static let checkpoint: Int64 = 80
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Each commit writes a location of its own, and the same counter.
  private func fill(checkpoint: Int64 = Self.checkpoint, hasImages: Bool = true) async throws {
    try await folder.withStore { store in
      for number in 1...Self.commits {
        var commit = try commit(number, "n/\(number)", Node(number))
        commit.assignments.append(Assignment(try Location("count"), Node(number)))
        if hasImages {
          commit.beforeImage = [
            Assignment(commit.assignments[0].location, .absent),
            Assignment(
              commit.assignments[1].location, number == 1 ? .absent : Node(number - 1)),
          ]
        }
        try store.append([commit], after: number - 1)
        guard number == checkpoint else { continue }
        try await store.checkpoint(try await store.tree().root, through: number)
      }
    }
  }

  /// Damages the folder and accepts the losses. Returns the counter, the number of the other values, and the notes.
  private func accept(
    _ sql: String, isMetaLost: Bool = true
  ) async throws -> (count: Node, values: Int, notes: [String]) {
    try await folder.withStore { store async throws in
      // The numbers are lost, and that the rows have checksums is not.
      let meta = isMetaLost ? "; UPDATE meta SET value = 0" : ""
      try await store.damage(sql + meta, isSealed: false)
    }
    let notes = try await folder.acceptLosses()
    return try await folder.withStore { store in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      let root = try await store.tree().root
      return (root.child("count"), root.child("n").childCount, notes)
    }
  }

  @Test(arguments: [true, false])
  func `commits that are missing before the checkpoint take no value back`(hasImages: Bool)
    async throws
  {
    try await fill(hasImages: hasImages)
    let (count, values, notes) = try await accept(
      "DELETE FROM commits WHERE sequence BETWEEN 20 AND 30")
    #expect(count == 120 && values == 120)
    #expect(
      notes.contains { $0.hasPrefix("the commits from 20 to 30, which the checkpoint") }, "\(notes)"
    )
  }

  @Test(arguments: [true, false])
  func `commits that are missing after the checkpoint end the journal before them`(hasImages: Bool)
    async throws
  {
    try await fill(hasImages: hasImages)
    let (count, values, notes) = try await accept(
      "DELETE FROM commits WHERE sequence BETWEEN 100 AND 110")
    #expect(count == 99 && values == 99)
    #expect(notes.contains { $0.hasPrefix("the commits from 100 to 120; the values") }, "\(notes)")
  }

  @Test(arguments: [true, false])
  func `a checkpoint that is newer than the last commit is kept as it is`(hasImages: Bool)
    async throws
  {
    try await fill(checkpoint: Self.commits, hasImages: hasImages)
    let (count, values, notes) = try await accept("DELETE FROM commits WHERE sequence > 110")
    #expect(count == 120 && values == 120)
    #expect(notes.contains { $0.contains("from 111 to 120") }, "\(notes)")
  }

  @Test func `without a checkpoint all commits up to the first missing one are applied`()
    async throws
  {
    try await fill(checkpoint: 0)
    let (count, values, _) = try await accept("DELETE FROM commits WHERE sequence = 51")
    #expect(count == 50 && values == 50)
  }

  @Test func `an altered commit is not applied, and ends the journal`() async throws {
    try await fill()
    let (count, values, _) = try await accept(
      "UPDATE commits SET body = '[[[\"count\"],7]]' WHERE sequence = 90")
    #expect(count == 89 && values == 89)
  }

  @Test(arguments: [79, 80, 81, 100, 119, 120], [true, false])
  func `a commit of which only the checksum is altered is kept with all others`(
    sequence: Int64, isMetaLost: Bool
  ) async throws {
    try await fill()
    let (count, values, _) = try await accept(
      "UPDATE commits SET checksum = checksum + 1 WHERE sequence = \(sequence)",
      isMetaLost: isMetaLost)
    #expect(count == 120 && values == 120)
  }

  @Test func `the last commit of the checkpoint can be missing without the loss of later ones`()
    async throws
  {
    try await fill()
    let (count, values, notes) = try await accept(
      "DELETE FROM commits WHERE sequence BETWEEN 60 AND 80", isMetaLost: false)
    #expect(count == 120 && values == 120)
    #expect(notes.contains { $0.hasPrefix("the proof that commit 81 is as it was") }, "\(notes)")
  }
}
