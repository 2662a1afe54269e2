import CanopyAccounts
import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Intact write-ahead logs beside a database file of another time.
@Suite(.timeLimit(.minutes(20))) struct OlderLogTests {
  /// The file `canopy.tail` beside the files of two times.
  enum TailOf: String, CaseIterable {
    case log, database, none
  }

  private static let frameBytes = 4_120
  private static let pageBytes = 4_096
  private static let (early, late): (Int64, Int64) = (20, 60)

  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private static func append(_ numbers: ClosedRange<Int64>, to store: SQLiteStore) throws {
    for number in numbers {
      let text = String(repeating: "x", count: 60)
      try store.append([commit(number, "n/\(number)", Node(text))], after: number - 1)
    }
  }

  private static func insert(_ uid: String, in store: SQLiteStore) async throws {
    let account = Account(
      uid: uid, email: uid, emailNormalized: uid, username: uid, passwordHash: "h",
      createdAt: 1, isDisabled: false, isPending: false)
    #expect(try await store.insert(account))
  }

  private func log(_ folder: Folder) -> URL { URL(filePath: folder.database + "-wal") }

  /// Returns a folder whose database file has the later commits, and whose log is one from before them.
  ///
  /// - Parameter hasCommits: whether commits follow the log, and not only a change of accounts.
  private func mixed(_ tail: TailOf, hasCommits: Bool = true) async throws -> Folder {
    // Closed once, so that the tables are in the database file.
    try await folder.withStore { _ in }
    let mixed = try await folder.withStore { store in
      try await Self.insert("u", in: store)
      try Self.append(1...Self.early, to: store)
      let crashed = try folder.crashed()
      if hasCommits { try Self.append(Self.early + 1...Self.late, to: store) }
      try await Self.insert("v", in: store)
      return crashed
    }
    let files = FileManager.default
    try files.removeItem(atPath: mixed.database)
    try files.copyItem(atPath: folder.database, toPath: mixed.database)
    if tail != .log { try files.removeItem(atPath: mixed.file("canopy.tail")) }
    if tail == .database {
      try files.copyItem(atPath: folder.file("canopy.tail"), toPath: mixed.file("canopy.tail"))
    }
    return mixed
  }

  private func contents(_ folder: Folder) throws -> [String: Data] {
    var files: [String: Data] = [:]
    for name in ["canopy.sqlite", "canopy.sqlite-wal", "canopy.tail"] {
      files[name] = FileManager.default.contents(atPath: folder.file(name))
    }
    return files
  }

  @Test(arguments: TailOf.allCases, [true, false])
  func `an older log is refused, and without it nothing is missing`(
    tail: TailOf, hasCommits: Bool
  ) async throws {
    let mixed = try await mixed(tail, hasCommits: hasCommits)
    let before = try contents(mixed)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: mixed.path) }
    expectAdvice(error, mentions: "canopy.sqlite-wal was cut or is older than", "move the file")
    let isTailOlder = tail == .log && hasCommits
    #expect(error?.sentence.contains("and canopy.tail with it") == isTailOlder)
    let found = #expect(throws: StoreError.self) { try SQLiteStore.reading(mixed.path) }
    #expect(found == error)
    #expect(throws: StoreError.self) {
      try SQLiteStore.copyDatabase(of: mixed.path, isServed: false, to: mixed.file("copy"))
    }
    #expect(try contents(mixed) == before)
    try FileManager.default.removeItem(at: log(mixed))
    try await mixed.withStore { store async throws in
      #expect(try await store.load().sequence == (hasCommits ? Self.late : Self.early))
      #expect(try await store.account(uid: "v") != nil)
    }
  }

  @Test func `after a restart of the system the advice leads to a start without a loss`()
    async throws
  {
    let mixed = try await mixed(.log, hasCommits: false)
    try mixed.restartSystem()
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: mixed.path) }
    expectAdvice(error, mentions: "move the file out of the data folder, and canopy.tail with it")
    try FileManager.default.removeItem(at: log(mixed))
    // As after another program has copied the log into the database.
    let next = #expect(throws: StoreError.self) { try SQLiteStore(folder: mixed.path) }
    expectAdvice(next, mentions: "-wal", "is missing", "move canopy.tail out of the data folder")
    try FileManager.default.removeItem(atPath: mixed.file("canopy.tail"))
    try await mixed.withStore { store async throws in
      #expect(try await store.load().sequence == Self.early)
      #expect(try await store.account(uid: "v") != nil)
      #expect(store.losses == [])
    }
  }

  @Test(arguments: TailOf.allCases, [true, false])
  func `an older log is kept and not used if losses are accepted`(
    tail: TailOf, isRepair: Bool
  ) async throws {
    let mixed = try await mixed(tail)
    let before = try contents(mixed)
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.keepsFormerFiles = !isRepair
    let notes = try await mixed.withStore(configuration) { try await $0.acceptLosses().notes }
    #expect(
      notes == ["canopy.sqlite-wal was cut or is older than canopy.sqlite, and is not used"],
      "\(notes)")
    try await mixed.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root.child("n").childCount == Int(Self.late))
      #expect(try await store.account(uid: "v") != nil)
      // Clients may have seen other commits.
      #expect(try await store.load().sequence > 1_000)
    }
    let kept = FileManager.default.contents(atPath: mixed.file("damaged-1.sqlite-wal"))
    #expect(kept == (isRepair ? nil : before["canopy.sqlite-wal"]))
  }

  @Test func `a log that was cut after it was copied costs nothing`() async throws {
    try await folder.withStore { _ in }
    let crashed = try await folder.withStore { store in
      try Self.append(1...Self.late, to: store)
      try await store.pool.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
      return try folder.crashed()
    }
    let file = try FileHandle(forUpdating: log(crashed))
    try file.truncate(atOffset: try file.seekToEnd() - 5 * UInt64(Self.frameBytes))
    try file.close()
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    expectAdvice(error, mentions: "canopy.sqlite-wal was cut or is older than", "move the file")
    _ = try await crashed.acceptLosses()
    try await crashed.withStore { store async throws in
      #expect(try await store.tree().root.child("n").childCount == Int(Self.late))
    }
  }

  // MARK: States after a crash

  /// Returns the pages of the log of a folder in their order: their numbers, their bytes, and whether a transaction ends.
  private func frames(
    _ folder: Folder
  ) throws -> [(page: Int, bytes: Data, isEnd: Bool)] {
    let data = try Data(contentsOf: log(folder))
    func word(_ offset: Int) -> Int { data[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
    return stride(from: 32, through: data.count - Self.frameBytes, by: Self.frameBytes)
      .prefix { data[$0 + 8..<$0 + 16].elementsEqual(data[16..<24]) }
      .map { (word($0), data[$0 + 24..<$0 + Self.frameBytes], word($0 + 4) != 0) }
  }

  /// Writes pages into the database file, as interrupted copies of the log do: of each page one version of the log, or
  /// none of them.
  private func copyPages(
    _ folder: Folder, _ random: inout SeededGenerator, share: Int
  ) throws {
    let frames = try frames(folder)
    // SQLite copies only pages of whole transactions.
    let count = (frames.lastIndex { $0.isEnd } ?? -1) + 1
    var database = try Data(contentsOf: URL(filePath: folder.database))
    for (_, versions) in Dictionary(grouping: frames.prefix(count), by: \.page) {
      guard Int.random(in: 1...100, using: &random) <= share,
        let version = versions.randomElement(using: &random)
      else { continue }
      let start = (version.page - 1) * Self.pageBytes
      let missing = start + Self.pageBytes - database.count
      if missing > 0 { database.append(Data(count: missing)) }
      database.replaceSubrange(start..<start + Self.pageBytes, with: version.bytes)
    }
    try database.write(to: URL(filePath: folder.database))
  }

  /// Returns a folder as a crash leaves it, with a log of changes to all tables, a checkpoint, and a replaced tree.
  private func busy(_ random: inout SeededGenerator, isFirstStart: Bool) async throws -> Folder {
    var configuration = SQLiteStore.Configuration()
    configuration.retainedCommits = 5
    configuration.checkpointStepRows = 7
    if !isFirstStart {
      try await folder.withStore(configuration) { store in
        try Self.append(1...Self.early, to: store)
        try await Self.insert("early", in: store)
      }
    }
    return try await folder.withStore(configuration) { store in
      var next = isFirstStart ? 1 : Self.early + 1
      for round in 0..<4 as Range<Int64> {
        let last = next + Int64.random(in: 5...25, using: &random)
        try Self.append(next...last, to: store)
        next = last + 1
        try await Self.insert("u\(round)", in: store)
        _ = try await store.changeDisconnectWrites(
          adding: ("administrator", "SET /gone/\(round) 1"), exceptions: [:], removing: [])
        if round == 1 {
          let (root, sequence) = try await store.tree()
          try await store.checkpoint(root, through: sequence)
        }
        if round == 2 {
          try await store.replace(.root, with: json(#"{"n":{"a":1}}"#)) { _ in }
          next += 1
        }
      }
      return try folder.crashed()
    }
  }

  @Test(arguments: [false, true])
  func `no copy of the log into the database file that is interrupted is refused`(
    isFirstStart: Bool
  ) async throws {
    var random = SeededGenerator(printingSeedFor: "OlderLogTests.interrupted")
    let crashed = try await busy(&random, isFirstStart: isFirstStart)
    let expected = try await crashed.crashed().withStore { try await StoredContents($0, []) }
    for trial in 0..<40 {
      let copy = try crashed.crashed()
      try copyPages(copy, &random, share: [10, 50, 90, 100][trial % 4])
      if trial % 3 == 1 { try copy.restartSystem() }
      if trial % 3 == 2, !isFirstStart {
        try FileManager.default.removeItem(atPath: copy.file("canopy.tail"))
      }
      let reading = try SQLiteStore.reading(copy.path)
      #expect(reading.losses.isEmpty, "trial \(trial): \(reading.losses)")
      try reading.close()
      if trial % 2 == 0 {
        let notes = try await copy.acceptLosses()
        #expect(notes.isEmpty, "trial \(trial): \(notes)")
      }
      let found = try await copy.withStore { try await StoredContents($0, []) }
      #expect(found == expected, "trial \(trial)")
    }
  }

  /// A repair removes commits, so the database file from before it may have later ones.
  @Test func `a repair that ends after any of its transactions goes on`() async throws {
    try await folder.withStore { _ in }
    try await folder.withStore { store in
      try Self.append(1...Self.late, to: store)
      try await Self.insert("u", in: store)
      try await store.damage(
        "UPDATE commits SET body = '[[[\"n/40\"],1]]' WHERE sequence = 40", isSealed: false)
    }
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let found = try Data(contentsOf: URL(filePath: folder.file("canopy.tail")))
    let repaired = try await folder.withStore(configuration) { store in
      #expect(try await store.acceptLosses().notes.count == 1)
      return try folder.crashed()
    }
    let frames = try frames(repaired)
    let ends = frames.indices.filter { frames[$0].isEnd }
    #expect(ends.count > 1)
    for end in ends {
      let copy = try repaired.crashed()
      let file = try FileHandle(forUpdating: log(copy))
      try file.truncate(atOffset: UInt64(32 + (end + 1) * Self.frameBytes))
      try file.close()
      if end != ends.last { try found.write(to: URL(filePath: copy.file("canopy.tail"))) }
      // Refused with another sentence, or not at all.
      try? SQLiteStore.reading(copy.path).close()
      _ = try await copy.acceptLosses()
      try await copy.withStore { store async throws in
        #expect(try await store.problems().isEmpty)
        #expect(try await store.tree().root.child("n").childCount == 39)
        #expect(try await store.account(uid: "u") != nil)
      }
    }
  }
}
