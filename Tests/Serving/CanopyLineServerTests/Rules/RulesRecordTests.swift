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
    func begin(at sequence: Int64) async throws -> Int64 {
      let keeper = try RulesKeeper(folder: folder)
      #expect(keeper.current.sequence == .max)
      try await keeper.begin(at: sequence, recordingIn: store)
      keeper.begin(at: 1_000)
      #expect(try await store.rulesRecord()?.sequence == keeper.current.sequence)
      return keeper.current.sequence
    }
    #expect(try await begin(at: 0) == 0)
    #expect(try await begin(at: 7) == 0)
    try Data(Self.open.utf8).write(to: URL(filePath: folder + "/rules.json"))
    #expect(try await begin(at: 8) == 8)
    #expect(try await begin(at: 9) == 8)
    // A comment makes other rules as well.
    try Data(("// \n" + Self.open).utf8).write(to: URL(filePath: folder + "/rules.json"))
    #expect(try await begin(at: 9) == 9)
    try FileManager.default.removeItem(atPath: folder + "/rules.json")
    #expect(try await begin(at: 11) == 11)
    // As after an upgrade from a program with other built-in rules.
    try await store.setRulesRecord(RulesRecord(digest: "another", sequence: 3))
    #expect(try await begin(at: 12) == 12)
    // A record of a longer history is of another one.
    #expect(try await begin(at: 5) == 5)
  }

  @Test func `rules that cannot be recorded are not put in force, and count as new after a crash`()
    async throws
  {
    let store = FaultyJournal()
    try await withEngine { engine in
      let keeper = try RulesKeeper(folder: folder)
      try await keeper.begin(at: 0, recordingIn: store)
      store.planRecords(fail: true)
      await #expect(throws: PlannedFailure.self) {
        try await keeper.replace(by: Self.hidden, in: engine)
      }
      #expect(keeper.current.isBuiltIn)
      // Removed, then not set again: as if the process had died in between.
      store.planRecords(fail: false, true)
      _ = try await keeper.replace(by: Self.hidden, in: engine)
      #expect(!keeper.current.isBuiltIn)
      #expect(try await store.rulesRecord() == nil)
      // Back to the first ones, of which no older record may be found.
      store.planRecords(fail: false, true)
      _ = try await keeper.replace(by: nil, in: engine)
      let next = try RulesKeeper(folder: folder)
      try await next.begin(at: 4, recordingIn: store)
      #expect(next.current.sequence == 4)
    }
    let unwritable = try RulesKeeper(folder: folder + "/missing")
    let other = FaultyJournal()
    try await unwritable.begin(at: 0, recordingIn: other)
    try await withEngine { engine in
      _ = await #expect(throws: RulesFileError.self) {
        try await unwritable.replace(by: Self.open, in: engine)
      }
    }
    #expect(try await other.rulesRecord()?.sequence == 0)
  }
}
