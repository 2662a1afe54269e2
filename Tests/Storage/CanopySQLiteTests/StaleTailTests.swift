import CanopyAccounts
import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import Logging
import Synchronization
import Testing

@testable import CanopySQLite

/// Losses that `canopy.tail` does not prove, because a loss of power has left an older version of it, or none.
@Suite(.timeLimit(.minutes(20))) struct StaleTailTests {
  private static let frameBytes = 4_096 + 24
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func append(_ numbers: ClosedRange<Int64>, to store: SQLiteStore) throws {
    for number in numbers {
      try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
    }
  }

  private func logBytes(_ folder: Folder) throws -> Int {
    try Data(contentsOf: URL(filePath: folder.database + "-wal")).count
  }

  private func tail(_ folder: Folder) throws -> Data {
    try Data(contentsOf: URL(filePath: folder.path + "/canopy.tail"))
  }

  /// Puts an older version of `canopy.tail` in place, as a loss of power may, or removes it.
  private func lose(_ folder: Folder, tail: Data?) throws {
    let file = URL(filePath: folder.path + "/canopy.tail")
    guard let tail else { return try FileManager.default.removeItem(at: file) }
    try tail.write(to: file)
    try folder.restartSystem()
  }

  private func damage(_ folder: Folder, at offset: Int) throws {
    let url = URL(filePath: folder.database + "-wal")
    var data = try Data(contentsOf: url)
    // The checksums of the log prove few bytes, which are corrected.
    for index in offset + 1_000..<offset + 1_512 { data[index] ^= 0xFF }
    try data.write(to: url)
  }

  @Test func `a served folder that is not open is refused if its log has lost changes`()
    async throws
  {
    let (damaged, oldTail) = try await damagedFolder()
    try lose(damaged, tail: oldTail)
    let reading = try SQLiteStore.reading(damaged.path)
    let loss = try #require(reading.losses.first)
    try reading.close()
    let copy = try Folder()
    #expect(throws: StoreError.damaged("\(damaged.path) has lost data: \(loss)")) {
      try SQLiteStore.copyDatabase(of: damaged.path, isServed: true, to: copy.file("1"))
    }
    // The log of a crash alone is no loss, and stays.
    let sound = try await folder.withStore { store in
      try append(13...13, to: store)
      return try folder.crashed()
    }
    #expect(LogScan.exists(database: sound.database))
    let made = try SQLiteStore.copyDatabase(
      of: sound.path, isServed: true, to: copy.file("2"))
    #expect(made.sequence == 13)
    #expect(LogScan.exists(database: sound.database))
  }

  /// A folder as a crash has left it, with a session that ends and a write that is cancelled in the part of the log that
  /// is damaged.
  private func damagedFolder() async throws -> (folder: Folder, oldTail: Data) {
    try await folder.withStore { _ in }
    return try await folder.withStore { store in
      try append(1...3, to: store)
      let account = Account(
        uid: "u", email: "u", emailNormalized: "u", username: "u", passwordHash: "h",
        createdAt: 1, isDisabled: false, isPending: false)
      let token = TokenRecord(
        digest: TokenDigest(bytes: Array(repeating: 1, count: 32)), uid: "u",
        expiresAt: 100_000_000)
      #expect(try await store.insert(account, token: token, loginTime: nil))
      let id = try #require(
        await store.changeDisconnectWrites(
          adding: ("administrator", "SET /a 1"), exceptions: [:], removing: []))
      let (oldTail, bytes) = (try tail(folder), try logBytes(folder))
      try append(4...8, to: store)
      _ = try await store.change(uid: "u", revokingTokens: true) { _ in true }
      _ = try await store.changeDisconnectWrites(adding: nil, exceptions: [:], removing: [id])
      try append(9...12, to: store)
      let crashed = try folder.crashed()
      try damage(crashed, at: bytes + 2 * Self.frameBytes)
      return (crashed, oldTail)
    }
  }

  @Test(arguments: [false, true])
  func `durable transactions behind a damaged frame are a loss, although canopy.tail is older`(
    hasTail: Bool
  ) async throws {
    let (crashed, oldTail) = try await damagedFolder()
    try lose(crashed, tail: hasTail ? oldTail : nil)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    expectAdvice(error, mentions: "write-ahead log is damaged", "--accept-loss")
    let reading = try SQLiteStore.reading(crashed.path)
    #expect(reading.losses.count == 1)
    try reading.close()

    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.currentTime = 5_000_000
    let notes = try await crashed.withStore(configuration) { try await $0.acceptLosses().notes }
    #expect(
      notes.contains { $0.contains("all sessions") }
        && notes.contains { $0.contains("on-disconnect") })
    try await crashed.withStore { store async throws in
      #expect(try await store.account(uid: "u")?.details.validSince ?? 0 >= 5_000)
      #expect(try await store.disconnectWriteIDs().isEmpty)
      #expect(try await store.load().sequence > 1_000_000_000)
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test
  func `a torn transaction at the end of the log is no loss, with steps of a checkpoint before it`()
    async throws
  {
    try await folder.withStore { _ in }
    let (crashed, bytes, oldTail) = try await folder.withStore { store in
      try append(1...9, to: store)
      let (oldTail, bytes) = (try tail(folder), try logBytes(folder))
      try await store.checkpoint(try await store.tree().root, through: 9)
      try append(10...10, to: store)
      return (try folder.crashed(), bytes, oldTail)
    }
    #expect(try logBytes(crashed) > bytes + 2 * Self.frameBytes)
    try damage(crashed, at: bytes)
    try lose(crashed, tail: oldTail)
    try await crashed.withStore { store async throws in
      #expect(try await store.load().sequence == 9)
    }
  }

  @Test func `a missing log is a loss if canopy.tail shows that it had transactions`() async throws
  {
    try await folder.withStore { _ in }
    let (crashed, oldTail) = try await folder.withStore { store in
      try append(1...1, to: store)
      let oldTail = try tail(folder)
      try append(2...5, to: store)
      return (try folder.crashed(), oldTail)
    }
    try FileManager.default.removeItem(atPath: crashed.database + "-wal")
    try lose(crashed, tail: oldTail)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: crashed.path) }
    expectAdvice(error, mentions: "is missing", "--accept-loss")
    // The close of the store copies the log and removes it.
    try folder.restartSystem()
    try await folder.withStore { store async throws in
      #expect(try await store.load().sequence == 5)
    }
  }

  @Test func `a loss after a stop is damage, also if the durability was relaxed`() async throws {
    var configuration = SQLiteStore.Configuration()
    configuration.durability = .relaxed
    try await folder.withStore(configuration) { try append(1...3, to: $0) }
    let older = try Data(contentsOf: URL(filePath: folder.database))
    try await folder.withStore(configuration) { try append(4...6, to: $0) }
    try folder.restartSystem()
    try older.write(to: URL(filePath: folder.database))
    for durability in [SQLiteStore.Durability.relaxed, .full] {
      configuration.durability = durability
      let error = #expect(throws: StoreError.self) {
        try SQLiteStore(folder: folder.path, configuration: configuration)
      }
      expectAdvice(error, mentions: "the commits 4 to 6, which were stored, are missing")
    }
  }

  @Test func `a repair that ends before the new numbers begin leaves them to the next start`()
    async throws
  {
    try await folder.withStore { store in
      try append(1...6, to: store)
      try await store.checkpoint(try await store.tree().root, through: 6)
      try await store.damage(
        "UPDATE leaves SET value = value || ' ' WHERE path = 'n/2'", isSealed: false)
    }
    let copies = Mutex<[Folder]>([])
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.logger = Logger(label: "test") { [folder] _ in
      Observer { line in
        if line.hasPrefix("removed: "), let copy = try? folder.crashed() {
          copies.withLock { $0.append(copy) }
        }
      }
    }
    try await folder.withStore(configuration) { try await $0.acceptLosses() }
    let interrupted = try #require(copies.withLock { $0.first })
    try await interrupted.withStore { store in
      try await store.beginNewNumbersIfNeeded(at: 1_700_000_000_000)
      #expect(try await store.load().sequence > 1_000_000_000)
    }
    try await interrupted.withStore { store async throws in
      let sequence = try await store.load().sequence
      try await store.beginNewNumbersIfNeeded(at: 1_700_000_001_000)
      #expect(try await store.load().sequence == sequence, "only once")
    }
  }

  @Test(arguments: [false, true])
  func `rules in a file stay those of the file after the change to it is lost`(hasFile: Bool)
    async throws
  {
    try await folder.withStore { try await $0.setRulesRecord(RulesRecord(.initial, sequence: 0)) }
    let crashed = try await folder.withStore { store in
      if hasFile { try await store.setRulesRecord(RulesRecord(.file, sequence: 0)) }
      try await store.setDisconnectIdentities([:])
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
      return try folder.crashed()
    }
    try FileManager.default.removeItem(atPath: crashed.database + "-wal")
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    let notes = try await crashed.withStore(configuration) { try await $0.acceptLosses().notes }
    #expect(notes.contains { $0.contains("the origin of the rules") } == hasFile, "\(notes)")
    let origin = try await crashed.withStore { try await $0.rulesRecord()?.origin }
    #expect(origin == (hasFile ? .file : .initial))
  }

  /// Calls a closure with each line of a log.
  private struct Observer: LogHandler {
    let observe: @Sendable (String) -> Void
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    init(_ observe: @escaping @Sendable (String) -> Void) { self.observe = observe }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { observe("\(event.message)") }
  }

  // A loss of power then keeps the cut, and the file with the mark.
  @Test func `a crash before or after the log is cut at the end loses nothing`() async throws {
    try await folder.withStore { _ in }
    let copies = Mutex<[Folder]>([])
    var configuration = SQLiteStore.Configuration()
    configuration.beforeLogCut = { [folder] in
      if let crashed = try? folder.crashed() { copies.withLock { $0.append(crashed) } }
    }
    try await folder.withStore(configuration) { try append(1...9, to: $0) }
    let crashed = try #require(copies.withLock { $0.first })
    try crashed.restartSystem()
    for isCut in [false, true] {
      let copy = try crashed.crashed()
      if isCut { try Data().write(to: URL(filePath: copy.database + "-wal")) }
      let sequence = try await copy.withStore { try await $0.tree().sequence }
      #expect(sequence == 9)
    }
  }
}
