import CanopyAccounts
import CanopyEngine
import CanopyEvents
import CanopyTesting
import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyLineServer
@testable import CanopySession

/// USE: the namespace of a connection.
@Suite(.timeLimit(.minutes(20))) struct NamespaceTests {
  private func withNamespaces(
    _ depth: Depth, _ names: [String], _ body: (TestServer, MemoryNamespaces) async throws -> Void
  ) async throws {
    let source = try MemoryNamespaces(names)
    try await withServer(depth) {
      $0.namespaces = source
    } _: {
      try await body($0, source)
    }
  }

  @Test(arguments: Depth.allCases)
  func `requests after USE concern the namespace, in their order`(_ depth: Depth) async throws {
    try await withNamespaces(depth, ["a", "b"]) { server, source in
      let client = try await server.connectAsAdministrator()
      try await client.send(
        """
        SET /x 1
        USE a
        SET /x 2
        GET /x
        USE b
        GET /x
        SET /x 3
        USE default
        GET /x
        use a
        GET /x

        """)
      let replies = try await client.readLines(11)
      expectReply(replies[1], to: "USE a", "+\"a\"")
      expectReply(replies[4], to: "USE b", "+\"b\"")
      expectReply(replies[7], to: "USE default", "+\"default\"")
      #expect([3, 5, 8, 10].map { replies[$0] } == ["+2", "+null", "+1", "+2"])
      #expect(source.opened == ["a", "b"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `ONCE, CAS and since know the commits of their namespace alone`(_ depth: Depth) async throws
  {
    try await withNamespaces(depth, ["a"]) { server, _ in
      let client = try await server.connectAsAdministrator()
      let once = "ONCE k 1 0 SET /n {\".sv\":{\"increment\":1}}"
      try await client.value(once)
      let tag = try await client.text("etag", "GET /n {\"etag\":true}")
      try await client.value("USE a")
      // It is another write here.
      try await client.value(once)
      try await client.value("SET /n 5")
      let refused = try await client.value("CAS /n \(tag) 1")
      #expect(refused["committed"] == .leaf(false))
      try await client.value("SET /n 6")
      let resumed = try await client.begin("LISTEN /n {\"events\":\"value\",\"since\":2}")
      #expect(resumed.sequence == 3 && resumed.events.map(\.sequence) == [3])
      let other = try await server.connectAsAdministrator()
      try await other.value(once)
      try await other.expect("GET /n", "+1")
    }
  }

  @Test(arguments: Depth.allCases)
  func `a write behind USE does not overtake a CAS of a large value there`(_ depth: Depth)
    async throws
  {
    try await withNamespaces(depth, ["a"]) { server, _ in
      let owner = try await server.connectAsAdministrator()
      try await owner.value("USE a")
      let large = String(repeating: "x", count: 20_000)
      for turn in 0..<5 {
        try await owner.value("SET /a {\"text\":\"\(large)\"}")
        let etag = try await owner.text("etag", "GET /a {\"etag\":true}")
        // When these lines come, the connection is in a namespace where nothing is at this path.
        let client = try await server.connectAsAdministrator()
        let compared = "CAS /a \(etag) {\"b\":\(turn)}"
        try await client.send("USE a\n\(compared)\nSET /a/c 3\nGET /a\n")
        try await client.expectNext(to: "USE a", "+\"a\"")
        try await client.expectNext(to: compared, hasPrefix: "+{\"committed\":true")
        try await client.expectNext(to: "SET /a/c 3", hasPrefix: "+{\"seq\":")
        try await client.expectNext(to: "GET /a", "+{\"b\":\(turn),\"c\":3}")
      }
    }
  }

  @Test(arguments: Depth.allCases)
  func `a connection with a subscription or an armed write stays in its namespace`(_ depth: Depth)
    async throws
  {
    try await withNamespaces(depth, ["a"]) { server, source in
      let client = try await server.connectAsAdministrator()
      let number = try await client.begin("LISTEN /x").sub
      try await client.expect("USE a", failsWith: "CONFLICT")
      #expect(source.opened == [])
      try await client.value("UNLISTEN \(number)")
      try await client.value("ONDISCONNECT SET /gone true")
      try await client.expect("USE a", failsWith: "CONFLICT")
      try await client.value("ONDISCONNECT CANCEL /gone")
      try await client.value("USE a")
      try await client.value("ONDISCONNECT SET /gone true")
      try await client.expect("USE default", failsWith: "CONFLICT")
      await client.disconnect()
      let other = try await server.connectAsAdministrator()
      try await other.value("USE a")
      try await server.eventually { try await other.request("GET /gone") == "+true" }
      #expect(server.root.isAbsent)
    }
  }

  @Test(arguments: Depth.allCases)
  func `a login holds in all namespaces, and the blog is in one`(_ depth: Depth) async throws {
    try await withNamespaces(depth, ["a"]) { server, _ in
      let client = try await server.connect(as: "ada")
      try await client.value("USE a")
      #expect(try await client.text("username", "WHOAMI") == "ada")
      for line in [
        "POST t b", "SHOW x", "RECENT", "TOP", "STAR x", "COMMENTS x", "WATCH RECENT", "PROFILE me",
        "RENAME eve",
      ] {
        let refusal = try await client.refusal(line)
        #expect(refusal.code == "NOT_FOUND" && refusal.sentence.contains("has no blog"), "\(line)")
      }
      try await client.value("PASSWORD \"\(TestServer.password("ada"))\" \"another secret of ada\"")
      try await client.value("LOGOUT")
      try await client.value("SIGNUP eve@example.org \"secret words of eve\" eve")
      #expect(try await client.text("username", "WHOAMI") == "eve")
      try await client.value("USE default")
      try await client.value("POST t b")
    }
  }

  @Test(arguments: Depth.allCases)
  func `listeners of a revoked login end in every namespace`(_ depth: Depth) async throws {
    try await withNamespaces(depth, ["a"]) { server, _ in
      let administrator = try await server.connectAsAdministrator()
      try await administrator.value("USE a")
      try await administrator.value(
        "RULES \"{\\\"rules\\\":{\\\".read\\\":\\\"auth != null\\\"}}\"")
      let client = try await server.connect(as: "ada")
      try await client.value("USE a")
      let number = try await client.begin("LISTEN /x {\"events\":\"value\"}").sub
      let other = try await server.connect()
      try await other.value("LOGIN ada@example.org \"\(TestServer.password("ada"))\"")
      try await other.value("PASSWORD \"\(TestServer.password("ada"))\" \"another secret of ada\"")
      let event = try await client.event()
      #expect(event.sub == number && event.brief.hasPrefix("cancel"), "\(event)")
    }
  }

  @Test(arguments: Depth.allCases)
  func `USE of no namespace changes nothing`(_ depth: Depth) async throws {
    try await withNamespaces(depth, ["a"]) { server, source in
      let client = try await server.connectAsAdministrator()
      try await client.value("USE a")
      try await client.value("SET /x 1")
      try await client.expect("USE missing", failsWith: "NOT_FOUND")
      for name in ["..", "A", "\"\"", "a/b", "é", "%2e"] {
        try await client.expect("USE \(name)", failsWith: "BAD_REQUEST")
      }
      try await client.expect("USE", failsWith: "BAD_REQUEST")
      try await client.expect("USE a b", failsWith: "BAD_REQUEST")
      try await client.expect("GET /x", "+1")
      #expect(source.opened == ["a"])
    }
  }

  @Test(arguments: Depth.allCases)
  func `a connection that is gone no longer keeps its namespace open`(_ depth: Depth) async throws {
    let source = try MemoryNamespaces(["a", "b"])
    try await withServer(depth) {
      $0.namespaces = source
      $0.namespaceSettings.openMax = 1
    } _: { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("USE a")
      try await client.value("SET /x 1")
      let other = try await server.connectAsAdministrator()
      try await other.expect("USE b", failsWith: "OVERLOADED")
      await client.disconnect()
      try await server.eventually { try await other.request("USE b") == "+\"b\"" }
      #expect(source.closed == ["a"])
      // A change to another namespace leaves the one before.
      try await other.value("USE default")
      try await other.value("USE a")
      try await other.expect("GET /x", "+1")
    }
  }

  @Test(arguments: [nil, "LISTEN /.info/connected {\"events\":\"value\"}", "SET /x 1", "LOGIN"])
  func `a namespace that only resting connections use leaves its place for another one`(
    _ line: String?
  ) async throws {
    let source = try MemoryNamespaces(["a", "b", "c"])
    try await withServer(.socket) {
      $0.namespaces = source
      $0.namespaceSettings.openMax = 2
    } _: { server in
      let first = try await server.connect()
      try await first.value("USE a")
      if line == "LOGIN" {
        try await first.value(TestServer.signUp("ada"))
      } else if let line {
        _ = try await first.request(line)
        if line.hasPrefix("LISTEN") { _ = try await first.event() }
      }
      let second = try await server.connect()
      try await second.value("USE b")
      let third = try await server.connect()
      try await third.value("USE c")
      #expect(source.closed == ["a"])
      #expect(
        try await first.readLine()
          == "-UNAVAILABLE the namespace a was closed for another one, because this connection was idle; "
          + "connect again")
      await #expect(throws: (any Error).self) { _ = try await first.readLine() }
      try await second.expect("GET /x", "+null")
      try await third.expect("GET /x", "+null")
      #expect(server.parts.operations.namespaces.openCount == 2)
    }
  }

  @Test(arguments: ["LISTEN /x", "ONDISCONNECT SET /x 1", "AUTH TOKEN"])
  func `a namespace that a connection with something to lose uses keeps its place`(
    _ line: String
  ) async throws {
    let source = try MemoryNamespaces(["a", "b"])
    try await withServer(.socket) {
      $0.namespaces = source
      $0.namespaceSettings.openMax = 1
    } _: { server in
      let resting = try await server.connect()
      try await resting.value("USE a")
      let busy = try await server.connect()
      try await busy.value("USE a")
      switch line {
      case "AUTH TOKEN": try await busy.value("AUTH \(server.parts.administratorToken.text)")
      case "LISTEN /x": _ = try await busy.begin(line)
      default: try await busy.value(line)
      }
      let other = try await server.connect()
      for _ in 0..<2 {
        try await other.expect("USE b", failsWith: "OVERLOADED")
        server.parts.clock.advance(Namespaces.searchMilliseconds)
      }
      try await resting.expect("GET /x", "+null")
      await busy.disconnect()
      try await server.eventually {
        server.parts.clock.advance(Namespaces.searchMilliseconds)
        return try await other.request("USE b") == "+\"b\""
      }
    }
  }

  @Test func `a client that reads nothing for a minute leaves the place of its namespace`()
    async throws
  {
    let source = try MemoryNamespaces(["a", "b"])
    try await withServer(.socket) {
      $0.namespaces = source
      $0.namespaceSettings.openMax = 1
      $0.limits.unreadReplyBytesMax = 65_536
      $0.receiveBytes = 16_384
    } _: { server in
      let silent = try await server.connect()
      try await silent.value("USE a")
      try await silent.pauseReading()
      let sent = Task { for _ in 0..<10_000 { try await silent.send("HELP\n") } }
      let other = try await server.connect()
      // A client that is slow for a moment keeps its place.
      for _ in 0..<3 {
        server.parts.clock.advance(Namespaces.searchMilliseconds)
        _ = try await other.request("USE b")
      }
      try await server.eventually {
        server.parts.clock.advance(Session.idleMillisecondsMax)
        return try await other.request("USE b") == "+\"b\""
      }
      #expect(source.closed == ["a"])
      await silent.disconnect()
      _ = await sent.result
    }
  }

  @Test func `a namespace whose tree does not fit is not opened, and the others go on`()
    async throws
  {
    let source = try MemoryNamespaces(["a", "b"])
    try await withServer(.inProcess) {
      $0.namespaces = source
      $0.limits.treeMax = 400_000
    } _: { server in
      let operations = server.parts.operations
      let tree = try #require(operations.tree)
      let text = String(repeating: "x", count: 150_000)
      let administrator = try await server.connectAsAdministrator()
      for name in ["a", "b", "default"] {
        try await administrator.value("USE \(name)")
        try await administrator.value("SET /x \"\(text)\"")
      }
      TreeCount.finish()
      #expect(tree.isFull)
      // The idle ones are closed, as the data need the memory.
      await operations.namespaces.closeIdle()
      #expect(source.closed.sorted() == ["a", "b"] && tree.bytes < 200_000 && !tree.isFull)
      let first = try await server.connect()
      try await first.value("USE a")
      let second = try await server.connect()
      for _ in 0..<3 {
        try await second.expect("USE b", failsWith: "UNAVAILABLE", "does not fit")
        server.parts.clock.advance(Namespaces.failureMilliseconds)
      }
      // It is read once, and again when its size is no longer known.
      #expect(source.opened == ["a", "b", "a", "b"] && source.closed.count == 3)
      server.parts.clock.advance(Namespaces.knownSizeMilliseconds)
      try await second.expect("USE b", failsWith: "UNAVAILABLE", "does not fit")
      #expect(source.opened.count == 5)
      #expect(!tree.isFull && tree.bytes < 400_000 && operations.namespaces.openCount == 1)
      let ada = try await server.connect(as: "ada")
      try await ada.value("POST title body")
      try await first.value("SET /y 1")
      // When the other one is idle, it is closed, and this one fits.
      try await first.value("USE default")
      try await second.value("USE b")
      try await second.expect("GET /x", "+\"\(text)\"")
      #expect(source.closed.last == "a" && tree.bytes < 400_000)
      try await ada.value("POST title body")
    }
  }

  @Test func `a namespace stays open while an on-disconnect write waits for another try`()
    async throws
  {
    let source = try MemoryNamespaces(["a"])
    try await withServer(.socket) {
      $0.namespaces = source
    } _: { server in
      let namespaces = server.parts.operations.namespaces
      let client = try await server.connectAsAdministrator()
      try await client.value("USE a")
      try await client.value("ONDISCONNECT SET /gone true")
      source.journal("a")?.fail(true)
      await client.disconnect()
      try await server.eventually {
        server.parts.log.lines.contains { $0.contains("on-disconnect writes failed") }
      }
      server.parts.clock.advance(Namespaces.Settings().idleMilliseconds + 1)
      await namespaces.closeIdle()
      #expect(source.closed == [] && namespaces.openCount == 1)
      source.journal("a")?.fail(false)
      // The server tries again after a second.
      try await server.eventually {
        server.parts.clock.advance(Namespaces.Settings().idleMilliseconds + 1)
        await namespaces.closeIdle()
        return source.closed == ["a"]
      }
      let other = try await server.connectAsAdministrator()
      try await other.value("USE a")
      try await other.expect("GET /gone", "+true")
    }
  }

  @Test func `a namespace opens if its earlier on-disconnect writes cannot be made yet`()
    async throws
  {
    let source = try MemoryNamespaces(["a"])
    let journal = try #require(source.journal("a"))
    _ = try await journal.changeDisconnectWrites(
      adding: ("administrator", "SET /gone true"), exceptions: [:], removing: [])
    journal.plan(.failBefore)
    try await withServer(.inProcess) {
      $0.namespaces = source
    } _: { server in
      let client = try await server.connectAsAdministrator()
      try await client.value("USE a")
      try await client.expect("GET /gone", "+null")
      try await client.value("USE default")
      let namespaces = server.parts.operations.namespaces
      server.parts.clock.advance(Namespaces.Settings().idleMilliseconds + 1)
      await namespaces.closeIdle()
      #expect(source.closed == [], "it tries again")
      let waits = try #require(namespaces.engines.first?.clock as? StepClock)
      try await server.eventually {
        waits.advance(by: .seconds(1))
        server.parts.clock.advance(Namespaces.Settings().idleMilliseconds + 1)
        await namespaces.closeIdle()
        return source.closed == ["a"]
      }
      try await client.value("USE a")
      try await client.expect("GET /gone", "+true")
      #expect(try await journal.disconnectWrites().isEmpty)
    }
  }

  @Test func `nothing of a closed namespace stays in memory`() async throws {
    let source = try MemoryNamespaces(["a"])
    let parts = try await LineParts(namespaces: source)
    let running = Task { await parts.run() }
    let loop = NIOAsyncTestingEventLoop()
    let contexts = LineServer.contexts(parts.operations)
    let references = try await references(to: "a", of: parts, contexts, on: loop)
    #expect(try await loop.executeInContext { references.value.areAlive })
    parts.clock.advance(Namespaces.Settings().idleMilliseconds + 1)
    await parts.operations.namespaces.closeIdle()
    try await eventually { try await loop.executeInContext { references.value.areGone } }
    #expect(source.closed == ["a"])
    parts.engine.stop()
    await running.value
  }

  /// Uses a namespace on a loop, and leaves it.
  private func references(
    to name: String, of parts: LineParts, _ contexts: LoopLocals<NIOLoopBoundBox<LoopContext>>,
    on loop: NIOAsyncTestingEventLoop
  ) async throws -> NIOLoopBound<References> {
    let lease = try await parts.operations.lease(ofNamespace: name)
    defer { lease.release() }
    return try await loop.executeInContext {
      let context = contexts.value(of: loop).value.context(of: lease.operations)
      return NIOLoopBound(
        References(context, lease.operations, lease.operations.engine), eventLoop: loop)
    }
  }

  /// References that keep nothing alive.
  private final class References {
    weak var context: LoopContext?
    weak var operations: Operations?
    weak var engine: Engine?

    init(_ context: LoopContext, _ operations: Operations, _ engine: Engine) {
      self.context = context
      self.operations = operations
      self.engine = engine
    }

    var areAlive: Bool { context != nil && operations != nil && engine != nil }

    var areGone: Bool { context == nil && operations == nil && engine == nil }
  }
}
