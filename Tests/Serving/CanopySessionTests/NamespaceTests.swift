import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

/// The open namespaces of a server.
@Suite(.timeLimit(.minutes(20))) struct NamespaceTests {
  /// Runs the engine of a server with namespaces in memory.
  private func withNamespaces(
    _ names: [String], openMax: Int = 32,
    _ body: (MemoryNamespaces, LineParts) async throws -> Void
  ) async throws {
    let source = try MemoryNamespaces(names)
    var settings = Namespaces.Settings()
    settings.openMax = openMax
    let parts = try await LineParts(namespaces: source, namespaceSettings: settings)
    let running = Task { await parts.run() }
    let result: Result<Void, any Error>
    do { result = .success(try await body(source, parts)) } catch { result = .failure(error) }
    source.gate.open()
    parts.engine.stop()
    await running.value
    try result.get()
  }

  private func set(_ path: String, _ json: String, in operations: Operations) async throws {
    let write = TreeWrite.set(Location(try Path(path)), try WriteValue(json: json))
    let reply = await withCheckedContinuation { continuation in
      operations.write(.tree(write), as: .anonymous, from: "local") {
        continuation.resume(returning: $0)
      }
    }
    if case .failure(let error) = reply { throw error }
  }

  @Test func `namespaces that nobody uses are not opened`() async throws {
    let names = (0..<1_000).map { "n\($0)" }
    try await withNamespaces(names) { source, parts in
      #expect(parts.operations.namespaces.openCount == 0)
      _ = try await parts.operations.lease(ofNamespace: "default")
      #expect(source.opened == [])
      _ = try await parts.operations.lease(ofNamespace: "n7")
      #expect(source.opened == ["n7"] && parts.operations.namespaces.openCount == 1)
    }
  }

  @Test func `many first uses at once open a namespace once`() async throws {
    try await withNamespaces(["a", "b"]) { source, parts in
      source.gate.hold()
      let leases = (0..<100).map { number in
        Task { try await parts.operations.lease(ofNamespace: number % 2 == 0 ? "a" : "b") }
      }
      await source.gate.reached()
      source.gate.open()
      var engines: Set<ObjectIdentifier> = []
      for lease in leases {
        engines.insert(ObjectIdentifier(try await lease.value.operations.engine))
      }
      #expect(engines.count == 2)
      #expect(source.opened.sorted() == ["a", "b"])
      #expect(parts.operations.namespaces.openedCount == 2)
    }
  }

  @Test func `as many namespaces as allowed are in use, and one more is refused`() async throws {
    try await withNamespaces(["a", "b", "c"], openMax: 2) { source, parts in
      let operations = parts.operations
      let first = try await operations.lease(ofNamespace: "a")
      let second = try await operations.lease(ofNamespace: "b")
      try await set("/x", "1", in: first.operations)
      let error = await #expect(throws: WireError.self) {
        try await operations.lease(ofNamespace: "c")
      }
      expectRefusal(error, of: "the use of c", .overloaded, "--namespaces-max")
      // The others are still there, for further uses as well.
      let again = try await operations.lease(ofNamespace: "b")
      second.release()
      #expect(await refuses(operations, "c"))
      again.release()
      let third = try await operations.lease(ofNamespace: "c")
      #expect(source.closed == ["b"] && operations.namespaces.openCount == 2)
      let value = first.operations.engine.root.at(try Path("x"))
      #expect(value.integerValue == 1)
      third.release()
      first.release()
      // The one that was idle for longer gives way.
      parts.clock.advance(1)
      let last = try await operations.lease(ofNamespace: "b")
      #expect(source.closed.count == 2)
      last.release()
      // A lease is released once.
      last.release()
      #expect(operations.namespaces.openCount == 2)
    }
  }

  @Test
  func `many first uses of a namespace at once close one idle namespace, and none is refused`()
    async throws
  {
    try await withNamespaces(["a", "b", "c"], openMax: 2) { source, parts in
      let operations = parts.operations
      for name in ["a", "b"] { try await operations.lease(ofNamespace: name).release() }
      source.gate.hold()
      let uses = (0..<12).map { _ in
        Task { try await operations.lease(ofNamespace: "c").release() }
      }
      await source.gate.reached()
      source.gate.open()
      for use in uses { try await use.value }
      #expect(source.closed == ["a"])
      #expect(source.opened == ["a", "b", "c"])
    }
  }

  @Test func `as many other namespaces as there are idle ones are opened at once`() async throws {
    try await withNamespaces(["a", "b", "c", "d", "e"], openMax: 2) { source, parts in
      let operations = parts.operations
      for name in ["a", "b"] { try await operations.lease(ofNamespace: name).release() }
      let uses = (0..<30).map { number in
        Task { try await operations.lease(ofNamespace: ["c", "d"][number % 2]) }
      }
      var leases: [NamespaceLease] = []
      for use in uses { leases.append(try await use.value) }
      #expect(source.closed.sorted() == ["a", "b"] && operations.namespaces.openCount == 2)
      #expect(await refuses(operations, "e"))
      for lease in leases { lease.release() }
    }
  }

  /// A substitute for a connection.
  private final class Connection: Sendable {
    let network: String

    init(_ network: String) {
      self.network = network
    }

    var turns: TurnGroup { TurnGroup(network: network, connection: ObjectIdentifier(self)) }
  }

  @Test
  func `a network that opens many namespaces closes its own ones again, and not those of others`()
    async throws
  {
    let names = (0..<40).map { "n\($0)" }
    try await withNamespaces(names + ["h"], openMax: 8) { source, parts in
      let operations = parts.operations
      let honest = Connection("honest")
      try await operations.lease(ofNamespace: "h", turns: honest.turns).release()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<33 {
          group.addTask {
            let connection = Connection("many")
            for index in 0..<40 {
              let name = names[(number + index) % names.count]
              try await operations.lease(ofNamespace: name, turns: connection.turns).release()
            }
          }
        }
        try await group.waitForAll()
      }
      #expect(!source.closed.contains("h") && source.closed.count > 30)
      #expect(operations.namespaces.openCount == 8)
      // A network that has no place takes one of those.
      try await operations.lease(ofNamespace: "h", turns: honest.turns).release()
      let other = Connection("other")
      let name = try #require(names.first { source.closed.last == $0 })
      try await operations.lease(ofNamespace: name, turns: other.turns).release()
      #expect(!source.closed.contains("h"))
    }
  }

  @Test func `a network with its places closes a namespace of others only when it rests`()
    async throws
  {
    try await withNamespaces(["a", "b", "c", "h"], openMax: 3) { source, parts in
      let operations = parts.operations
      let honest = Connection("honest")
      let many = Connection("many")
      try await operations.lease(ofNamespace: "h", turns: honest.turns).release()
      let kept = [
        try await operations.lease(ofNamespace: "a", turns: many.turns),
        try await operations.lease(ofNamespace: "b", turns: many.turns),
      ]
      let error = await #expect(throws: WireError.self) {
        try await operations.lease(ofNamespace: "c", turns: many.turns)
      }
      expectRefusal(error, of: "the use of c", .overloaded)
      parts.clock.advance(4_999)
      // The refusal of one network delays no search of another one.
      await #expect(throws: WireError.self) {
        try await operations.lease(ofNamespace: "c", turns: many.turns)
      }
      #expect(source.closed == [])
      parts.clock.advance(1)
      try await operations.lease(ofNamespace: "c", turns: many.turns).release()
      #expect(source.closed == ["h"])
      // The honest network has no place, and takes the one that is idle.
      try await operations.lease(ofNamespace: "h", turns: honest.turns).release()
      #expect(source.closed == ["h", "c"])
      for lease in kept { lease.release() }
    }
  }

  @Test func `a network that waits for an opening keeps no other network out`() async throws {
    let names = (0..<20).map { "n\($0)" }
    try await withNamespaces(names + ["h"], openMax: 4) { source, parts in
      let operations = parts.operations
      source.gate.hold()
      let uses = names.map { name in
        Task {
          try await operations.lease(ofNamespace: name, turns: Connection("many").turns).release()
        }
      }
      await source.gate.reached()
      let honest = Connection("honest")
      let use = Task { try await operations.lease(ofNamespace: "h", turns: honest.turns) }
      // One of the many, and the honest one.
      try await eventually { operations.namespaces.openCount == 2 }
      source.gate.open()
      let lease = try await use.value
      for use in uses { try await use.value }
      #expect(!source.closed.contains("h"))
      lease.release()
    }
  }

  @Test func `a caller waits for an opening under way if all places are taken`() async throws {
    try await withNamespaces(["a", "b", "h"], openMax: 1) { source, parts in
      let operations = parts.operations
      // Its opening fails, and it leaves its place.
      try source.damage("a")
      source.gate.hold()
      let first = Task {
        try await operations.lease(ofNamespace: "a", turns: Connection("many").turns)
      }
      await source.gate.reached()
      let use = Task {
        try await operations.lease(ofNamespace: "h", turns: Connection("honest").turns)
      }
      // A cancelled caller ends before its turn.
      let cancelled = Task {
        try await operations.lease(ofNamespace: "b", turns: Connection("many").turns)
      }
      cancelled.cancel()
      await #expect(throws: WireError.cancelled) { try await cancelled.value }
      source.gate.open()
      await #expect(throws: WireError.self) { try await first.value }
      let lease = try await use.value
      #expect(source.opened == ["a", "h"])
      lease.release()
    }
  }

  private func refuses(_ operations: Operations, _ name: String) async -> Bool {
    do {
      _ = try await operations.lease(ofNamespace: name)
      return false
    } catch {
      return error.code == .overloaded
    }
  }

  @Test
  func `a namespace that was idle for long is closed, and has its data when it is used again`()
    async throws
  {
    try await withNamespaces(["a", "b"]) { source, parts in
      let operations = parts.operations
      let kept = try await operations.lease(ofNamespace: "b")
      var lease = try await operations.lease(ofNamespace: "a")
      try await set("/x", "{\"y\":[1,2]}", in: lease.operations)
      lease.release()
      let idle = Namespaces.Settings().idleMilliseconds
      parts.clock.advance(idle)
      await operations.namespaces.closeIdle()
      #expect(source.closed == [])
      parts.clock.advance(1)
      await operations.namespaces.closeIdle()
      #expect(source.closed == ["a"] && operations.namespaces.openCount == 1)
      lease = try await operations.lease(ofNamespace: "a")
      let value = lease.operations.engine.root.at(try Path("x/y"))
      #expect(value.childCount == 2)
      #expect(lease.operations.engine.snapshot.sequence == 1)
      try await set("/z", "1", in: lease.operations)
      kept.release()
    }
  }

  @Test
  func `a damaged namespace is refused without harm to others, and is tried again after a moment`()
    async throws
  {
    try await withNamespaces(["good", "bad"]) { source, parts in
      let operations = parts.operations
      try source.damage("bad")
      for _ in 0..<3 {
        let error = await #expect(throws: WireError.self) {
          try await operations.lease(ofNamespace: "bad")
        }
        expectRefusal(error, of: "the use of bad", .unavailable)
      }
      // The damage was looked at once.
      #expect(source.opened == ["bad"] && operations.namespaces.openCount == 0)
      #expect(parts.log.lines.contains { $0.contains("a namespace cannot be opened") })
      let good = try await operations.lease(ofNamespace: "good")
      try await set("/x", "1", in: good.operations)
      try source.damage("bad", false)
      await #expect(throws: WireError.self) { try await operations.lease(ofNamespace: "bad") }
      parts.clock.advance(2_000)
      _ = try await operations.lease(ofNamespace: "bad")
      #expect(operations.namespaces.openCount == 2)
    }
  }

  @Test func `a namespace that does not exist, or whose name is not one, is refused`() async throws
  {
    try await withNamespaces(["a"], openMax: 1) { source, parts in
      let lease = try await parts.operations.lease(ofNamespace: "a")
      for (name, code) in [
        ("b", WireError.Code.notFound), ("..", .badRequest), ("", .badRequest), ("A", .badRequest),
      ] {
        let error = await #expect(throws: WireError.self) {
          try await parts.operations.lease(ofNamespace: name)
        }
        #expect(error?.code == code, "\(name)")
      }
      #expect(source.opened == ["a"])
      lease.release()
    }
  }

  @Test func `the end of the server stores all accepted writes, and opens nothing more`()
    async throws
  {
    try await withNamespaces(["a", "b"]) { source, parts in
      let operations = parts.operations
      let lease = try await operations.lease(ofNamespace: "a")
      let gate = Gate()
      source.journal("a")?.plan(.delay(gate))
      let write = Task { try await set("/x", "1", in: lease.operations) }
      await gate.reached()
      let closing = Task { await operations.namespaces.closeAll() }
      gate.open()
      await closing.value
      try await write.value
      #expect(source.closed == ["a"] && operations.namespaces.openCount == 0)
      let error = await #expect(throws: WireError.self) {
        try await operations.lease(ofNamespace: "b")
      }
      expectRefusal(error, of: "the use of b", .unavailable)
      await #expect(throws: WireError.self) { try await set("/x", "2", in: lease.operations) }
      lease.release()
    }
  }

  @Test func `the end of a login ends it in every namespace`() async throws {
    try await withNamespaces(["a"]) { _, parts in
      let operations = parts.operations
      let signedUp = await operations.account(
        .signUp(email: "ada@example.org", password: "engine of 1843", username: "ada"),
        as: .anonymous, from: "local")
      let identity = try #require(signedUp.identity)
      let lease = try await operations.lease(ofNamespace: "a")
      let other = lease.operations
      // The profile is that of the default namespace.
      guard case .json(let reply)? = other.read(.whoAmI, as: identity, in: other.engine.root) else {
        Issue.record("no reply")
        return
      }
      var output = JSONOutput()
      reply.append(to: &output)
      #expect(output.text.contains("\"username\":\"ada\""))
      let left = await other.account(.logOut, as: identity, from: "local")
      guard case .anonymous? = left.identity else {
        Issue.record("still logged in")
        return
      }
      let write = WriteRequest.blog(.post(title: "a", body: "b"))
      for operations in [operations, other] {
        let refusal = await withCheckedContinuation { continuation in
          operations.write(write, as: identity, from: "local") {
            continuation.resume(returning: $0)
          }
        }
        guard case .failure(let error) = refusal else {
          Issue.record("accepted")
          continue
        }
        expectRefusal(
          error, of: "\(write)", operations === other ? .notFound : .unauthenticated)
      }
    }
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `writes at once to more namespaces than may be open are all kept, each in its own`(
    _ seed: UInt64
  ) async throws {
    let names = ["a", "b", "c", "d"]
    try await withNamespaces(names, openMax: 2) { source, parts in
      let operations = parts.operations
      let totals = try await withThrowingTaskGroup(of: [String: Int].self) { group in
        for task in 0..<6 {
          group.addTask {
            var random = SeededGenerator(seed: seed * 100 + UInt64(task))
            var made: [String: Int] = [:]
            for _ in 0..<30 {
              let name = names[Int(random.next() % 4)]
              do throws(WireError) {
                let lease = try await operations.lease(ofNamespace: name)
                #expect(operations.namespaces.openCount <= 2)
                do {
                  try await set("/n", "{\".sv\":{\"increment\":1}}", in: lease.operations)
                } catch {
                  Issue.record(error)
                }
                made[name, default: 0] += 1
              } catch {
                // Two others are in use.
                expectRefusal(error, of: "the use of \(name)", .overloaded)
              }
            }
            return made
          }
        }
        return try await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
      }
      for name in names {
        let lease = try await operations.lease(ofNamespace: name)
        let value = lease.operations.engine.root.at(try Path("n"))
        #expect(value.integerValue ?? 0 == Int64(totals[name] ?? 0), "\(name)")
        lease.release()
      }
      #expect(source.closed.count >= 2)
    }
  }
}
