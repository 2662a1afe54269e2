import CanopyAccounts
import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Copies of a database beside a running server.
@Suite(.timeLimit(.minutes(20))) struct DatabaseCopyTests {
  let folder: Folder
  let copy: Folder

  init() throws {
    folder = try Folder()
    copy = try Folder()
  }

  /// Appends commits of 2 KB each, and leaves some of them in the log.
  private func fill(_ store: SQLiteStore, upTo last: Int64) throws {
    let text = String(repeating: "x", count: 2_000)
    for number in 1...last as ClosedRange<Int64> {
      try store.append([commit(number, "n/\(number)", Node(text))], after: number - 1)
    }
  }

  private func append(_ store: SQLiteStore, after last: Int64) throws {
    try store.append([commit(last + 1, "later/\(last + 1)", Node(true))], after: last)
  }

  @Test func `a pipe in place of canopy.tail is refused without waiting for its other end`()
    async throws
  {
    try await folder.withStore { try fill($0, upTo: 3) }
    let tail = folder.file("canopy.tail")
    try FileManager.default.removeItem(atPath: tail)
    try #require(mkfifo(tail, 0o600) == 0)
    for isServed in [true, false] {
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore.copyDatabase(
          of: folder.path, isServed: isServed, to: copy.file("\(isServed)"))
      }
      expectAdvice(error, mentions: "canopy.tail is not a regular file")
    }
    #expect(throws: StoreError.self) {
      try TailFile(folder: folder.path, isRelaxed: false).read()
    }
    #expect(try copy.files().isEmpty)
  }

  @Test func `a copy is the state after one commit, though each of its steps waits for an append`()
    async throws
  {
    try await folder.withStore { store in
      try fill(store, upTo: 300)
      let before = try await store.tree().root
      var steps: [DatabaseCopy.Progress] = []
      var last: Int64 = 300
      let copied = try SQLiteStore.copyDatabase(
        of: folder.path, isServed: true, to: copy.path, pagesPerStep: 8
      ) { step in
        steps.append(step)
        // The append would wait forever if the step held the writer.
        try append(store, after: last)
        last += 1
      }
      #expect(copied.sequence == 300)
      #expect(copied.time == 1_300)
      #expect(steps.count > 10 && last == 300 + Int64(steps.count))
      // No step copies more pages than the bound, and only the last one copies fewer.
      let pages = [0] + steps.map(\.pages)
      let sizes = zip(pages.dropFirst(), pages).map { $0 - $1 }
      #expect(sizes.dropLast().allSatisfy { $0 == 8 } && (sizes.last ?? 0) <= 8, "\(sizes)")
      #expect(Set(steps.map(\.pagesMax)).count == 1)
      try await copy.withStore { copied async throws in
        #expect(try await copied.tree() == (before, 300))
        #expect(try await copied.problems().isEmpty)
      }
      #expect(try await store.tree().sequence == last)
    }
    #expect(try await folder.withStore { try await $0.problems() }.isEmpty)
  }

  /// The fields of `canopy.tail`.
  enum Field: CaseIterable {
    case sequence, checksum, revision
  }

  @Test(arguments: Field.allCases, [false, true])
  func `a copy of a served folder without changes that canopy.tail has is refused`(
    field: Field, isOpen: Bool
  ) async throws {
    func alterTail() throws {
      let file = TailFile(folder: folder.path, isRelaxed: false)
      var tail = try #require(try file.read()).tail
      switch field {
      case .sequence: tail.sequence += 1
      case .checksum: tail.checksum.add(1)
      case .revision: tail.revision += 1
      }
      try file.open(creatingWith: tail)
      file.write(tail)
      file.close()
    }
    func expectRefusal() throws {
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore.copyDatabase(of: folder.path, isServed: true, to: copy.path)
      }
      expectAdvice(error, mentions: folder.path)
      #expect(error?.sentence.contains("stored") == true)
    }
    try await folder.withStore { store in
      try fill(store, upTo: 3)
      guard isOpen else { return }
      try alterTail()
      try expectRefusal()
    }
    guard !isOpen else { return }
    try alterTail()
    try expectRefusal()
  }

  @Test func `a copy stays consistent while the log is copied and restarted`() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.logFramesMax = 20
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      try fill(store, upTo: 200)
      var last: Int64 = 200
      let copied = try SQLiteStore.copyDatabase(
        of: folder.path, isServed: true, to: copy.path, pagesPerStep: 16
      ) { _ in
        for _ in 0..<30 {
          try append(store, after: last)
          last += 1
        }
        copier.queue.sync {}
      }
      #expect(copied.sequence == 200 && last >= 400)
      #expect(try await copy.withStore { try await $0.tree().sequence } == 200)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `accounts, sessions and on-disconnect writes are those of the same moment`()
    async throws
  {
    try await folder.withStore { store in
      _ = try await store.insert(.ada, token: nil)
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
      try fill(store, upTo: 50)
      var isFirst = true
      let addresses = [Account.ada.emailNormalized, Account.bob.emailNormalized]
      _ = try SQLiteStore.copyDatabase(
        of: folder.path, isServed: true, to: copy.path, pagesPerStep: 8
      ) { _ in
        guard isFirst else { return }
        isFirst = false
        try store.pool.write { try $0.execute(sql: "DELETE FROM disconnect_writes") }
        try append(store, after: 50)
      }
      try await copy.withStore { copied in
        let contents = try await StoredContents(copied, addresses)
        #expect(contents.byAddress == [.ada, nil])
        #expect(contents.disconnectWrites.count == 1 && contents.sequence == 50)
      }
    }
  }

  @Test func `a folder without a server is copied, and one in use is refused`() async throws {
    try await folder.withStore { store in
      try fill(store, upTo: 3)
      #expect(throws: StoreError.self) {
        try SQLiteStore.copyDatabase(of: folder.path, isServed: false, to: copy.path)
      }
    }
    let copied = try SQLiteStore.copyDatabase(of: folder.path, isServed: false, to: copy.path)
    #expect(copied.sequence == 3)
    #expect(try copy.files() == ["canopy.sqlite"])
  }

  @Test func `commits of a crash that are only in the log are in the copy`() async throws {
    let crashed = try await folder.withStore { store in
      try fill(store, upTo: 20)
      return try folder.crashed()
    }
    for isServed in [false, true] {
      let copy = try Folder()
      let copied = try SQLiteStore.copyDatabase(
        of: crashed.path, isServed: isServed, to: copy.path)
      #expect(copied.sequence == 20)
    }
    #expect(try await crashed.withStore { try await $0.tree().sequence } == 20)
  }

  @Test(arguments: [true, false])
  func `a copy of a database that has lost commits is refused`(isServed: Bool) async throws {
    let crashed = try await folder.withStore { store in
      try fill(store, upTo: 20)
      return try folder.crashed()
    }
    let log = crashed.database + "-wal"
    let handle = try FileHandle(forUpdating: URL(filePath: log))
    let size = try handle.seekToEnd()
    try handle.truncate(atOffset: size - 4_120 * 4)
    try handle.close()
    #expect {
      try SQLiteStore.copyDatabase(of: crashed.path, isServed: isServed, to: copy.path)
    } throws: {
      ($0 as? StoreError)?.sentence.contains("are missing") ?? false
    }
  }

  @Test func `a copy of a database with an altered row is refused`() async throws {
    try await folder.withStore { store in
      try fill(store, upTo: 20)
      try await store.damage("UPDATE commits SET time = 5 WHERE sequence = 7", isSealed: false)
      #expect {
        try SQLiteStore.copyDatabase(of: folder.path, isServed: true, to: copy.path)
      } throws: {
        ($0 as? StoreError)?.sentence.contains("contains damage") ?? false
      }
    }
  }

  @Test func `an error of a step ends the copy, and the database goes on`() async throws {
    struct Stop: Error {}
    try await folder.withStore { store in
      try fill(store, upTo: 100)
      #expect(throws: Stop.self) {
        try SQLiteStore.copyDatabase(
          of: folder.path, isServed: true, to: copy.path, pagesPerStep: 4
        ) { if $0.pages >= 8 { throw Stop() } }
      }
      try append(store, after: 100)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a copy that finds the disk full says so`() async throws {
    try await folder.withStore { store in
      try fill(store, upTo: 100)
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore.copyDatabase(
          of: folder.path, isServed: true, to: copy.path, pagesPerStep: 4
        ) { if $0.pages >= 8 { throw DatabaseError(resultCode: .SQLITE_FULL) } }
      }
      #expect(error?.sentence.contains("\(copy.path)/canopy.sqlite cannot be written") == true)
      #expect(error?.sentence.contains("the disk is full") == true)
    }
  }

  @Test func `the check of a copy ends soon after an error, however large the copy is`()
    async throws
  {
    struct Stop: Error {}
    try await folder.withStore { store in
      try fill(store, upTo: 400)
      var calls = 0
      _ = try SQLiteStore.copyDatabase(
        of: folder.path, isServed: true, to: copy.path, whileChecking: { calls += 1 })
      #expect(calls > 3)
      let other = try Folder()
      var later = 0
      #expect(throws: Stop.self) {
        try SQLiteStore.copyDatabase(
          of: folder.path, isServed: true, to: other.path,
          whileChecking: {
            later += 1
            if later == 2 { throw Stop() }
          })
      }
      #expect(later == 2)
    }
  }

  @Test func `a long reader does not make each commit look at the log that it keeps`() async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    configuration.logFramesMax = 20
    try await folder.withStore { _ in }
    try await folder.withStore(configuration) { store in
      let copier = try #require(store.logCopier)
      try append(store, after: 0)
      try await store.pool.read { db in
        _ = try CommitRow.last(db)
        for number in 1..<6_000 as Range<Int64> {
          try append(store, after: number)
          if number % 50 == 0 { copier.queue.sync {} }
        }
      }
      // The rest of the log grew by 1,000 frames, and later by half, before it was looked at again.
      #expect(3...14 ~= copier.delayedCopies, "\(copier.delayedCopies) of \(copier.copies)")
      #expect(copier.copies <= copier.delayedCopies + 2)
      for number in 6_000...10_000 as ClosedRange<Int64> { try append(store, after: number) }
      copier.queue.sync {}
      #expect(copier.frames < 20_000)
      #expect(try await store.problems().isEmpty)
    }
  }
}

extension Account {
  fileprivate static let ada = account("ada")
  fileprivate static let bob = account("bob")

  private static func account(_ name: String) -> Account {
    Account(
      uid: "uid-\(name)", email: "\(name)@example.org", emailNormalized: "\(name)@example.org",
      username: name, passwordHash: "hash", createdAt: 5)
  }
}
