import CanopyAccounts
import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import CanopyWire
import Synchronization
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// The on-disconnect writes of a connection as one commit.
@Suite(.timeLimit(.minutes(20))) struct DisconnectCommitTests {
  @Test(arguments: Depth.allCases)
  func `another client hears of all operations of a connection by one event`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let watcher = try await server.connectAsAdministrator()
      try await watcher.value("SET /room {\"ada\":\"here\",\"count\":1}")
      let start = try await watcher.begin("LISTEN /room {\"events\":\"value\"}")
      #expect(start.events.map(\.brief) == ["value"])
      let client = try await server.connectAsAdministrator()
      for request in [
        "SET /room/ada \"gone\"", "UPDATE /room {\"count\":{\".sv\":{\"increment\":-1}},\"x\":1}",
        "REMOVE /room/x", "SET /room/last/name \"ada\"", "CANCEL /room/nothing",
      ] {
        try await client.expect("ONDISCONNECT \(request)", "+null")
      }
      let before = server.parts.journal.count
      await client.disconnect()
      let expected = "{\"ada\":\"gone\",\"count\":0,\"last\":{\"name\":\"ada\"}}"
      let event = try await watcher.event()
      #expect(event.data == (try JSONValue(json: expected)))
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(try await watcher.arrived().isEmpty)
      #expect(server.parts.journal.count == before + 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `the dropped ones of a connection's operations are gone with the commit of the others`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      let rules = """
        { "rules": { "open": { ".write": true },
            "$any": { ".write": "root.child('open').val() === true" } } }
        """
      try await server.set(rules: rules)
      let root = try await server.connectAsAdministrator()
      try await root.value("SET /open true")
      let ada = try await server.connect(as: "ada")
      for request in ["SET /a 1", "SET /open false", "SET /b 1", "SET /open/x 1"] {
        try await ada.value("ONDISCONNECT \(request)")
      }
      let before = server.parts.journal.count
      await ada.disconnect()
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.child("a") == 1 && server.root.child("b").isAbsent)
      #expect(server.root.child("open").child("x") == 1)
      let commits = server.parts.journal.base.commits
      #expect(commits.count == before + 1)
      #expect(commits.last?.completedDisconnectWrites.count == 4)
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("rules do not allow") && $0.contains("/b") }
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `the log has a bounded number of lines about dropped operations, and counts the others`(
    _ depth: Depth
  ) async throws {
    try await withServer(depth) { server in
      try await server.set(
        rules: #"{"rules":{".write":"root.child('closed').val() !== true"}}"#)
      let linesMax = LogLineLimit.linesMax
      for index in 0..<(linesMax + 2) {
        let client = try await server.connect()
        try await client.value("ONDISCONNECT SET /n\(index) 1")
        try await server.connectAsAdministrator().value("SET /closed true")
        await client.disconnect()
        try await server.eventually { try await server.hasMadeWrites() }
        try await server.connectAsAdministrator().value("SET /closed false")
      }
      func lines() -> [String] {
        server.parts.log.lines.filter { $0.contains("rules do not allow") }
      }
      try await server.eventually { lines().count == linesMax }
      #expect(lines().count == linesMax)
      server.parts.clock.advance(1_000)
      let last = try await server.connect()
      try await last.value("ONDISCONNECT SET /last 1")
      try await server.connectAsAdministrator().value("SET /closed true")
      await last.disconnect()
      try await server.eventually { lines().count == linesMax + 1 }
      #expect(lines().last?.contains(#""suppressed": 2"#) == true)
    }
  }

  @Test(arguments: Depth.allCases)
  func
    `of two users of a connection, the operations of the one whose login was revoked are dropped`(
      _ depth: Depth
    ) async throws
  {
    try await withServer(depth) { server in
      try await server.set(rules: #"{"rules":{"p":{"$u":{".write":"auth.uid === $u"}}}}"#)
      let client = try await server.connect()
      var uids: [String] = []
      for name in ["ada", "eve"] {
        uids.append(try await client.text("uid", TestServer.signUp(name)))
        for key in ["x", "y"] {
          try await client.value("ONDISCONNECT SET /p/\(uids.last ?? "")/\(key) 1")
        }
      }
      let other = try await server.connect()
      try await other.value("LOGIN ada@example.org \"secret words of ada\"")
      try await other.value("PASSWORD \"secret words of ada\" \"other words of ada\"")
      let before = server.parts.journal.count
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains {
          $0.contains("have been revoked; they are dropped") && $0.contains("\"writes\": 2")
        }
      }
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.child("p") == (try Node(json: "{\"\(uids[1])\":{\"x\":1,\"y\":1}}")))
      #expect(server.parts.journal.count == before + 1)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a name that is taken, or changed too soon, is dropped, and the log says why`(_ depth: Depth)
    async throws
  {
    try await withServer(depth) { server in
      func isLogged(_ reason: String) -> Bool {
        server.parts.log.lines.contains {
          $0.contains("on-disconnect writes were refused") && $0.contains(reason)
        }
      }
      let (ada, bob) = (try await Person(server, "ada"), try await Person(server, "bob"))
      try await ada.write(RawWriteTests.id("x"))
      try await ada.client.value("ONDISCONNECT SET /users/\(ada.uid)/username \"carl\"")
      try await ada.client.value(
        "ONDISCONNECT SET /posts/\(RawWriteTests.id("x"))/title \"Offline\"")
      try await bob.client.value("RENAME carl")
      await ada.client.disconnect()
      try await server.eventually { isLogged("carl is taken") }
      try await server.eventually { try await server.hasMadeWrites() }
      let posts = ["posts", "user-posts/\(ada.uid)"]
      for place in posts {
        let post = server.root.at(try Path("\(place)/\(RawWriteTests.id("x"))"))
        #expect(post.child("title") == "Offline" && post.child("author") == "ada")
      }
      let key = try Key(bob.uid)
      server.parts.operations.renames.withLock { renames in
        while renames.take(key, cost: 100, now: server.parts.clock.now) == nil {}
      }
      try await bob.client.value("ONDISCONNECT SET /users/\(bob.uid)/username \"dora\"")
      await bob.client.disconnect()
      try await server.eventually { isLogged("try again") }
      try await server.eventually { try await server.hasMadeWrites() }
      #expect(server.root.at(try Path("usernames/dora")).isAbsent)
      #expect(SocialCheck.problems(in: server.root) == [])
    }
  }

  @Test func `the next start makes the writes of each connection in one commit`() async throws {
    let parts = try await LineParts()
    for (request, group) in [
      ("SET /a/x {\".sv\":{\"increment\":1}}", nil), ("SET /b 1", nil),
      ("SET /a/y 1", 1), ("SET /c nonsense", 1), ("SET /a/x {\".sv\":{\"increment\":1}}", 1),
      ("SET /b/c 1", 2), ("SET /d 1", nil),
    ] as [(String, DisconnectWriteID?)] {
      _ = try await parts.journal.changeDisconnectWrites(
        adding: ("administrator", request), to: group, exceptions: [:], removing: [])
    }
    let engine = Task { await parts.run() }
    try await parts.operations.carryOutAbandoned()
    #expect(
      parts.engine.root
        == (try WriteValue(json: "{\"a\":{\"x\":2,\"y\":1},\"b\":{\"c\":1},\"d\":1}").node))
    #expect(
      parts.journal.base.commits.map(\.completedDisconnectWrites) == [[1, 3, 5], [2, 6], [7]])
    #expect(try await parts.journal.disconnectWrites().isEmpty)
    parts.engine.stop()
    await engine.value
  }

  @Test(arguments: [JournalFault.failBefore, .failAfter])
  func `a next start whose journal fails makes each operation once`(fault: JournalFault)
    async throws
  {
    let parts = try await LineParts()
    for index in 0..<4 {
      _ = try await parts.journal.changeDisconnectWrites(
        adding: ("administrator", "SET /n {\".sv\":{\"increment\":1}}"),
        to: index == 0 ? nil : 1, exceptions: [:], removing: [])
    }
    parts.journal.plan(fault)
    let engine = Task { await parts.run() }
    try await parts.operations.carryOutAbandoned()
    try await eventually {
      parts.waits.advance(by: .seconds(1))
      return parts.operations.isIdle
    }
    #expect(parts.engine.root == (try WriteValue(json: "{\"n\":4}").node))
    #expect(parts.journal.count == 1)
    parts.engine.stop()
    await engine.value
  }

  /// An operation as a request and as its effect on the list of a simple model.
  private struct Operation {
    var text: String
    var items: [(location: Location, json: String)] = []
    var isCancel = false
  }

  private func operation(_ random: inout SeededGenerator) throws -> Operation {
    func place() -> String {
      (0...Int.random(in: 0...2, using: &random)).map { _ in random.pick(["a", "b"]) }
        .joined(separator: "/")
    }
    let values = ["1", "null", "{\"b\":2,\"c\":{\"a\":3}}", "{\".sv\":{\"increment\":1}}"]
    let (path, value) = (place(), random.pick(values))
    let location = try Location(path)
    switch Int.random(in: 0..<6, using: &random) {
    case 0: return Operation(text: "CANCEL /\(path)", items: [(location, "")], isCancel: true)
    case 1: return Operation(text: "REMOVE /\(path)", items: [(location, "null")])
    case 2:
      let other = random.pick(values)
      return Operation(
        text: "UPDATE /\(path) {\"c\":\(value),\"d/a\":\(other)}",
        items: [(try Location("\(path)/c"), value), (try Location("\(path)/d/a"), other)])
    default: return Operation(text: "SET /\(path) \(value)", items: [(location, value)])
    }
  }

  @Test func `random operations are made as by a model that folds them one after the other`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "DisconnectCommitTests.random")
    let parts = try await LineParts()
    let engine = Task { await parts.run() }
    var model = ModelTree()
    for round in 0..<60 {
      var armed: [ArmedWrite] = []
      var items: [(location: Location, json: String)] = []
      for _ in 0..<Int.random(in: 1...8, using: &random) {
        let operation = try operation(&random)
        let line = "ONDISCONNECT " + operation.text
        let request = try Array(line.utf8).withUnsafeBytes {
          try Request(line: $0, limits: Limits())
        }
        guard case .connection(.onDisconnect(let request, let text)) = request else {
          throw PlannedFailure()
        }
        let completion = await parts.operations.onDisconnect(
          request, text: text, as: .administrator, armed)
        armed = try #require(completion.armed)
        items.removeAll { item in
          operation.items.contains { item.location.path.hasPrefix($0.location.path) }
        }
        if !operation.isCancel { items += operation.items }
      }
      for item in items {
        let write = try Write.set(item.location, WriteValue(json: item.json))
        model.apply(write.resolved(in: model.root, at: parts.clock.now))
      }
      let commits = parts.journal.count
      if random.oneIn(2) {
        parts.operations.carryOut(armed, as: .administrator, from: "a") { _ in }
      } else {
        // As if the process had ended before the connection.
        try await parts.operations.carryOutAbandoned()
      }
      try await eventually {
        try await parts.journal.disconnectWrites().isEmpty && !parts.engine.hasCommitsUnderWay
      }
      #expect(parts.engine.root == model.root, "round \(round)")
      #expect(parts.journal.count == commits + (items.isEmpty ? 0 : 1))
      if parts.engine.root != model.root { break }
    }
    parts.engine.stop()
    await engine.value
  }
}
