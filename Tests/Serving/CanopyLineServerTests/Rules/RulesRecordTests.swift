import CanopyEngine
import CanopyRules
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The commit since which the rules are in force, and the events of earlier commits that may be sent.
@Suite(.timeLimit(.minutes(20))) struct RulesRecordTests {
  private static let hidden = "{\"rules\":{\".write\":\"true\"}}"
  private static let open = "{\"rules\":{\"posts\":{\".read\":\"true\",\".write\":\"true\"}}}"
  private let temporaryFolder: TemporaryFolder
  private var folder: String { temporaryFolder.path }

  init() throws {
    temporaryFolder = try TemporaryFolder()
  }

  @Test(arguments: Depth.allCases, [nil, RulesRecordTests.open])
  func `data that rules hid when it was removed is not told after a restart under other rules`(
    _ depth: Depth, _ rules: String?
  ) async throws {
    let journal = FaultyJournal()
    let settings = { [folder] (settings: inout TestSettings) in
      settings.journal = journal
      settings.rulesFolder = folder
    }
    try await withServer(depth, settings) { server async throws in
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value("RULES \(quoted(Self.hidden))")
      try await administrator.value("SET /other 1")
      try await administrator.value("SET /posts/x \"secret\"")
      try await administrator.value("REMOVE /posts/x")
      try await administrator.value("RULES \(rules.map(quoted) ?? "built-in")")
      try await administrator.value("SET /posts/y {\"z\":1}")
    }
    // Twice: the first start may record what the second goes by.
    for _ in 0..<2 {
      try await withServer(depth, settings) { server async throws in
        let stranger = try await server.connect()
        let fresh = try await stranger.begin("LISTEN /posts {\"since\":1}")
        #expect(fresh.events.map(\.brief) == ["put /"])
        // Changes under these rules are sent as usual.
        let resumed = try await stranger.begin("LISTEN /posts {\"since\":3}")
        #expect(resumed.events.map(\.brief) == ["added y"])
      }
    }
  }

  @Test func `the same rules have been in force since before a restart, others since it`()
    async throws
  {
    let store = InMemoryJournal()
    let log = LineLog()
    func begin(at sequence: Int64) async throws -> Int64 {
      let keeper = try RulesKeeper(folder: folder)
      #expect(keeper.current.sequence == .max)
      try await keeper.begin(at: sequence, recordingIn: store, logger: log.logger)
      keeper.begin(at: 1_000)
      #expect(try await store.rulesRecord()?.sequence == keeper.current.sequence)
      return keeper.current.sequence
    }
    #expect(try await begin(at: 0) == 0)
    #expect(try await begin(at: 7) == 0)
    #expect(log.lines == [])
    try Data(Self.open.utf8).write(to: URL(filePath: folder + "/rules.json"))
    #expect(try await begin(at: 8) == 8)
    #expect(try await begin(at: 9) == 8)
    // A comment makes other rules as well.
    try Data(("// \n" + Self.open).utf8).write(to: URL(filePath: folder + "/rules.json"))
    #expect(try await begin(at: 9) == 9)
    #expect(log.lines.count == 2)
    #expect(
      log.lines.allSatisfy { $0.hasPrefix("warning rules.json has changed since the last run") })
    try FileManager.default.removeItem(atPath: folder + "/rules.json")
    await #expect(throws: RulesFileError.self) { try await begin(at: 11) }
    #expect(try await store.rulesRecord()?.sequence == 9)
    // As after an upgrade from a program with other built-in rules.
    try await store.setRulesRecord(RulesRecord(.initial, checksum: "another", sequence: 3))
    #expect(try await begin(at: 12) == 12)
    // A record of a longer history is of another one.
    #expect(try await begin(at: 5) == 5)
    #expect(log.lines.count == 2)
  }

  // The server before this one may replace them until it releases the folder.
  @Test func `rules that were replaced before the folder was locked are in force`() async throws {
    let keeper = try RulesKeeper(folder: folder)
    try Data(Self.open.utf8).write(to: URL(filePath: folder + "/rules.json"))
    let store = InMemoryJournal()
    let rules = RulesRecord(.file, checksum: RulesFile.checksum(of: Self.open), sequence: 3)
    try await store.setRulesRecord(rules)
    try keeper.loadAgain()
    let log = LineLog()
    try await keeper.begin(at: 5, recordingIn: store, logger: log.logger)
    #expect(keeper.current.text == Self.open && keeper.current.sequence == 3)
    #expect(try await store.rulesRecord() == rules)
    #expect(log.lines == [])
  }

  @Test
  func
    `a record of an older version is of the initial rules, or of a file if no version had such rules`()
    async throws
  {
    for (initial, older, isAccepted, isNoted) in [
      (InitialRules.blog, BuiltInRules.text, true, false),
      // An older version may have had other built-in rules, or a file is lost.
      (.blog, Self.hidden, true, true), (.locked, InitialRules.locked.text, true, false),
      // An emulator has served the namespace.
      (.locked, InitialRules.open.text, true, false), (.locked, Self.hidden, false, false),
    ] {
      let (store, log) = (InMemoryJournal(), LineLog())
      try await store.setRulesRecord(
        RulesRecord(digest: RulesFile.checksum(of: older), sequence: 3))
      let keeper = try RulesKeeper(folder: folder, initial: initial)
      #expect(try await keeper.isLost(after: store.rulesRecord()) == !isAccepted)
      guard isAccepted else { continue }
      try await keeper.begin(at: 5, recordingIn: store, logger: log.logger)
      #expect(log.lines.count == (isNoted ? 1 : 0), "\(log.lines)")
      let isSame = older.utf8.elementsEqual(initial.text.utf8)
      #expect(
        try await store.rulesRecord()
          == RulesRecord(
            .initial, checksum: RulesFile.checksum(of: initial.text), sequence: isSame ? 3 : 5))
    }
  }

  @Test func `a lost file is replaced by rules that allow nothing, if the loss is accepted`()
    async throws
  {
    let (store, log) = (InMemoryJournal(), LineLog())
    try await store.setRulesRecord(RulesRecord(.file, sequence: 3))
    let keeper = try RulesKeeper(folder: folder)
    await #expect(throws: RulesFileError.self) {
      try await keeper.begin(at: 4, recordingIn: store, logger: log.logger)
    }
    #expect(try temporaryFolder.files() == [] && log.lines == [])
    try await keeper.begin(at: 4, recordingIn: store, acceptsLoss: true, logger: log.logger)
    #expect(log.lines.count == 1 && log.lines[0].hasPrefix("critical rules.json is lost"))
    #expect(keeper.current.text == InitialRules.locked.text && keeper.current.sequence == 4)
    let next = try RulesKeeper(folder: folder)
    try await next.begin(at: 6, recordingIn: store, logger: log.logger)
    #expect(next.current.text == InitialRules.locked.text && next.current.sequence == 4)
    #expect(log.lines.count == 1)
  }

  @Test func `a file of the server loses no bit unnoticed, and has the text as it was written`()
    throws
  {
    for text in [
      Self.hidden, Self.hidden + "\n", Self.hidden + "\r\n// end", "// \n\n" + Self.hidden,
    ] {
      let bytes = RulesFile.bytes(of: text)
      let file = RulesFile(bytes)
      #expect(file.isIntact && file.body.elementsEqual(text.utf8))
      // A file that a person has made of it, without the last line.
      let edited = Array(text.utf8) + [10]
      #expect(RulesFile(edited).isIntact && RulesFile(edited).body == edited)
      for index in bytes.indices {
        for bit in 0..<8 {
          var altered = bytes
          altered[index] ^= 1 << bit
          let file = RulesFile(altered)
          guard file.isIntact, (try? RuleSet(utf8: file.body)) != nil else { continue }
          // Only the last line is altered, which is a comment then.
          #expect(index >= text.utf8.count, "bit \(bit) of byte \(index)")
          #expect(file.body.starts(with: text.utf8))
        }
      }
    }
  }

  @Test func `a crash between two steps of a replacement is no loss`() async throws {
    // Each step stores one thing more. A start with the things so far succeeds, with the old rules or the new ones.
    for (old, new) in [(nil, Self.open), (Self.hidden, Self.open), (Self.hidden, nil)] {
      for failing in 0..<4 {
        let folder = try TemporaryFolder()
        let (store, log) = (FaultyJournal(), LineLog())
        try await withEngine { engine in
          let keeper = try RulesKeeper(folder: folder.path)
          try await keeper.begin(at: 0, recordingIn: store, logger: log.logger)
          if let old { _ = try await keeper.replace(by: old, in: engine) }
          // All changes of the record fail from one on, as if the process had ended there.
          for step in 0..<8 { store.planRecords(fail: step >= failing) }
          _ = try? await keeper.replace(by: new, in: engine)
          store.forgetPlannedRecords()
        }
        let next = try RulesKeeper(folder: folder.path)
        try await next.begin(at: 1, recordingIn: store, logger: log.logger)
        let texts = [old ?? BuiltInRules.text, new ?? BuiltInRules.text]
        #expect(texts.contains(next.current.text), "\(failing)")
        let origin = try await store.rulesRecord()?.origin
        #expect(origin == (next.current.isFromFile ? .file : .initial))
      }
    }
  }

  @Test func `rules that cannot be recorded are not put in force, and count as new after a crash`()
    async throws
  {
    let (store, log) = (FaultyJournal(), LineLog())
    try await withEngine { engine in
      let keeper = try RulesKeeper(folder: folder)
      try await keeper.begin(at: 0, recordingIn: store, logger: log.logger)
      store.planRecords(fail: true)
      await #expect(throws: PlannedFailure.self) {
        try await keeper.replace(by: Self.hidden, in: engine)
      }
      #expect(keeper.current.isBuiltIn)
      #expect(try temporaryFolder.files() == [])
      // Written, and not recorded: the file is removed again, and the record is as before.
      let before = try await store.rulesRecord()
      store.planRecords(fail: false, true)
      await #expect(throws: PlannedFailure.self) {
        try await keeper.replace(by: Self.hidden, in: engine)
      }
      #expect(try temporaryFolder.files() == [])
      #expect(try await store.rulesRecord() == before)
      // Its origin is set, and its checksum is not: as if the process had died in between.
      store.planRecords(fail: false, false, true)
      _ = try await keeper.replace(by: Self.hidden, in: engine)
      #expect(!keeper.current.isBuiltIn)
      #expect(try await store.rulesRecord()?.origin == .file)
      #expect(try await store.rulesRecord()?.checksum == "")
      // Back to the first ones, of which no older record may be found.
      store.planRecords(fail: false, true)
      _ = try await keeper.replace(by: nil, in: engine)
      let next = try RulesKeeper(folder: folder)
      try await next.begin(at: 4, recordingIn: store, logger: log.logger)
      #expect(next.current.sequence == 4)
    }
    let unwritable = try RulesKeeper(folder: folder + "/missing")
    let other = FaultyJournal()
    try await unwritable.begin(at: 0, recordingIn: other, logger: log.logger)
    try await withEngine { engine in
      _ = await #expect(throws: RulesFileError.self) {
        try await unwritable.replace(by: Self.open, in: engine)
      }
    }
    #expect(try await other.rulesRecord()?.sequence == 0)
  }
}
