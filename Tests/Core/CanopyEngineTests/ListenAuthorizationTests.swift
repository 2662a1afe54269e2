import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// The authorizations of listeners: when they are repeated, and that a denied listener is not notified.
@Suite(.timeLimit(.minutes(20))) struct ListenAuthorizationTests {
  /// The notifications of the listeners and the ends of listening, in order.
  let received = Answers<String>()
  /// The times at which `authorization` was asked.
  let asked = Answers<Int64>()

  /// Returns an authorization that allows listening as long as `open` is true.
  func authorization(group: ObjectIdentifier? = nil) -> ListenAuthorization {
    ListenAuthorization(group: group) { root, time in
      asked.add(time)
      return ReadVerdict(isAllowed: root.child("open") == true, paths: [Path.root.child("open")])
    }
  }

  func listen(
    _ engine: Engine, to path: String = "secret", _ authorization: ListenAuthorization?
  ) async throws -> ListenerID? {
    let listening = Listening(try Path(path), form: .value)
    return await withCheckedContinuation { continuation in
      engine.listen(listening, authorization: authorization) { notification in
        received.add("\(notification.sequence) \(notification.events)")
      } denied: {
        received.add("denied")
      } started: { id, start in
        if id == nil {
          received.add(start.refusal == .denied ? "refused \(start.node)" : "stopped")
        }
        continuation.resume(returning: id)
      }
    }
  }

  @Test func `a listener that is not allowed is refused, and does not see the value`() async throws
  {
    try await withEngine { engine in
      try await engine.set("secret", 1)
      #expect(try await listen(engine, authorization()) == nil)
      #expect(received.values == ["refused \(Node.absent)"])
      #expect(engine.listenerCounts == (0, 0))
      #expect(engine.authorizationCounts == (0, 0))
    }
  }

  @Test func `a listener that a commit denies ends before it is notified of that commit`()
    async throws
  {
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
      #expect(received.values == ["2 \([ListenEvent.value(1)])", "denied"])
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
      #expect(received.values == ["3 \([ListenEvent.value(1)])", "denied"])
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
      #expect(received.values.last == "denied")
    }
  }

  @Test
  func `an authorization that depends on the time is repeated with the next commit after a second`()
    async throws
  {
    let clock = ManualClock()
    try await withEngine(clock: clock) { engine in
      let begin = clock.now
      let authorization = ListenAuthorization { _, time in
        asked.add(time - begin)
        return ReadVerdict(isAllowed: time < begin + 2_000, dependsOnTime: true)
      }
      _ = try await listen(engine, authorization)
      for _ in 0..<50 { try await engine.set("other", 1) }
      clock.advance(999)
      try await engine.set("secret", 1)
      #expect(asked.values == [0])
      clock.advance(1)
      for _ in 0..<50 { try await engine.set("other", 2) }
      #expect(asked.values == [0, 1_000])
      clock.advance(1_000)
      try await engine.set("secret", 2)
      #expect(asked.values == [0, 1_000, 2_000])
      #expect(received.values == ["51 \([ListenEvent.value(1)])", "denied"])
    }
  }

  @Test
  func `an authorization that depends on the time is repeated at once when its place is written`()
    async throws
  {
    try await withEngine(clock: ManualClock()) { engine in
      try await engine.set("open", true)
      let authorization = ListenAuthorization { root, time in
        asked.add(time)
        let place = Path.root.child("open")
        return ReadVerdict(
          isAllowed: root.at(place) == true, paths: [place], dependsOnTime: true)
      }
      _ = try await listen(engine, authorization)
      try await engine.set("secret", 1)
      #expect(asked.values.count == 1)
      try await engine.set("open", true)
      #expect(asked.values.count == 2)
      try await engine.set("open", false)
      #expect(asked.values.count == 3)
      #expect(received.values.last == "denied")
    }
  }

  @Test func `the places of the last verdict count, not those of earlier ones`() async throws {
    try await withEngine { engine in
      // Reads the place that another place names.
      let authorization = ListenAuthorization { root, _ in
        let name = root.child("where").stringValue ?? "a"
        let place = Path.root.child((try? Key(name)) ?? "a")
        return ReadVerdict(
          isAllowed: root.at(place).isAbsent, paths: [Path.root.child("where"), place])
      }
      _ = try await listen(engine, authorization)
      try await engine.set("where", "b")
      try await engine.set("a", 1)
      #expect(engine.authorizationCounts == (1, 2))
      #expect(received.values.isEmpty)
      try await engine.set("b", 1)
      #expect(received.values == ["denied"])
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
        ReadVerdict(isAllowed: isAllowed.withLock { $0 })
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
      #expect(received.values == ["denied"])
      #expect(engine.listenerCounts.listeners == 2)
      await withCheckedContinuation { continuation in
        engine.reauthorize(completion: { continuation.resume() })
      }
      #expect(received.values == ["denied", "denied"])
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
      #expect(received.values.isEmpty)
      #expect(engine.authorizationCounts == (0, 0))
      await give(authorization())
      #expect(received.values == ["denied"])
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
      #expect(received.values.isEmpty)
    }
  }
}
