import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Opening a damaged folder with its undamaged data.
@Suite(.timeLimit(.minutes(20))) struct RepairTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Damages a folder with ten commits, of which the checkpoint has six, and accepts the loss.
  private func accept(after sql: String) async throws -> (root: Node, sequence: Int64) {
    let big = Node(
      children: (0..<20).map { (Key(index: $0), Node(String(repeating: "x", count: 600))) })
    try await folder.withStore { store in
      for number in 1...10 as ClosedRange<Int64> {
        try store.append(
          [commit(number, "n/\(number)", number == 1 ? big : Node(number))], after: number - 1)
        if number == 6 { try await store.checkpoint(try await store.tree().root, through: 6) }
      }
      _ = try await store.insert(
        Account(
          uid: "u", email: "e", emailNormalized: "e", username: "n", passwordHash: "h",
          createdAt: 1,
          isDisabled: false, isPending: false))
      try await store.damage(sql, isSealed: false)
      #expect(try await !store.problems().isEmpty)
    }
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    try await folder.withStore(configuration) { try await $0.acceptLosses() }
    return try await folder.withStore { store in
      #expect(try await store.problems().isEmpty)
      let (root, sequence) = try await store.tree()
      try store.append([commit(sequence + 1, "new", 1)], after: sequence)
      return (root, sequence)
    }
  }

  @Test func `the time of the newest commit that is kept is not that of a lost one`() async throws {
    try await folder.withStore { store in
      for number in 1...10 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
      try await store.damage(
        "UPDATE commits SET body = body || ' ' WHERE sequence = 7", isSealed: false)
    }
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let losses = try await folder.withStore(configuration) { try await $0.acceptLosses() }
    #expect(try losses.keptTime == commit(6, "n", 1).time)
    #expect(try losses.storedTime == commit(10, "n", 1).time)
  }

  /// A branch whose rows take several pages.
  private static let branch = Node(
    children: (0..<40).map { (Key(index: $0), Node(String(repeating: "x", count: 600))) })

  /// Accepts the loss, and expects a sound folder with the whole branch at `/n`.
  private func expectRepaired() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    try await folder.withStore(configuration) { try await $0.acceptLosses() }
    try await folder.withStore { store in
      #expect(try await store.problems().isEmpty)
      let root = try await store.tree().root
      #expect(root.child("n") == Self.branch)
    }
  }

  /// Exchanges the first two rows of each page of a kind that contains a text. Returns the number of these pages.
  private func exchangeRows(kind: UInt8, containing text: String) throws -> Int {
    var data = try Data(contentsOf: URL(filePath: folder.database))
    var count = 0
    for start in stride(from: 4_096, to: data.count, by: 4_096) {
      let page = data[start..<start + 4_096]
      // Behind the head of eight bytes, each row has two bytes with its place in the page.
      guard page[start] == kind, page[start + 4] > 2, page.firstRange(of: Data(text.utf8)) != nil
      else { continue }
      let places = page[start + 8..<start + 12]
      data.replaceSubrange(start + 8..<start + 12, with: places.suffix(2) + places.prefix(2))
      count += 1
    }
    try data.write(to: URL(filePath: folder.database))
    return count
  }

  @Test func `rows of a checkpoint that are out of order in damaged pages are all kept`()
    async throws
  {
    try await folder.withStore { store in
      try store.append([commit(1, "n", Self.branch)], after: 0)
      try await store.checkpoint(try await store.tree().root, through: 1)
    }
    // The rows have no numbers of their own, so the leaves of their table are of the kind 10.
    let changed = try exchangeRows(kind: 10, containing: "xxxxxxxx")
    #expect(changed > 0)
    let problems = try await folder.withStore { try await $0.problems() }
    #expect(!problems.isEmpty)
    try await expectRepaired()
  }

  @Test func `a page in use that the list of free pages has is found before it is overwritten`()
    async throws
  {
    try await folder.withStore { store in
      try store.append([commit(1, "n", Self.branch)], after: 0)
      try await store.checkpoint(try await store.tree().root, through: 1)
      // Leaves free pages.
      try await store.damage(
        "CREATE TABLE other(x); INSERT INTO other VALUES (zeroblob(40000)); DROP TABLE other",
        isSealed: false)
      _ = try await store.tree()
    }
    var data = try Data(contentsOf: URL(filePath: folder.database))
    let inUse = try #require(
      stride(from: 4_096, to: data.count, by: 4_096).first {
        data[$0] == 10 && data[$0..<$0 + 4_096].firstRange(of: Data("xxxxxxxx".utf8)) != nil
      })
    // The first page of the list begins with the number of the next one and the count of free pages.
    let first = Int(data[32..<36].reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
    try #require(first > 1 && data[(first - 1) * 4_096 + 7] > 1)
    let place = (first - 1) * 4_096 + 8
    let number = withUnsafeBytes(of: UInt32(inUse / 4_096 + 1).bigEndian) { Data($0) }
    data.replaceSubrange(place..<place + 4, with: number)
    try data.write(to: URL(filePath: folder.database))

    let error = await #expect(throws: StoreError.self) {
      try await folder.withStore { _ = try await $0.tree() }
    }
    let sentence = error?.sentence ?? ""
    #expect(sentence.contains("the pages of \(folder.database) are damaged"), "\(sentence)")
    try await expectRepaired()
  }

  @Test func `a damaged commit and all later ones are removed`() async throws {
    let (root, sequence) = try await accept(
      after: "UPDATE commits SET body = '[[[\"n/9\"],8]]' WHERE sequence = 9")
    #expect(root.child("n").childCount == 8)
    #expect(sequence >= 10 + NewNumbers.gap)
  }

  @Test
  func
    `a damaged record of the rules is replaced by that of a file, so that a lost file opens nothing`()
    async throws
  {
    try await folder.withStore {
      try await $0.setRulesRecord(RulesRecord(.initial, checksum: "x", sequence: 0))
    }
    _ = try await accept(after: "UPDATE rules_record SET sequence = 1")
    let record = try await folder.withStore { try await $0.rulesRecord() }
    #expect(record == RulesRecord(.file, sequence: 0))
  }

  @Test(arguments: [Int64.min, 0, SequenceRange.max + 1, .max])
  func `a commit with a number that no commit can have is removed`(_ number: Int64) async throws {
    let (root, sequence) = try await accept(
      after: "UPDATE commits SET sequence = \(number) WHERE sequence = 10")
    #expect(root.child("n").childCount == 9)
    #expect(sequence >= 9 + NewNumbers.gap)
  }

  @Test(arguments: [Int64.min, -1, .max], ["checkpoint", "base", "last_commit"])
  func `a number of the checkpoint that no commit can have is not used`(
    _ number: Int64, _ name: String
  ) async throws {
    let (root, _) = try await accept(
      after: "UPDATE meta SET value = \(number) WHERE name = '\(name)';"
        + "UPDATE commits SET body = '[[[\"n/9\"],8]]' WHERE sequence = 9")
    #expect(root.child("n").childCount >= 8)
  }

  // Near the end of the numbers, and far from all numbers that the folder has.
  @Test(arguments: [SequenceRange.max - 5, 1 << 61, 1 << 50], [true, false])
  func `a number after which there is no commit leaves room for new ones`(
    _ number: Int64, hasTail: Bool
  ) async throws {
    try await folder.withStore { store async throws in
      try store.append([commit(1, "n", 1)], after: 0)
      #expect(
        try await store.insert(
          Account(
            uid: "u", email: "e", emailNormalized: "e", username: "n", passwordHash: "h",
            createdAt: 1, isDisabled: false, isPending: false)))
      try await store.damage(
        "UPDATE meta SET value = \(number) WHERE name = 'last_commit'", isSealed: false)
    }
    if !hasTail {
      try FileManager.default.removeItem(atPath: folder.path + "/canopy.tail")
      await #expect(throws: StoreError.self) { try await folder.withStore { _ in } }
    }
    let notes = try await folder.acceptLosses()
    #expect(notes.contains { $0.contains("which no commit can have had") }, "\(notes)")
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      let sequence = try await store.load().sequence
      #expect(sequence < 1 << 50)
      try store.append([commit(sequence + 1, "n", 2)], after: sequence)
    }
  }

  @Test func `a damaged commit that the checkpoint has affects only listeners that resume`()
    async throws
  {
    let (root, sequence) = try await accept(after: "DELETE FROM commits WHERE sequence = 2")
    #expect(root.child("n").childCount == 10)
    #expect(sequence >= 10 + NewNumbers.gap)
  }

  @Test(
    arguments: [
      "UPDATE leaves SET value = '5' WHERE path = 'n/1/3';",
      "DELETE FROM leaves WHERE path = 'n/1/3';",
    ], [true, false])
  func `an altered or missing row is made again by its commit, and without it costs no other row`(
    damage: String, isCommitKept: Bool
  ) async throws {
    let (root, _) = try await accept(
      after: damage + (isCommitKept ? "" : "DELETE FROM commits WHERE sequence <= 6"))
    #expect(root.child("n").childCount == 10)
    #expect(root.at(try Path("n/1")).childCount == (isCommitKept ? 20 : 19))
  }

  @Test(arguments: ["value = value + 3 WHERE name = 'checkpoint'", "value = 0"])
  func `without the numbers of the checkpoint, all existing commits are applied again`(
    change: String
  ) async throws {
    let (root, sequence) = try await accept(after: "UPDATE meta SET " + change)
    #expect(root.child("n").childCount == 10)
    #expect(root.at(try Path("n/1")).childCount == 20)
    #expect(sequence >= 10 + NewNumbers.gap)
  }

  @Test func `an altered account is removed`() async throws {
    let (root, _) = try await accept(after: "UPDATE accounts SET password_hash = 'mine'")
    #expect(root.child("n").childCount == 10)
    #expect(try await folder.withStore { try await $0.account(uid: "u") } == nil)
  }

  @Test func `an undamaged folder is not changed`() async throws {
    try await folder.withStore { try $0.append([commit(1, "n", 1)], after: 0) }
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    try await folder.withStore(configuration) { try await $0.acceptLosses() }
    #expect(try await folder.withStore { try await $0.load().sequence } == 1)
  }
}
