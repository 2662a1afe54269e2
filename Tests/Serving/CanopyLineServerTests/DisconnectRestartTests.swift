import CanopyEngine
import CanopyIdentity
import CanopyRules
import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer
@testable import CanopySession
/// On-disconnect writes at the end of a server, and at the start of the next one.
@Suite(.timeLimit(.minutes(20))) struct DisconnectRestartTests {
  @Test(arguments: Depth.allCases)
  func `a server that shuts down makes the write before it ends`(_ depth: Depth) async throws {
    try await withServer(depth) { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("ONDISCONNECT SET /a 1")
      try await server.shutDown()
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.at(try Path("a")) == 1)
    }
  }

  @Test func `the writes of an earlier server are made once, at the next start`() async throws {
    let parts = try await LineParts()
    let journal = parts.journal
    let add = { (request: String) in
      try await journal.changeDisconnectWrites(
        adding: ("administrator", request), exceptions: [:], removing: [])
    }
    _ = try await add("SET /a {\".sv\":{\"increment\":1}}")
    let update = try #require(try await add("UPDATE /u {\"x\":1,\"y\":2}"))
    _ = try await add("SET /a nonsense")
    _ = try await journal.changeDisconnectWrites(
      adding: nil, exceptions: [update: ["u/x"]], removing: [])
    let engine = Task { await parts.run() }
    try await parts.operations.carryOutAbandoned()
    #expect(parts.engine.root == (try WriteValue(json: "{\"a\":1,\"u\":{\"y\":2}}").node))
    #expect(try await journal.disconnectWrites().isEmpty)
    try await parts.operations.carryOutAbandoned()
    #expect(parts.engine.root.at(try Path("a")) == 1)
    #expect(parts.log.lines.count { $0.hasPrefix("error") } == 1)
    parts.engine.stop()
    await engine.value
  }

  @Test
  func `the writes of an earlier server are made in groups, and each session is looked up once`()
    async throws
  {
    let parts = try await LineParts()
    let journal = parts.journal
    for index in 0..<2_500 {
      _ = try await journal.changeDisconnectWrites(
        adding: ("administrator", "SET /a/k\(index) \(index)"), exceptions: [:], removing: [])
    }
    _ = try await journal.changeDisconnectWrites(
      adding: ("administrator", "SET /b nonsense"), exceptions: [:], removing: [])
    let engine = Task { await parts.engine.run() }
    try await parts.operations.carryOutAbandoned()
    #expect(parts.engine.root.at(try Path("a")).childCount == 2_500)
    #expect(journal.groups == [1_000, 1_000, 500])
    #expect(try await journal.disconnectWrites().isEmpty)
    #expect(parts.log.lines.count { $0.contains("made on-disconnect writes") } == 1)
    parts.engine.stop()
    await engine.value
  }

  @Test(arguments: Depth.allCases)
  func `a server that cannot make the writes of an earlier one starts, and makes them later`(
    _ depth: Depth
  ) async throws {
    let journal = FaultyJournal()
    for name in ["a", "b"] {
      _ = try await journal.changeDisconnectWrites(
        adding: ("administrator", "SET /\(name) {\".sv\":{\"increment\":1}}"), exceptions: [:],
        removing: [])
    }
    journal.plan(.failBefore)
    try await withServer(depth) {
      $0.journal = journal
    } _: { server in
      func lines(_ text: String) -> Int { server.parts.log.lines.count { $0.contains(text) } }
      // With the depth of a socket this was called before the port was opened.
      if depth == .inProcess { try await server.parts.operations.carryOutAbandoned() }
      let client = try await server.connectAsAdministrator()
      try await client.expect("GET /a", "+null")
      #expect(lines("on-disconnect writes failed") == 1)
      #expect(!server.parts.operations.isIdle)
      // A write of the present server waits for the end of its own connection.
      try await client.value("ONDISCONNECT SET /c 1")
      try await server.eventually {
        server.parts.waits.advance(by: .seconds(1))
        return server.parts.operations.isIdle
      }
      #expect(server.root == (try WriteValue(json: "{\"a\":1,\"b\":1}").node))
      #expect(try await server.keptWrites() == 1)
      #expect(lines("on-disconnect writes failed") == 1)
      #expect(lines("made on-disconnect writes of connections that ended with the server") == 1)
      #expect(lines("no failed on-disconnect writes are left") == 1)
    }
  }

  @Test func `a write of an earlier server that is dropped waits until the store forgets it`()
    async throws
  {
    let parts = try await LineParts()
    let journal = parts.journal
    for request in ["SET /a nonsense", "SET /b {\".sv\":{\"increment\":1}}"] {
      _ = try await journal.changeDisconnectWrites(
        adding: ("administrator", request), exceptions: [:], removing: [])
    }
    let engine = Task { await parts.engine.run() }
    journal.fail(true)
    try await parts.operations.carryOutAbandoned()
    #expect(try await journal.disconnectWrites().count == 2)
    journal.fail(false)
    try await eventually {
      parts.waits.advance(by: .seconds(1))
      return parts.operations.isIdle
    }
    #expect(try await journal.disconnectWrites().isEmpty)
    #expect(parts.engine.root == (try WriteValue(json: "{\"b\":1}").node))
    #expect(parts.log.lines.count { $0.contains("cannot be read, and is dropped") } == 1)
    parts.engine.stop()
    await engine.value
  }

  @Test func `the log has only the beginning of a write that cannot be read`() async throws {
    let parts = try await LineParts()
    let engine = Task { await parts.engine.run() }
    _ = try await parts.journal.changeDisconnectWrites(
      adding: ("administrator", "\(String(repeating: "x", count: 100_000)) /a 1"), exceptions: [:],
      removing: [])
    try await parts.operations.carryOutAbandoned()
    let lines = parts.log.lines.filter { $0.contains("cannot be read, and is dropped") }
    #expect(lines.count == 1 && lines.allSatisfy { $0.utf8.count < 1_000 })
    parts.engine.stop()
    await engine.value
  }

  @Test func `writes that still fail when the server stops are left for the next start`()
    async throws
  {
    let parts = try await LineParts()
    _ = try await parts.journal.changeDisconnectWrites(
      adding: ("administrator", "SET /a 1"), exceptions: [:], removing: [])
    let engine = Task { await parts.engine.run() }
    parts.journal.fail(true)
    try await parts.operations.carryOutAbandoned()
    parts.engine.stop()
    await engine.value
    try await eventually {
      parts.waits.advance(by: .seconds(1))
      return parts.log.lines.contains { $0.contains("are left for the next start") }
    }
    #expect(try await parts.journal.disconnectWrites().count == 1)
  }

  @Test(arguments: [true, false])
  func `only an emulator makes the write of a user without an account, whose token is unsigned`(
    _ isEmulator: Bool
  ) async throws {
    var identity = IdentitySettings()
    identity.isEmulator = isEmulator
    try await withServer(.inProcess) { [identity] in
      $0.identity = identity
    } _: { server in
      try await server.set(rules: #"{"rules":{".write":"auth.uid === 'robot'"}}"#)
      let caller = RuleCaller(auth: RuleCaller.auth(uid: "robot"), now: 0)
      _ = try await server.parts.journal.changeDisconnectWrites(
        adding: (KeptCaller(caller, session: nil).text, "SET /gone true"), exceptions: [:],
        removing: [])
      try await server.parts.operations.carryOutAbandoned()
      #expect(server.root.at(try Path("gone")) == (isEmulator ? true : .absent))
    }
  }

  @Test func `a store of earlier writes that cannot be read ends the start`() async throws {
    let parts = try await LineParts()
    let operations = Operations(
      engine: parts.engine, accounts: parts.accounts, administratorToken: parts.administratorToken,
      disconnectStore: UnreadableStore(), rules: parts.rules, limits: Limits(), version: "test",
      now: { 0 }, logger: parts.log.logger)
    await #expect(throws: PlannedFailure.self) { try await operations.carryOutAbandoned() }
  }

  @Test func `a line of the log names the first locations and the number of the others`() throws {
    let items = (0..<4_000).map { Write.Item(Path.root.child(Key(index: $0)), 1) }
    let long = try Key(String(repeating: "k", count: 700))
    let writes = [
      ArmedWrite(
        id: 1, write: try Write([.init(Path.root.child(long), 1)]), caller: nil, text: "x"),
      ArmedWrite(id: 2, write: try Write(items), caller: nil, text: "x"),
    ]
    let text = writes.placesForLog
    #expect(text.hasPrefix("\"/kkk"))
    #expect(text.hasSuffix("\"/8\" and 3991 more"))
    #expect(text.utf8.count < 400)
    #expect(writes.prefix(1).placesForLog == "\"/" + String(repeating: "k", count: 199) + "…\"")
  }
}

/// A store that is damaged.
private struct UnreadableStore: DisconnectStore {
  func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    throw PlannedFailure()
  }

  func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> { throw PlannedFailure() }

  func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? { nil }

  func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {}
}
