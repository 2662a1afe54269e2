import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// The repair of folders in which a part of the checkpoint is older than the rest, as after the lost write of a page.
/// The older rows and numbers have right checksums.
@Suite(.timeLimit(.minutes(20))) struct OlderRowsTests {
  private static let children: Int64 = 40
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private static func configuration(retainedCommits: Int64 = 100_000) -> SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = retainedCommits
    return configuration
  }

  /// A value that takes a row of its own.
  private static func value(_ number: Int64) -> Node {
    Node("\(number) " + String(repeating: "x", count: 600))
  }

  private func append(_ store: SQLiteStore, _ numbers: ClosedRange<Int64>) throws {
    for number in numbers {
      let place = "a/k\((number - 1) % Self.children + 1)"
      var commit = try commit(number, place, Self.value(number))
      commit.beforeImage = [
        Assignment(
          commit.assignments[0].location,
          number > Self.children ? Self.value(number - Self.children) : .absent)
      ]
      try store.append([commit], after: number - 1)
    }
  }

  private func checkpoint(_ store: SQLiteStore, _ sequence: Int64) async throws {
    try await store.checkpoint(try await store.tree().root, through: sequence)
  }

  /// Accepts the losses, and expects a sound folder. Returns the tree and the notes.
  private func accept() async throws -> (root: Node, notes: [String]) {
    let reading = try SQLiteStore.reading(folder.path)
    let problems = try await reading.problems()
    #expect(!problems.isEmpty)
    try reading.close()
    let notes = try await folder.acceptLosses()
    let root = try await folder.withStore { store async throws in
      let problems = try await store.problems()
      #expect(problems.isEmpty)
      return try await store.tree().root
    }
    return (root, notes)
  }

  // With all commits, with those of the later half of the rows, and with the last one of the checkpoint only.
  @Test(arguments: [(100_000, 1), (20, 61), (0, 80)] as [(Int64, Int64)])
  func `older rows of the checkpoint get the values of all commits that are kept`(
    retained: Int64, firstKept: Int64
  ) async throws {
    let configuration = Self.configuration(retainedCommits: retained)
    try await folder.withStore(configuration) { store in
      try append(store, 1...40)
      try await checkpoint(store, 40)
      try await store.damage(
        "CREATE TABLE kept AS SELECT * FROM leaves WHERE path BETWEEN 'a/k15' AND 'a/k35'",
        isSealed: false)
      #expect(try await store.number("SELECT count(*) FROM kept") > 10)
      try append(store, 41...80)
      try await checkpoint(store, 80)
      try store.append([commit(81, "z", 1)], after: 80)
      #expect(try await store.number("SELECT min(sequence) FROM commits") == firstKept)
      try await store.damage(
        """
        UPDATE leaves SET (value, checksum) =
          (SELECT value, checksum FROM kept WHERE kept.path = leaves.path)
          WHERE path IN (SELECT path FROM kept);
        DROP TABLE kept
        """, isSealed: false)
    }
    let (root, notes) = try await accept()
    var older = 0
    for number in 41...80 as ClosedRange<Int64> {
      let value = root.child("a").child(try Key("k\(number - Self.children)"))
      if value == Self.value(number) { continue }
      older += 1
      #expect(value == Self.value(number - Self.children), "\(number)")
      #expect(number < firstKept, "\(number)")
    }
    #expect((older == 0) == (firstKept == 1), "\(notes)")
    #expect(root.child("z") == 1)
    #expect(
      notes.contains { $0.contains("40 are there, and the sum is that of 40") }, "\(notes)")
    let loss =
      firstKept == 1
      ? "only the stored form of these rows"
      : "the values of these rows that were last written before commit \(firstKept) of 1970-01-01"
    #expect(notes.contains { $0.hasPrefix(loss) }, "\(notes)")
  }

  @Test func `a row that is above newer ones gives way to them`() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "a", json(#"{"k0":"first"}"#))], after: 0)
      try await checkpoint(store, 1)
      #expect(try await store.leaves().keys.contains("a"))
      try await store.damage(
        "CREATE TABLE kept AS SELECT * FROM leaves WHERE path = 'a'", isSealed: false)
      try append(store, 2...40)
      try await checkpoint(store, 40)
      // So the commits do not have the values of the newer rows.
      try await store.damage(
        """
        INSERT INTO leaves SELECT * FROM kept;
        DROP TABLE kept;
        DELETE FROM commits WHERE sequence < 40
        """, isSealed: false)
    }
    let (root, notes) = try await accept()
    #expect(notes.contains { $0.contains("contradict others") && $0.hasSuffix(" /a") }, "\(notes)")
    for number in 2...40 as ClosedRange<Int64> {
      #expect(root.at(try Path("a/k\(number)")) == Self.value(number), "\(number)")
    }
  }

  @Test func `older rows below a newer one are removed by the commit that replaced them`()
    async throws
  {
    try await folder.withStore { store in
      try append(store, 1...40)
      try await checkpoint(store, 40)
      try await store.damage("CREATE TABLE kept AS SELECT * FROM leaves", isSealed: false)
      try store.append([commit(41, "a", json(#"{"n":1}"#))], after: 40)
      try await checkpoint(store, 41)
      try await store.damage(
        "INSERT INTO leaves SELECT * FROM kept WHERE path <> 'a'; DROP TABLE kept", isSealed: false)
    }
    let (root, notes) = try await accept()
    #expect(root == json(#"{"a":{"n":1}}"#), "\(notes)")
  }

  /// Returns SQL that puts the present numbers of the checkpoint back.
  private func numbers(_ store: SQLiteStore) async throws -> String {
    let values = try await store.pool.read { db in
      try Row.fetchAll(db, sql: "SELECT name, value FROM meta").map { row in
        "('\(row[0] as String)', \(row[1] as Int64))"
      }
    }
    return "DELETE FROM meta; INSERT INTO meta VALUES \(values.joined(separator: ", "));"
  }

  /// The commits that a retention has removed before the numbers became older again.
  enum Removed: String, CaseIterable {
    case none = ""
    case partOfCheckpoint = "DELETE FROM commits WHERE sequence <= 75"
    case checkpoint = "DELETE FROM commits WHERE sequence <= 80"
  }

  @Test(arguments: Removed.allCases)
  func `an older number of the checkpoint takes no commit away`(removed: Removed) async throws {
    try await folder.withStore { store in
      try append(store, 1...30)
      try await checkpoint(store, 30)
      let older = try await numbers(store)
      try append(store, 31...80)
      try await checkpoint(store, 80)
      try append(store, 81...100)
      try await store.damage(older + removed.rawValue, isSealed: false)
    }
    let (root, notes) = try await accept()
    for number in 61...100 as ClosedRange<Int64> {
      let key = try Key("k\((number - 1) % Self.children + 1)")
      #expect(root.child("a").child(key) == Self.value(number), "\(number): \(notes)")
    }
    let first = removed == .partOfCheckpoint ? 75 : 80
    let gap = "the commits from 31 to \(first), which the checkpoint seems to contain"
    #expect(notes.contains { $0.hasPrefix(gap) } == (removed != .none), "\(notes)")
  }

  @Test func `missing rows do not make a number of the checkpoint an older one`() async throws {
    try await folder.withStore { store in
      try append(store, 1...40)
      try await checkpoint(store, 40)
      try append(store, 41...80)
      try await store.damage(
        """
        DELETE FROM leaves WHERE path = 'a/k12';
        DELETE FROM commits WHERE sequence BETWEEN 50 AND 55
        """, isSealed: false)
    }
    let (root, notes) = try await accept()
    for number in 10...49 as ClosedRange<Int64> {
      let key = try Key("k\((number - 1) % Self.children + 1)")
      #expect(root.child("a").child(key) == Self.value(number), "\(number): \(notes)")
    }
    #expect(notes.contains { $0.hasPrefix("the commits from 50 to 80; the values") }, "\(notes)")
  }

  /// Appends pairs of commits, the second of which takes back the first.
  private func appendPairs(_ store: SQLiteStore, _ count: Int64, after last: Int64) throws {
    for number in last + 1...last + 2 * count {
      let isFirst = (number - last) % 2 == 1
      let (value, before): (Node, Node) = isFirst ? (1, .absent) : (.absent, 1)
      var commit = try commit(number, "t/\((number - last - 1) / 2)", value)
      commit.beforeImage = [Assignment(commit.assignments[0].location, before)]
      try store.append([commit], after: number - 1)
    }
  }

  @Test(arguments: [true, false])
  func `commits that take each other back do not show that the checkpoint contains them`(
    isNumberLost: Bool
  ) async throws {
    try await folder.withStore { store in
      try append(store, 1...40)
      try await checkpoint(store, 40)
      try append(store, 41...42)
      try appendPairs(store, 8, after: 42)
      let loss =
        isNumberLost
        ? "UPDATE meta SET value = value + 1 WHERE name = 'leaf_sum'"
        : "DELETE FROM leaves WHERE path = 'a/k12'"
      try await store.damage(
        loss + "; UPDATE commits SET time = time + 1 WHERE sequence = 42", isSealed: false)
    }
    let (root, notes) = try await accept()
    for number in 2...41 as ClosedRange<Int64> {
      let key = try Key("k\((number - 1) % Self.children + 1)")
      #expect(root.child("a").child(key) == Self.value(number), "\(number): \(notes)")
    }
    #expect(notes.contains { $0.hasPrefix("the commits from 42 to 58; the values") }, "\(notes)")
  }

  @Test func `rows of an interrupted checkpoint do not make its number an older one`()
    async throws
  {
    struct Planned: Error {}
    var configuration = Self.configuration()
    configuration.checkpointStepRows = 1
    let steps = Steps()
    // The checkpoint of the first 40 commits, and 15 of the next 20 rows.
    try await folder.withStore { store in
      try append(store, 1...40)
      try await checkpoint(store, 40)
    }
    configuration.afterStep = { if steps.next() == 15 { throw Planned() } }
    try await folder.withStore(configuration) { store in
      try append(store, 41...60)
      await #expect(throws: Planned.self) { try await checkpoint(store, 60) }
      try await store.damage(
        """
        DELETE FROM leaves WHERE path = 'a/k30';
        DELETE FROM commits WHERE sequence = 50
        """, isSealed: false)
    }
    let (root, notes) = try await accept()
    for number in 10...49 as ClosedRange<Int64> {
      let key = try Key("k\((number - 1) % Self.children + 1)")
      #expect(root.child("a").child(key) == Self.value(number), "\(number): \(notes)")
    }
    #expect(notes.contains { $0.hasPrefix("the commits from 50 to 60; the values") }, "\(notes)")
  }
}
