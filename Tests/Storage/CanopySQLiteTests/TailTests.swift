import CanopyEngine
import CanopyRows
import CanopyTesting
import CanopyTree
import Foundation
import Logging
import Synchronization
import Testing

@testable import CanopySQLite

/// Stored commits that are missing at the next start.
@Suite(.timeLimit(.minutes(20))) struct TailTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private var log: URL { URL(filePath: folder.database + "-wal") }

  /// Fills the folder, and leaves it as a crash would, with commits that only the log has.
  private func crash(_ commits: Int64 = 12) async throws -> Folder {
    // Closed once, so that the tables are in the database file.
    try await folder.withStore { _ in }
    return try await folder.withStore { store in
      for number in 1...commits {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
      return try folder.crashed()
    }
  }

  private func flip(_ folder: Folder, at offset: Int) throws {
    let url = URL(filePath: folder.database + "-wal")
    var data = try Data(contentsOf: url)
    data[offset] ^= 0x40
    try data.write(to: url)
  }

  /// Removes the end of the log. Returns its previous size.
  private func truncate(_ folder: Folder, to bytes: Int) throws {
    let file = try FileHandle(forUpdating: URL(filePath: folder.database + "-wal"))
    try file.truncate(atOffset: UInt64(bytes))
    try file.close()
  }

  private func names(_ folder: Folder) throws -> [String: Data] {
    var files: [String: Data] = [:]
    for name in ["canopy.sqlite", "canopy.sqlite-wal", "canopy.tail"] {
      files[name] = FileManager.default.contents(atPath: folder.path + "/" + name)
    }
    return files
  }

  @Test func `a damaged frame of the log is reported if a commit is lost`() async throws {
    let crashed = try await crash()
    let bytes = try Data(contentsOf: URL(filePath: crashed.database + "-wal")).count
    var offsets = [0, 8, 16, 24, 31]
    offsets += stride(from: 32, to: bytes, by: 4_120 * 7 + 11)
    for offset in offsets {
      let copy = try crashed.crashed()
      try flip(copy, at: offset)
      let before = try names(copy)
      let error = #expect(throws: StoreError.self, "\(offset)") {
        try SQLiteStore(folder: copy.path)
      }
      expectAdvice(error, mentions: "backup", "--accept-loss")
      // The refusal changes nothing, so the next start has the same error.
      #expect(try names(copy) == before)
    }
  }

  @Test func `the sentence says how many commits are missing, and which`() async throws {
    let crashed = try await crash()
    let bytes = try Data(contentsOf: URL(filePath: crashed.database + "-wal")).count
    try truncate(crashed, to: bytes - 1)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    expectAdvice(error, mentions: "commit 12, which was stored, is missing")
    let reading = try SQLiteStore.reading(crashed.path)
    #expect(reading.losses.count == 1)
    #expect(try await reading.problems() == reading.losses)
    try reading.close()
  }

  @Test func `a log that ends in an incomplete transaction is not a loss`()
    async throws
  {
    let crashed = try await crash()
    // The next transaction has begun but not ended.
    let url = URL(filePath: crashed.database + "-wal")
    var data = try Data(contentsOf: url)
    var frame = data.suffix(4_120)
    frame.replaceSubrange(frame.startIndex + 4..<frame.startIndex + 8, with: [0, 0, 0, 0])
    data.append(frame.prefix(3_000))
    try data.write(to: url)
    try await crashed.withStore { store async throws in
      #expect(try await store.load().sequence == 12)
      #expect(store.losses.isEmpty)
    }
  }

  @Test func `without canopy.tail, transactions after a damaged frame are a loss`() async throws {
    let crashed = try await crash()
    try FileManager.default.removeItem(atPath: crashed.path + "/canopy.tail")
    let whole = try crashed.crashed()
    try await whole.withStore { store async throws in
      #expect(try await store.load().sequence == 12)
    }
    try flip(crashed, at: 32 + 4_120 * 3 + 100)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    expectAdvice(error, mentions: "write-ahead log is damaged", "--accept-loss")
  }

  @Test func `a canopy.tail of the same changes contradicts an altered number of the last commit`()
    async throws
  {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
      try store.append([commit(2, "n", 2)], after: 1)
      #expect(try await store.number("SELECT value FROM meta WHERE name = 'last_commit'") == 1)
      try await store.damage(
        "UPDATE meta SET value = 16385 WHERE name = 'last_commit'", isSealed: false)
    }
    let older = try folder.crashed()
    try FileManager.default.removeItem(atPath: older.path + "/canopy.tail")
    let reading = try SQLiteStore.reading(folder.path)
    #expect(reading.losses.isEmpty)
    try reading.close()
    try await folder.withStore { store async throws in
      #expect(try await store.load().sequence == 2)
    }
    // Without that proof the number counts.
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: older.path) }
    expectAdvice(error, mentions: "the commits 3 to 16385, which were stored, are missing")
  }

  @Test func `a damaged or older canopy.tail does not prevent a start`() async throws {
    let first = try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      return try Data(contentsOf: URL(filePath: folder.path + "/canopy.tail"))
    }
    try await folder.withStore { store in
      try store.append([commit(2, "n", 2)], after: 1)
    }
    let file = URL(filePath: folder.path + "/canopy.tail")
    for content in [first, Data(), Data(repeating: 7, count: 72), first + [0]] {
      try content.write(to: file)
      try await folder.withStore { store async throws in
        #expect(try await store.load().sequence == 2)
      }
    }
  }

  @Test func `an older copy of the database is a loss`() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
    }
    let old = try Data(contentsOf: URL(filePath: folder.database))
    try await folder.withStore { store in
      try store.append([commit(2, "n", 2), commit(3, "n", 3)], after: 1)
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
    }
    try old.write(to: URL(filePath: folder.database))
    let reading = try SQLiteStore.reading(folder.path)
    #expect(reading.losses.count == 2)
    #expect(reading.losses.first?.contains("the commits 2 to 3, which were stored") == true)
    #expect(reading.losses.last?.contains("1 changes to accounts") == true)
    try reading.close()
    #expect(throws: StoreError.self) { try SQLiteStore(folder: folder.path) }
  }

  @Test func `another commit of the same number is a loss`() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
    }
    let other = try Folder()
    try await other.withStore { store in
      try store.append([commit(1, "n", 2)], after: 0)
    }
    try FileManager.default.removeItem(atPath: other.path + "/canopy.tail")
    try FileManager.default.copyItem(
      atPath: folder.path + "/canopy.tail", toPath: other.path + "/canopy.tail")
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: other.path) }
    expectAdvice(error, mentions: "commit 1 is not the one that was stored")
  }

  @Test(arguments: [SQLiteStore.Durability.full, .relaxed])
  func `a journal that ends before the checkpoint is a loss, and writes go on when it is accepted`(
    durability: SQLiteStore.Durability
  ) async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = durability
    let tail = URL(filePath: folder.path + "/canopy.tail")
    let older = try await folder.withStore(configuration) { store in
      try store.append(try (1...15).map { try commit($0, "n/\($0)", Node($0)) }, after: 0)
      let older = try Data(contentsOf: tail)
      try store.append(try (16...40).map { try commit($0, "n/\($0)", Node($0)) }, after: 15)
      try await store.checkpoint(try await store.tree().root, through: 40)
      try await store.damage("DELETE FROM commits WHERE sequence > 24", isSealed: false)
      return older
    }
    // A loss of power may leave an older file.
    try older.write(to: tail)
    try folder.restartSystem()
    let error = await #expect(throws: StoreError.self) {
      try await folder.withStore(configuration) { _ = try await $0.load() }
    }
    let isFull = durability == .full
    expectAdvice(
      error, mentions: isFull ? "the commits 25 to 40, which were stored, are" : "commit 25 is",
      "missing", "--accept-loss")
    configuration.acceptsLoss = true
    try await folder.withStore(configuration) { _ = try await $0.acceptLosses() }
    configuration.acceptsLoss = false
    try await folder.withStore(configuration) { store async throws in
      let (root, sequence) = try await store.tree()
      #expect(sequence > 40)
      #expect(root.child("n").childCount == 40)
      try store.append([commit(sequence + 1, "new", 1)], after: sequence)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test
  func `an acceptance without canopy.tail that a crash interrupts leaves the loss to be reported`()
    async throws
  {
    let crashed = try await crash()
    try FileManager.default.removeItem(atPath: crashed.path + "/canopy.tail")
    let bytes = try Data(contentsOf: log).count
    // More than the one bit that a start corrects.
    for offset in [bytes / 2, bytes / 2 + 100] { try flip(crashed, at: offset) }
    #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let again = try await crashed.withStore(configuration) { _ in try crashed.crashed() }
    #expect(try names(again)["canopy.tail"] == nil)
    #expect(throws: StoreError.self) { try SQLiteStore(folder: again.path) }
    try await again.withStore(configuration) { store in
      let losses = try await store.acceptLosses()
      #expect(!losses.notes.isEmpty)
    }
    #expect(try names(again)["canopy.tail"]?.count == TailFile.bytes)
    try await again.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a start reports that canopy.tail is damaged or missing, if there are commits`()
    async throws
  {
    let log = LineLog()
    var configuration = SQLiteStore.Configuration()
    configuration.logger = log.logger
    let path = folder.path + "/canopy.tail"
    func lines(_ word: String) -> Int { log.lines.filter { $0.contains(word) }.count }
    try await folder.withStore(configuration) { #expect(!$0.isTailDamaged) }
    try FileManager.default.removeItem(atPath: path)
    try await folder.withStore(configuration) { store in
      #expect(lines("canopy.tail") == 0)
      try store.append([commit(1, "n", 1)], after: 0)
    }
    try await folder.withStore(configuration) { _ in #expect(lines("canopy.tail") == 0) }
    try FileManager.default.removeItem(atPath: path)
    try await folder.withStore(configuration) {
      #expect(lines("notice there is no canopy.tail") == 1 && !$0.isTailDamaged)
    }
    var bytes = try Data(contentsOf: URL(filePath: path))
    bytes[20] ^= 1
    try bytes.write(to: URL(filePath: path))
    try await folder.withStore(configuration) {
      #expect(lines("warning canopy.tail is damaged") == 1 && $0.isTailDamaged)
    }
    try await folder.withStore(configuration) { #expect(!$0.isTailDamaged) }
    #expect(lines("canopy.tail") == 2)
  }

  @Test func `a file that is too long is read up to one byte past its bound`() throws {
    let path = folder.path + "/canopy.tail"
    let tail = TailFile(folder: folder.path, isRelaxed: false)
    #expect(try tail.read() == nil)
    func end(_ sequence: Int64) -> Tail {
      Tail(sequence: sequence, checksum: Checksum(), revision: 0, time: 0)
    }
    try tail.open(creatingWith: end(6))
    #expect(try tail.read()?.tail == end(6))
    // A file that exists stays as it is.
    try tail.open(creatingWith: end(1))
    #expect(try tail.read()?.tail == end(6))
    tail.write(end(7))
    #expect(try tail.read()?.tail == end(7))
    for (bytes, read) in [(71, 71), (72, 72), (73, 73), (1 << 30, 73)] {
      // A gap at the end of the file takes no space on the disk.
      #expect(Foundation.truncate(path, bytes) == 0)
      let file = Foundation.open(path, O_RDONLY | O_CLOEXEC)
      defer { Foundation.close(file) }
      #expect(TailFile.readBytes(of: file)?.count == read)
      #expect(lseek(file, 0, SEEK_CUR) == read)
      if bytes != 72 { #expect(try tail.read() == nil) }
    }
    #expect(TailFile.readBytes(of: -1) == nil)
    tail.close()
  }

  @Test(arguments: [0, 1, 4_096], [false, true])
  func `a canopy.tail that is too long is damaged until the next start, and proves a later loss`(
    extra: Int, acceptsLoss: Bool
  ) async throws {
    let crashed = try await crash()
    let file = URL(filePath: crashed.path + "/canopy.tail")
    try (Data(contentsOf: file) + Data(count: extra)).write(to: file)
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = acceptsLoss
    let again = try await crashed.withStore(configuration) { store in
      #expect(store.isTailDamaged == (extra > 0))
      if acceptsLoss { try await store.acceptLosses() }
      #expect(try await store.load().sequence == 12)
      try store.append([commit(13, "n/13", 13)], after: 12)
      return try crashed.crashed()
    }
    #expect(try Data(contentsOf: file).count == 72)
    let reading = try SQLiteStore.reading(again.path)
    #expect(!reading.isTailDamaged)
    try reading.close()
    let bytes = try Data(contentsOf: URL(filePath: again.database + "-wal")).count
    try truncate(again, to: bytes - 1)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: again.path) }
    expectAdvice(error, mentions: "commit 13, which was stored, is missing")
  }

  @Test func `after a power failure, a relaxed log may be shorter than canopy.tail says`()
    async throws
  {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    let crashed = try await folder.withStore(configuration) { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try store.append([commit(2, "n", 2)], after: 1)
      return try folder.crashed()
    }
    let bytes = try Data(contentsOf: URL(filePath: crashed.database + "-wal")).count
    try truncate(crashed, to: bytes - 100)
    #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    try crashed.restartSystem()
    try await crashed.withStore { store async throws in
      #expect(try await store.load().sequence == 1)
    }
  }

  @Test func `an accepted loss is logged, and the journal continues after all its numbers`()
    async throws
  {
    let crashed = try await crash()
    let log = URL(filePath: crashed.database + "-wal")
    var bytes = try Data(contentsOf: log)
    // The header of a frame, without which it cannot be corrected.
    let frame = 32 + 4_120 * ((bytes.count - 32) / 4_120 / 2)
    bytes.resetBytes(in: frame..<frame + 24)
    try bytes.write(to: log)
    let lines = Mutex<[String]>([])
    let now: Int64 = 1_577_923_200_000
    let sequence = NewNumbers.start(after: 12, at: now)
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.currentTime = now
    configuration.logger = Logger(label: "test") { _ in
      LogLines { line in lines.withLock { $0.append(line) } }
    }
    try await crashed.withStore(configuration) { store in
      try await store.acceptLosses()
      let state = try await store.load()
      #expect(state.sequence == sequence, "all numbers are new")
      #expect(state.lastTime == 1_012, "that of the last commit that was stored")
      #expect(1..<12 ~= state.tree.root.child("n").childCount)
      #expect(try await store.problems().isEmpty == false, "the problem is reported again")
      try store.append([commit(sequence + 1, "m", 1)], after: sequence)
    }
    #expect(
      lines.withLock { $0 }.contains { $0.contains("accepted: ") && $0.contains("to 12") },
      "\(lines.withLock { $0 })")
    try await crashed.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
      #expect(try await store.load().sequence == sequence + 1)
      #expect(try await store.load().tree.root.child("m") == 1)
    }
  }
  @Test(arguments: [Int64.min, -1, SequenceRange.max + 1, .max])
  func `a file with a number of changes that cannot be is damaged`(_ number: Int64) async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
    }
    var tail = try #require(try TailFile(folder: folder.path, isRelaxed: false).read()).tail
    tail.revision = number
    let file = TailFile(folder: folder.path, isRelaxed: false)
    try file.open(creatingWith: tail)
    file.write(tail)
    file.close()
    #expect(try TailFile(folder: folder.path, isRelaxed: false).read() == nil)
    try await folder.withStore { #expect($0.isTailDamaged) }
    try await folder.withStore { #expect(!$0.isTailDamaged) }
  }

}

/// A log handler that passes its lines to a closure.
struct LogLines: LogHandler {
  let handle: @Sendable (String) -> Void
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace

  init(_ handle: @escaping @Sendable (String) -> Void) {
    self.handle = handle
  }

  subscript(metadataKey key: String) -> Logger.MetadataValue? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    handle("\(event.message)")
  }
}
