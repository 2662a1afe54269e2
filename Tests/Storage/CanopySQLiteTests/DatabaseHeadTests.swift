import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import CanopySQLite

/// Database files that do not begin as a database does, beside a write-ahead log.
@Suite(.timeLimit(.minutes(20))) struct DatabaseHeadTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  /// Returns a folder as a crash would leave it, with all pages of the tables in the log, and the first page too.
  private func crashed() async throws -> Folder {
    let crashed = try await folder.withStore { store in
      for number in 1...12 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
      return try folder.crashed()
    }
    let scan = try LogScan.scan(database: crashed.database)
    #expect(scan?.firstPage?.count == 4_096)
    return crashed
  }

  private func cut(_ folder: Folder, to bytes: Int) throws {
    let file = try FileHandle(forUpdating: URL(filePath: folder.database))
    try file.truncate(atOffset: UInt64(bytes))
    try file.close()
  }

  private func contents(_ folder: Folder) throws -> [String: Data] {
    var contents: [String: Data] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
    where name != "lock" {
      contents[name] = try Data(contentsOf: URL(filePath: folder.path + "/" + name))
    }
    return contents
  }

  private var accepting: SQLiteStore.Configuration {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    return configuration
  }

  @Test(arguments: [0, 1, 2, 15, 16, 100, 511])
  func `a file that is too short is refused, no file is changed, and the log can be used`(
    bytes: Int
  ) async throws {
    let crashed = try await crashed()
    try cut(crashed, to: bytes)
    let before = try contents(crashed)
    for open in [
      { _ = try SQLiteStore.reading(crashed.path) },
      { _ = try SQLiteStore(folder: crashed.path) },
    ] as [() throws -> Void] {
      let error = #expect(throws: StoreError.self) { try open() }
      expectAdvice(error, mentions: "backup", "--accept-loss", "write-ahead log")
      #expect(try contents(crashed) == before)
    }
    try await crashed.withStore(accepting) { store in
      try await store.acceptLosses()
      #expect(try await store.tree().root.child("n").childCount == 12)
    }
    try await crashed.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().sequence == 12)
    }
  }

  @Test func `a file without the header is refused, and restored from the log`() async throws {
    let crashed = try await crashed()
    var data = try Data(contentsOf: URL(filePath: crashed.database))
    data[3] ^= 0x40
    try data.write(to: URL(filePath: crashed.database))
    let before = try contents(crashed)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    expectAdvice(error, mentions: "is not a Canopy database", "--accept-loss")
    #expect(try contents(crashed) == before)
    try await crashed.withStore(accepting) { try await $0.acceptLosses() }
    #expect(try await crashed.withStore { try await $0.tree().sequence } == 12)
  }

  @Test(arguments: [0, 1, 100, 511])
  func `a log that does not contain all pages changes no file`(bytes: Int) async throws {
    // Now the tables are in the database file alone.
    try await folder.withStore { store in
      try store.append(
        try (1...40).map { try commit($0, "n/\($0)", Node(String(repeating: "x", count: 3_000))) },
        after: 0)
    }
    let crashed = try await folder.withStore { store in
      // Changes the first page, too.
      try await store.pool.write { try $0.execute(sql: "PRAGMA user_version = 1") }
      return try folder.crashed()
    }
    let scan = try LogScan.scan(database: crashed.database)
    #expect(scan?.firstPage != nil)
    try cut(crashed, to: bytes)
    let before = try contents(crashed)
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: crashed.path, configuration: accepting)
    }
    expectAdvice(error, mentions: "is damaged", "backup")
    #expect(try contents(crashed) == before)
  }

  @Test func `without a log, a short file is refused even if losses are accepted`() async throws {
    try await folder.withStore { try $0.append([commit(1, "n", 1)], after: 0) }
    try cut(folder, to: 1)
    let before = try contents(folder)
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: folder.path, configuration: accepting)
    }
    expectAdvice(error, mentions: "backup")
    #expect(error?.sentence.contains("--accept-loss") == false)
    #expect(try contents(folder) == before)
  }

  @Test func `a file of 512 bytes with the header is left to SQLite`() async throws {
    let crashed = try await crashed()
    try cut(crashed, to: 512)
    let first = try DatabaseHead(crashed.database)
    #expect(first.isSound)
    try cut(crashed, to: 511)
    let second = try DatabaseHead(crashed.database)
    #expect(!second.isSound)
  }

  @Test func `reading takes an empty database neither for damage nor for an older version`() throws
  {
    try Data().write(to: URL(filePath: folder.database))
    let error = #expect(throws: StoreError.self) { try SQLiteStore.reading(folder.path) }
    #expect(error == .unstarted(in: folder.path))
    #expect(try Data(contentsOf: URL(filePath: folder.database)).isEmpty)
  }

  // MARK: The constants of the first page

  /// Fills the folder, with all pages in the file and no log.
  private func fillFile() async throws -> Node {
    try await folder.withStore { store in
      let text = Node(String(repeating: "x", count: 900))
      for number in 1...300 as ClosedRange<Int64> {
        try store.append([commit(number, "n/\(number)", text)], after: number - 1)
      }
      try await store.checkpoint(try await store.tree().root, through: 200)
      return try await store.tree().root
    }
  }

  private func write(_ byte: UInt8, at offset: Int) throws {
    let file = try FileHandle(forUpdating: URL(filePath: folder.database))
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: Data([byte]))
    try file.close()
  }

  /// Accepts the losses of the folder, and expects that there are none.
  private func expectCorrected(_ root: Node) async throws {
    let losses = try await folder.withStore(accepting) { try await $0.acceptLosses() }
    #expect(losses.notes.isEmpty)
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root == root)
    }
  }

  @Test(
    arguments: [
      (16, 0x11), (16, 32), (17, 1), (18, 0), (18, 1), (18, 3), (18, 0x82), (19, 1), (19, 3),
      (20, 1),
      (21, 65), (22, 0), (23, 36), (44, 1), (47, 6), (47, 3), (52, 1), (55, 4), (56, 1), (59, 3),
      (59, 0x11), (67, 1),
    ] as [(Int, UInt8)])
  func `another constant in the first page is refused everywhere, and corrected without loss`(
    offset: Int, byte: UInt8
  ) async throws {
    let root = try await fillFile()
    #expect(!LogScan.exists(database: folder.database))
    try write(byte, at: offset)
    let before = try contents(folder)
    let copy = try Folder()
    for open in [
      { _ = try SQLiteStore.reading(folder.path) }, { _ = try SQLiteStore(folder: folder.path) },
      { _ = try SQLiteStore.copyDatabase(of: folder.path, isServed: false, to: copy.path + "/1") },
    ] as [() throws -> Void] {
      let error = #expect(throws: StoreError.self) { try open() }
      expectAdvice(error, mentions: "first bytes", "backup", "--accept-loss")
      #expect(try contents(folder) == before)
    }
    try await expectCorrected(root)
  }

  @Test(arguments: [(68, 0x42), (69, 0x61), (71, 0x51)] as [(Int, UInt8)])
  func `another number of the program is refused, and corrected if the tables are those of Canopy`(
    offset: Int, byte: UInt8
  ) async throws {
    let root = try await fillFile()
    try write(byte, at: offset)
    for open in [
      { _ = try SQLiteStore.reading(folder.path) }, { _ = try SQLiteStore(folder: folder.path) },
    ] as [() throws -> Void] {
      let error = #expect(throws: StoreError.self) { try open() }
      expectAdvice(error, mentions: "first bytes", "backup", "--accept-loss")
    }
    try await expectCorrected(root)
  }

  @Test func `a database with other tables and a similar number of the program stays as it is`()
    async throws
  {
    _ = try await fillFile()
    try await folder.withStore {
      try await $0.damage("CREATE TABLE more(a)", isSealed: false)
    }
    try write(0x51, at: 71)
    let before = try contents(folder)["canopy.sqlite"]
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: folder.path, configuration: accepting)
    }
    expectAdvice(error, mentions: "another program")
    #expect(try contents(folder)["canopy.sqlite"] == before)
  }

  @Test func `the first page of another program is not corrected`() async throws {
    _ = try await fillFile()
    // The last byte of the number of the program, and a constant.
    try write(0x51, at: 71)
    try write(8, at: 20)
    let before = try contents(folder)
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: folder.path, configuration: accepting)
    }
    expectAdvice(error, mentions: "first bytes")
    #expect(try contents(folder) == before)
  }

  @Test(arguments: [3, 0x82] as [UInt8])
  func `a version that allows only reading is found while the folder is served, and no copy has it`(
    byte: UInt8
  ) async throws {
    _ = try await fillFile()
    try await folder.withStore { store in
      try write(byte, at: 18)
      var scrub = try Scrub(folder: folder.path)
      defer { scrub.close() }
      let step = try await scrub.step()
      #expect(step.problems.count == 1 && step.problems[0].contains("first bytes"))
      let copy = try Folder()
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore.copyDatabase(of: folder.path, isServed: true, to: copy.path + "/1")
      }
      expectAdvice(error, mentions: "first bytes")
      try write(2, at: 18)
      _ = try SQLiteStore.copyDatabase(of: folder.path, isServed: true, to: copy.path + "/2")
    }
  }

  @Test(arguments: [(28, 0x80), (29, 1), (30, 1), (31, 1), (31, 0x40)])
  func `a wrong number of pages in the first page loses nothing when losses are accepted`(
    offset: Int, bit: UInt8
  ) async throws {
    let root = try await fillFile()
    let bytes = try Data(contentsOf: URL(filePath: folder.database))
    #expect(bytes.count >= 65 * 4_096)
    try write(bytes[offset] ^ bit, at: offset)
    try await expectCorrected(root)
  }

  // MARK: The record of the version

  @Test(arguments: [
    "UPDATE grdb_migrations SET identifier = 'x' WHERE identifier = '4'",
    "UPDATE grdb_migrations SET identifier = x'fffe' WHERE identifier = '1'",
    "DELETE FROM grdb_migrations WHERE identifier = '3'",
    "DELETE FROM grdb_migrations WHERE identifier = 'sealed-sums'",
    "DELETE FROM grdb_migrations",
  ])
  func `an altered record of the version is refused as damage, and can be accepted`(
    sql: String
  ) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try await store.damage(sql, isSealed: false)
    }
    for open in [
      { _ = try SQLiteStore.reading(folder.path) }, { _ = try SQLiteStore(folder: folder.path) },
    ] as [() throws -> Void] {
      let error = #expect(throws: StoreError.self) { try open() }
      expectAdvice(error, mentions: "record of the version", "altered", "--accept-loss")
      #expect(error?.sentence.contains("newer") == false)
    }
    try await folder.withStore(accepting) { try await $0.acceptLosses() }
    try await folder.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.tree().root == json(#"{"n":1}"#))
    }
  }

  @Test func `an altered record of other tables needs a backup`() async throws {
    try await folder.withStore { store in
      try await store.damage(
        "UPDATE grdb_migrations SET identifier = 'x' WHERE identifier = '4'; CREATE TABLE more(a)",
        isSealed: false)
    }
    for configuration in [SQLiteStore.Configuration(), accepting] {
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore(folder: folder.path, configuration: configuration)
      }
      expectAdvice(error, mentions: "record of the version", "backup")
      #expect(error?.sentence.contains("--accept-loss") == false)
    }
  }

  // MARK: Damaged pages

  /// Returns an undamaged folder whose file has many pages.
  private func large() async throws -> Folder {
    try await folder.withStore { store in
      for number in 1...60 as ClosedRange<Int64> {
        try store.append(
          [commit(number, "n/\(number)", Node(String(repeating: "x", count: 200)))],
          after: number - 1)
        if number == 57 { try await store.checkpoint(try await store.tree().root, through: 57) }
      }
    }
    return folder
  }

  /// Opens a folder with all losses accepted. Returns the sentence of the refusal.
  private func refusal(_ folder: Folder) async throws -> String? {
    do {
      try await folder.withStore(accepting) { store in
        try await store.acceptLosses()
        let state = try await store.load()
        try store.append(
          [commit(state.sequence + 1, "new", 1)], after: state.sequence)
      }
      try await folder.withStore { _ = try await $0.load() }
      return nil
    } catch let error as StoreError {
      return error.sentence
    }
  }

  @Test func `with losses accepted, a damaged page never leads to the advice to accept losses`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "DatabaseHeadTests.pages")
    let whole = try await large()
    let data = try Data(contentsOf: URL(filePath: whole.database))
    var started = 0
    for page in 1..<data.count / 4_096 {
      // Each page in one of the ways; in time, all of them.
      let kept = random.pick([3_600, 2_048, 1_000])
      let copy = try whole.crashed()
      var damaged = data
      let range = page * 4_096 + kept..<(page + 1) * 4_096
      damaged.replaceSubrange(range, with: Data(count: range.count))
      try damaged.write(to: URL(filePath: copy.database))
      let sentence = try await refusal(copy)
      started += sentence == nil ? 1 : 0
      #expect(sentence?.contains("run canopy serve --accept-loss") != true, "page \(page), \(kept)")
      if let sentence { #expect(sentence.contains("backup"), "page \(page): \(sentence)") }
    }
    #expect(started > 0)
  }

  @Test func `a journal that is missing up to the checkpoint is found, and can be accepted`()
    async throws
  {
    let whole = try await large()
    try await whole.withStore { store in
      try await store.checkpoint(try await store.tree().root, through: 60)
      try await store.damage("DELETE FROM commits", isSealed: false)
      #expect(try await store.problems() == ["the commits up to the checkpoint are missing"])
    }
    try? FileManager.default.removeItem(atPath: whole.path + "/canopy.tail")
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: whole.path) }
    expectAdvice(error, mentions: "commit 60 is missing", "--accept-loss")
    #expect(try await refusal(whole) == nil)
  }

  // MARK: Times

  @Test(arguments: [Int64.min, -1, PushIDGenerator.timeMax, .max])
  func `a clock whose time keys cannot contain is refused before anything is created`(
    time: Int64
  ) throws {
    var configuration = SQLiteStore.Configuration()
    configuration.currentTime = time
    let path = folder.path + "/new"
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: path, configuration: configuration)
    }
    if case .wrongTime = error {} else { Issue.record("\(String(describing: error))") }
    expectAdvice(error, mentions: "\(time)", "set the clock")
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  @Test(arguments: [0, PushIDGenerator.timeMax - 1])
  func `the first and the last time of keys are accepted`(time: Int64) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.currentTime = time
    for _ in 0..<2 {
      try await folder.withStore(configuration) { store in
        let last = try await store.load().sequence
        var commit = try commit(last + 1, "n", 1)
        commit.time = time
        try store.append([commit], after: last)
      }
    }
  }

  @Test func `a folder that was written under a wrong clock is refused, and can be exported`()
    async throws
  {
    try await folder.withStore { store in
      var commit = try commit(1, "n", 1)
      commit.time = PushIDGenerator.timeMax
      try store.append([commit], after: 0)
    }
    var configuration = SQLiteStore.Configuration()
    configuration.currentTime = 1_000
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: folder.path, configuration: configuration)
    }
    expectAdvice(error, mentions: "\(PushIDGenerator.timeMax)", "export")
    let reading = try SQLiteStore.reading(folder.path)
    #expect(try await reading.tree().root == json(#"{"n":1}"#))
    try reading.close()
  }
}
