import CanopyEngine
import CanopyTesting
import CanopyTree
import Synchronization
import Testing

/// Judges of listeners: when they are asked, and that nobody is told what they deny.
@Suite(.timeLimit(.minutes(5))) struct ListenAuthorizationTests {
  /// What has happened to a listener, in order.
  private let told = Answers<String>()
  private let asked = Answers<Int64>()

  /// Returns an authorization that allows listening as long as `open` is true.
  private func authorization(group: ObjectIdentifier? = nil) -> ListenAuthorization {
    ListenAuthorization(group: group) { root, time in
      asked.add(time)
      return ListenVerdict(isAllowed: root.child("open") == true, paths: [Path.root.child("open")])
    }
  }

  private func listen(
    _ engine: Engine, to path: String = "secret", _ authorization: ListenAuthorization?
  ) async throws -> ListenerID? {
    let listening = Listening(try Path(path), form: .value)
    return await withCheckedContinuation { continuation in
      engine.listen(listening, authorization: authorization) { notification in
        told.add("\(notification.sequence) \(notification.events)")
      } denied: {
        told.add("denied")
      } started: { id, start in
        if id == nil { told.add(start.isDenied ? "refused \(start.node)" : "stopped") }
        continuation.resume(returning: id)
      }
    }
  }

  @Test func `who may not listen is refused, and is not told what is there`() async throws {
    try await withEngine { engine in
      try await engine.set("secret", 1)
      #expect(try await listen(engine, authorization()) == nil)
      #expect(told.values == ["refused \(Node.absent)"])
      #expect(engine.listenerCounts == (0, 0))
      #expect(engine.authorizationCounts == (0, 0))
    }
  }

  @Test func `a listener that no longer may ends before it is told of that commit`() async throws {
    try await withEngine { engine in
      try await engine.set("open", true)
      #expect(try await listen(engine, authorization()) != nil)
      try await engine.set("secret", 1)
      // One commit that forbids and changes.
      _ = try await engine.transact { _ in
        Decision(
          try .update(
            .root, [(Location("open"), WriteValue(false)), (Location("secret"), WriteValue(2))]), ()
        )
      }
      try await engine.set("open", true)
      try await engine.set("secret", 3)
      #expect(told.values == ["2 \([ListenEvent.value(1)])", "denied"])
      #expect(engine.listenerCounts == (0, 0))
      #expect(engine.authorizationCounts == (0, 0))
    }
  }

  @Test func `commits that go to the journal together are authorized one by one`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      try await engine.set("open", true)
      #expect(try await listen(engine, authorization()) != nil)
      let gate = journal.holdNextAppend()
      let answers = Answers<Outcome>()
      engine.submitSet("other", 1, answers)
      await gate.reached()
      engine.submitSet("secret", 1, answers)
      engine.submitSet("open", false, answers)
      engine.submitSet("secret", 2, answers)
      engine.submitSet("secret", 3, answers)
      engine.submitSet("open", true, answers)
      gate.open()
      _ = await answers.wait(for: 6)
      #expect(told.values == ["3 \([ListenEvent.value(1)])", "denied"])
    }
  }

  @Test
  func `an authorization is repeated only when a place is written that its verdict depends on`()
    async throws
  {
    try await withEngine { engine in
      try await engine.set("open", true)
      _ = try await listen(engine, authorization())
      let before = asked.values.count
      for i in 0..<50 { try await engine.set("secret/\(i)", 1) }
      try await engine.set("opening", 1)
      #expect(asked.values.count == before)
      try await engine.set("open/deeper", 1)
      #expect(asked.values.count == before + 1)
      #expect(told.values.last == "denied")
    }
  }

  @Test func `an authorization that depends on the time is repeated with every commit`()
    async throws
  {
    let clock = ManualClock()
    try await withEngine(clock: clock) { engine in
      let end = clock.now + 1_000
      let authorization = ListenAuthorization { _, time in
        ListenVerdict(isAllowed: time < end, dependsOnTime: true)
      }
      _ = try await listen(engine, authorization)
      try await engine.set("secret", 1)
      clock.advance(1_000)
      try await engine.set("secret", 2)
      #expect(told.values == ["1 \([ListenEvent.value(1)])", "denied"])
    }
  }

  @Test func `what a verdict looked at is taken anew each time`() async throws {
    try await withEngine { engine in
      // Looks where it is told to look.
      let authorization = ListenAuthorization { root, _ in
        let name = root.child("where").stringValue ?? "a"
        let place = Path.root.child((try? Key(name)) ?? "a")
        return ListenVerdict(
          isAllowed: root.at(place).isAbsent, paths: [Path.root.child("where"), place])
      }
      _ = try await listen(engine, authorization)
      try await engine.set("where", "b")
      try await engine.set("a", 1)
      #expect(engine.authorizationCounts == (1, 2))
      #expect(told.values.isEmpty)
      try await engine.set("b", 1)
      #expect(told.values == ["denied"])
    }
  }

  @Test func `authorizations are repeated between two commits, all or those of a group`()
    async throws
  {
    final class Group: Sendable {}
    let (mine, other) = (Group(), Group())
    let isAllowed = Mutex(true)
    let authorization = { @Sendable (group: Group) in
      ListenAuthorization(group: ObjectIdentifier(group)) { _, _ in
        ListenVerdict(isAllowed: isAllowed.withLock { $0 })
      }
    }
    try await withEngine { engine in
      _ = try await listen(engine, authorization(mine))
      _ = try await listen(engine, authorization(other))
      _ = try await listen(engine, nil)
      await withCheckedContinuation { continuation in
        engine.reauthorize(ObjectIdentifier(mine)) {
          isAllowed.withLock { $0 = false }
        } completion: {
          continuation.resume()
        }
      }
      #expect(told.values == ["denied"])
      #expect(engine.listenerCounts.listeners == 2)
      await withCheckedContinuation { continuation in
        engine.reauthorize(completion: { continuation.resume() })
      }
      #expect(told.values == ["denied", "denied"])
      #expect(engine.listenerCounts.listeners == 1)
      withExtendedLifetime((mine, other)) {}
    }
  }

  @Test func `a listener can be given another authorization, and none`() async throws {
    try await withEngine { engine in
      try await engine.set("open", true)
      let id = try #require(try await listen(engine, authorization()))
      func give(_ authorization: ListenAuthorization?) async {
        await withCheckedContinuation { continuation in
          engine.setAuthorizations([(id, authorization)]) { continuation.resume() }
        }
      }
      await give(nil)
      try await engine.set("open", false)
      #expect(told.values.isEmpty)
      #expect(engine.authorizationCounts == (0, 0))
      await give(authorization())
      #expect(told.values == ["denied"])
      #expect(engine.listenerCounts == (0, 0))
    }
  }

  @Test func `a listener that ends leaves no authorization behind`() async throws {
    try await withEngine { engine in
      try await engine.set("open", true)
      let id = try #require(try await listen(engine, authorization()))
      #expect(engine.authorizationCounts == (1, 1))
      engine.unlisten(id)
      #expect(engine.authorizationCounts == (0, 0))
      try await engine.set("open", false)
      #expect(told.values.isEmpty)
    }
  }
}
