import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import NIOCore
import Synchronization
import Testing

@testable import CanopyClient

/// Writes over a quota: the client holds them for the time that the server names, and sends them again.
@Suite(.timeLimit(.minutes(20))) struct HeldWriteTests {
  /// The timers of a client for held writes, which a test fires itself.
  private final class Waits: Sendable {
    /// The milliseconds of all waits so far.
    let begun = Received<Int64>()
    private let bodies = Mutex<[@Sendable () -> Void]>([])

    /// Ends the last wait.
    func end() {
      bodies.withLock { $0.popLast() }?()
    }

    func change(_ options: inout DatabaseOptions, _ clock: ManualClock) {
      options.keepaliveMilliseconds = 60_000
      options.requestMilliseconds = 60_000
      options.environment.now = { clock.now }
      options.environment.schedule = { milliseconds, body in
        // Shorter ones belong to attempts to connect.
        guard (100..<60_000).contains(milliseconds) || milliseconds == HeldWrites.waitMax else {
          return ClientEnvironment.live.schedule(milliseconds, body)
        }
        self.bodies.withLock { $0.append(body) }
        self.begun.add(milliseconds)
      }
    }
  }

  /// A server that takes one write in a second from a user, and a client of a user.
  private final class Scene: Sendable {
    let backend: Backend
    let proxy: RewritingProxy
    let waits = Waits()
    let database: Database
    /// The values of `/n` that the server has committed.
    let committed = Received<String>()
    /// The values of `/n` that the client has shown, and the outcomes of its writes.
    let log = Received<String>()
    let states = Received<Bool>()

    init(_ backend: Backend) async throws {
      self.backend = backend
      proxy = RewritingProxy(target: backend.port)
      let port = try await proxy.start()
      let (waits, clock) = (waits, backend.parts.clock)
      database = try backend.anonymousClient(through: port) { waits.change(&$0, clock) }
    }

    var n: DatabaseReference { database.reference(withPath: "n") }

    /// The number of writes that the server has refused.
    var refused: Int {
      backend.parts.operations.quotas?.refused.reduce(0) { $0 + $1.count } ?? 0
    }

    /// Signs a new user in, and makes the first write.
    func begin() async throws {
      try await backend.replaceRules(by: #"{"rules":{".read":true,".write":true}}"#)
      try await Auth.auth(database: database).createUser(
        withEmail: "ada@example.org", password: "secret words of ada")
      let (log, states, committed) = (log, states, committed)
      n.observe(.value, with: { log.add($0.text) })
      try await backend.client().reference(withPath: "n").observe(
        .value, with: { committed.add($0.text) })
      await log.wait(for: 1)
      await committed.wait(for: 1)
      try await n.setValue(0)
      await committed.wait(for: 2)
      database.reference(withPath: ".info/connected").observe(
        .value, with: { states.add($0.value as? Bool ?? false) })
      await states.wait { $0.last == true }
    }

    func set(_ value: Int, at path: String = "n") {
      let log = log
      database.reference(withPath: path).setValue(value) { error, _ in
        log.add((error as? DatabaseError)?.code.rawValue ?? "saved \(value)")
      }
    }

    /// Returns when the server has answered a request that the client has sent after all earlier ones.
    func pause() async throws {
      _ = try await database.reference(withPath: "other").getData()
    }

    /// Delivers the replies that the proxy holds back, once it has the first one.
    func releaseReplies() async throws {
      await proxy.holding.wait(for: 1)
      try await proxy.release()
    }

    /// Ends a wait after its time has passed at the server.
    func endWait() {
      backend.parts.clock.advance(1_000)
      waits.end()
    }

    /// Makes the client lose its connection, and waits for another one.
    func reconnect() async {
      let count = states.values.count
      database.repository.use { $0.reconnect("the test ends the connection") }
      await states.wait { $0.count >= count + 2 && $0.last == true }
    }
  }

  private func withScene(
    _ kind: WireKind, writes: Int = 1, _ body: (Scene) async throws -> Void
  ) async throws {
    var limits = Limits()
    limits.writesPerSecond = writes
    limits.writeBurstSeconds = 1
    let quotas = WriteQuotas(limits, exemptsThisMachine: false)
    try await withBackend(over: kind, quotas: quotas) { backend in
      let scene = try await Scene(backend)
      try await scene.begin()
      try await body(scene)
      scene.database.goOffline()
      try await scene.proxy.stop()
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a refused write is sent again after the time that the server names, and not before`(
    _ kind: WireKind
  ) async throws {
    try await withScene(kind) { scene in
      let connections = scene.proxy.connections
      scene.set(1)
      #expect(await scene.waits.begun.wait(for: 1) == [1_000])
      scene.backend.parts.clock.advance(1_000)
      // The server would take it now.
      try await scene.pause()
      #expect(try scene.backend.node("n") == 0)
      // A read has the value that the observers see.
      #expect(try await scene.n.getData().value as? Int == 1)
      let whole = try await scene.database.reference().getData()
      #expect(whole.childSnapshot(forPath: "n").value as? Int == 1)
      scene.waits.end()
      #expect(await scene.log.wait { $0.last == "saved 1" } == ["nothing", "0", "1", "saved 1"])
      #expect(try scene.backend.node("n") == 1)
      // The connection has stayed.
      #expect(
        scene.states.values.filter { !$0 }.count <= 1 && scene.proxy.connections == connections)
      #expect(scene.refused == 1 && scene.waits.begun.values.count == 1)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `writes that were sent behind a refused one, and later ones, are made in their order`(
    _ kind: WireKind
  ) async throws {
    try await withScene(kind) { scene in
      scene.proxy.hold("1000 ms")
      for number in 1...3 { scene.set(number) }
      try await eventually { scene.refused == 3 }
      try await scene.releaseReplies()
      await scene.waits.begun.wait(for: 1)
      scene.set(4)
      // One write is made in each second. The next ones are refused: two at first, then one.
      for (made, refused) in [(1, 5), (2, 7), (3, 8), (4, 8)] {
        scene.endWait()
        await scene.log.wait { $0.last == "saved \(made)" }
        try await eventually { scene.refused == refused }
        if made < 4 { await scene.waits.begun.wait(for: made + 1) }
      }
      #expect(scene.waits.begun.values == Array(repeating: 1_000, count: 4))
      #expect(await scene.committed.wait(for: 6) == ["nothing", "0", "1", "2", "3", "4"])
      #expect(
        scene.log.values.filter { !$0.hasPrefix("saved") } == ["nothing", "0", "1", "2", "3", "4"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a refused transaction is sent again, and a write after it follows it`(_ kind: WireKind)
    async throws
  {
    try await withScene(kind) { scene in
      let calls = Received<Int>()
      let log = scene.log
      scene.n.runTransactionBlock(
        { data in
          let value = data.value as? Int ?? 0
          calls.add(value)
          data.value = value + 1
          return .success(withValue: data)
        },
        andCompletionBlock: { error, isCommitted, snapshot in
          log.add(error.map { "\($0)" } ?? "\(isCommitted) \(snapshot?.text ?? "")")
        })
      await scene.waits.begun.wait(for: 1)
      scene.set(5)
      scene.endWait()
      await log.wait { $0.contains("true 1") }
      #expect(calls.values == [0])
      await scene.waits.begun.wait(for: 2)
      scene.endWait()
      await log.wait { $0.last == "saved 5" }
      #expect(log.values == ["nothing", "0", "1", "5", "true 1", "saved 5"])
      #expect(await scene.committed.wait(for: 4) == ["nothing", "0", "1", "5"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a wait goes on while the connection is lost, and no write of the next one overtakes`(
    _ kind: WireKind
  ) async throws {
    try await withScene(kind) { scene in
      scene.set(1)
      await scene.waits.begun.wait(for: 1)
      await scene.reconnect()
      scene.backend.parts.clock.advance(1_000)
      scene.set(2)
      try await scene.pause()
      #expect(try scene.backend.node("n") == 0 && scene.refused == 1)
      scene.waits.end()
      await scene.log.wait { $0.last == "saved 1" }
      await scene.waits.begun.wait(for: 2)
      scene.endWait()
      await scene.log.wait { $0.last == "saved 2" }
      #expect(scene.log.values == ["nothing", "0", "1", "2", "saved 1", "saved 2"])
      #expect(await scene.committed.wait(for: 4) == ["nothing", "0", "1", "2"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a wait that ends offline delays no write of the next connection`(_ kind: WireKind)
    async throws
  {
    try await withScene(kind, writes: 2) { scene in
      scene.set(1)
      scene.set(2)
      await scene.waits.begun.wait(for: 1)
      await scene.log.wait { $0.contains("saved 1") }
      scene.database.goOffline()
      scene.set(3)
      scene.endWait()
      let made = try scene.backend.node("n")
      #expect(made == 1)
      scene.database.goOnline()
      await scene.log.wait { $0.last == "saved 3" }
      #expect(await scene.committed.wait(for: 5) == ["nothing", "0", "1", "2", "3"])
      #expect(scene.waits.begun.values.count == 1)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `writes without an answer keep their place behind a held one when the connection is lost`(
    _ kind: WireKind
  ) async throws {
    try await withScene(kind) { scene in
      scene.proxy.hold("1000 ms")
      scene.set(1)
      await scene.proxy.holding.wait(for: 1)
      for number in 2...3 { scene.set(number) }
      try await eventually { scene.refused == 3 }
      let counts = Received<Int>()
      scene.database.repository.use { state in
        // The answer to the first alone arrives.
        state.takeAnswer(.failure(WireError(.rateLimited, retryMilliseconds: 1_000, "later")))
        counts.add(state.sentRequests.count)
      }
      #expect(await counts.wait(for: 1) == [2])
      await scene.reconnect()
      for made in 1...3 {
        scene.endWait()
        await scene.log.wait { $0.last == "saved \(made)" }
        if made < 3 { await scene.waits.begun.wait(for: made + 1) }
        try await eventually { scene.refused == [5, 6, 6][made - 1] }
      }
      #expect(await scene.committed.wait(for: 5) == ["nothing", "0", "1", "2", "3"])
    }
  }

  @Test
  func `over a WebSocket a held write ends if the server has made a later one at its location`()
    async throws
  {
    try await withScene(.realtime) { scene in
      scene.proxy.hold("1000 ms")
      scene.set(1)
      scene.set(9, at: "elsewhere")
      try await eventually { scene.refused == 2 }
      scene.backend.parts.clock.advance(1_000)
      scene.set(2)
      await scene.committed.wait { $0.last == "2" }
      try await scene.releaseReplies()
      await scene.log.wait { $0.contains("saved 2") }
      #expect(
        scene.log.values == ["nothing", "0", "1", "2", "unavailable", "saved 2"])
      scene.endWait()
      await scene.log.wait { $0.last == "saved 9" }
      #expect(try scene.backend.node("n") == 2 && scene.backend.node("elsewhere") == 9)
    }
  }

  @Test func `over lines the server makes no later write before a held one`() async throws {
    try await withScene(.line) { scene in
      scene.proxy.hold("1000 ms")
      scene.set(1)
      try await eventually { scene.refused == 1 }
      scene.backend.parts.clock.advance(1_000)
      scene.set(2)
      try await eventually { scene.refused == 2 }
      try await scene.releaseReplies()
      for (number, refused) in [(1, 3), (2, 3)] {
        await scene.waits.begun.wait(for: number)
        scene.endWait()
        await scene.log.wait { $0.last == "saved \(number)" }
        try await eventually { scene.refused == refused }
      }
      #expect(await scene.committed.wait(for: 4) == ["nothing", "0", "1", "2"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `connections of one user send each held write once in each wait`(_ kind: WireKind)
    async throws
  {
    try await withScene(kind) { scene in
      let (waits, clock) = (Waits(), scene.backend.parts.clock)
      let other = try scene.backend.anonymousClient { waits.change(&$0, clock) }
      try await Auth.auth(database: other).signIn(
        withEmail: "ada@example.org", password: "secret words of ada")
      scene.set(1)
      await scene.waits.begun.wait(for: 1)
      let log = Received<String>()
      other.reference(withPath: "m").setValue(2) { error, _ in
        log.add(error.map { "\($0)" } ?? "saved")
      }
      await waits.begun.wait(for: 1)
      scene.endWait()
      await scene.log.wait { $0.last == "saved 1" }
      waits.end()
      await waits.begun.wait(for: 2)
      #expect(waits.begun.values == [1_000, 1_000] && scene.refused == 3)
      clock.advance(1_000)
      waits.end()
      #expect(await log.wait(for: 1) == ["saved"])
      #expect(try scene.backend.node("m") == 2 && scene.refused == 3)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `held writes can be dropped, and later ones are not refused for their sake`(
    _ kind: WireKind
  ) async throws {
    try await withScene(kind) { scene in
      scene.set(1)
      await scene.waits.begun.wait(for: 1)
      scene.database.purgeOutstandingWrites()
      scene.set(2)
      await scene.log.wait { $0.contains("writeCanceled") }
      scene.endWait()
      await scene.log.wait { $0.last == "saved 2" }
      #expect(scene.refused == 1)
      #expect(await scene.committed.wait(for: 3) == ["nothing", "0", "2"])
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a cancelled task leaves its held write, and a deleted database ends it`(_ kind: WireKind)
    async throws
  {
    try await withScene(kind) { scene in
      let n = scene.n
      let task = Task { try await n.setValue(1) }
      await scene.waits.begun.wait(for: 1)
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      scene.endWait()
      await scene.committed.wait { $0.last == "1" }
      scene.set(2)
      await scene.waits.begun.wait(for: 2)
      await scene.database.end(DatabaseError(.appDeleted, "the test has ended it"))
      await scene.log.wait { $0.last == "appDeleted" }
      scene.endWait()
      let made = try scene.backend.node("n")
      #expect(made == 1)
    }
  }

  @Test(
    arguments: [
      (0, 1), (1, 1), (100, 100), (3_600_000, 3_600_000), (3_600_001, 3_600_000),
      (Int64.max, 3_600_000),
    ] as [(Int64, Int64)])
  func `a wait has at least a millisecond and at most an hour`(_ named: Int64, _ held: Int64)
    async throws
  {
    var options = DatabaseOptions()
    let waits = Waits()
    waits.change(&options, ManualClock())
    let schedule = options.environment.schedule
    let short = Received<Int64>()
    options.environment.schedule = { milliseconds, body in
      if milliseconds < 100 { short.add(milliseconds) } else { schedule(milliseconds, body) }
    }
    let database = try Database(url: "canopy://127.0.0.1:1", options: options)
    database.goOffline()
    database.reference(withPath: "n").setValue(1) { _, _ in }
    database.repository.use { state in
      guard let id = state.tree.writes.records.keys.first else { return }
      let request = SentRequest.write(id, number: 1, EncodedRequest(line: ByteBuffer(), number: 0))
      _ = state.hold(request, for: named, WireError(.rateLimited, "later"))
    }
    let received = held == 1 ? short : waits.begun
    #expect(await received.wait(for: 1) == [held])
  }

  @Test(arguments: WireKind.allCases)
  func `a post for which the user has no storage left is undone, with an error`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind, storageBytesMax: 1_000) { backend in
      let clock = backend.parts.clock
      let database = try backend.anonymousClient { $0.environment.now = { clock.now } }
      let user = try await Auth.auth(database: database).createUser(
        withEmail: "ada@example.org", password: "secret words of ada", username: "ada"
      ).user
      let root = database.reference()
      if kind == .realtime {
        try await root.child("users/\(user.uid)").setValue(["username": "ada"])
      }
      let log = Received<String>()
      root.child("posts").observe(.childAdded, with: { log.add("+\($0.childrenCount)") })
      root.child("posts").observe(.childRemoved, with: { log.add("-\($0.childrenCount)") })
      for count in [500, 900] {
        let key = try #require(root.child("posts").childByAutoId().key)
        let text = String(repeating: "x", count: count)
        let post = ["uid": user.uid, "author": "ada", "title": "t", "body": text]
        root.updateChildValues(["posts/\(key)": post, "user-posts/\(user.uid)/\(key)": post]) {
          error, _ in
          let error = error as? DatabaseError
          log.add(error.map { "\($0.code) \($0.sentence.contains("1000 bytes"))" } ?? "saved")
        }
        await log.wait(for: count == 500 ? 2 : 5)
      }
      #expect(log.values == ["+4", "saved", "+4", "-4", "tooLarge true"])
      #expect(backend.root.child("posts").childCount == 1)
    }
  }
}
