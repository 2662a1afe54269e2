import CanopyTesting
import CanopyTree
import Synchronization
import Testing
@testable import CanopyEngine

/// Many authorizations at one time, which take several turns of the engine.
extension ListenAuthorizationTests {
  @Test func `writes have their turns while many listeners get other authorizations`() async throws
  {
    // Each look at the time takes a millisecond: a turn authorizes one listener.
    let reads = Mutex<Int64>(0)
    var configuration = Engine.Configuration()
    configuration.elapsed = {
      reads.withLock { reads in
        reads += 1
        return .milliseconds(reads)
      }
    }
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      var changes: [(ListenerID, ListenAuthorization?)] = []
      for _ in 0..<10 {
        let id = try #require(
          try await listen(engine, ListenAuthorization { _, _ in .init(isAllowed: true) }))
        changes.append((id, authorization()))
      }
      try await engine.set("open", true)
      let order = Answers<String>()
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      engine.setAuthorizations(changes) { order.add("authorized") }
      for number in 1...3 {
        engine.submit { _ in
          Decision(try .set(Location("b"), WriteValue(Node(Int64(number)))), ())
        } completion: { _ in
          order.add("write \(number) after \(self.asked.values.count)")
        }
      }
      gate.open()
      #expect(
        await order.wait(for: 4)
          == ["write 1 after 1", "write 2 after 1", "write 3 after 1", "authorized"])
      #expect(asked.values.count == 10)
      try await engine.set("open", false)
      #expect(received.values.count == 10 && Set(received.values) == ["denied"])
    }
  }

  @Test func `listeners that could not begin in time begin although the engine stops`() async throws
  {
    let setting = Setting()
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    let journal = FaultyJournal(InMemoryJournal())
    let started = Answers<Bool>()
    try await withEngine(journal, configuration: configuration) { engine in
      let slow = ListenAuthorization { _, _ in
        setting.advance(.milliseconds(6))
        return ReadVerdict(isAllowed: true)
      }
      let outcomes = Answers<Outcome>()
      let gate = journal.holdNextAppend()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      for _ in 0..<7 {
        engine.listen(Listening(.root), authorization: slow) { _ in
        } started: { id, _ in
          started.add(id != nil)
        }
      }
      engine.stop()
      gate.open()
    }
    #expect(started.values == [Bool](repeating: true, count: 7))
  }

  /// Reads the clock: each look takes a millisecond, so a turn authorizes one listener or case.
  private static func slowClock() -> @Sendable () -> Duration {
    let reads = Mutex<Int64>(0)
    return {
      reads.withLock { reads in
        reads += 1
        return .milliseconds(reads)
      }
    }
  }

  @Test func `all connections that ask for other authorizations have one turn together`()
    async throws
  {
    var configuration = Engine.Configuration()
    configuration.elapsed = Self.slowClock()
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      try await engine.set("open", true)
      var ids: [ListenerID] = []
      for _ in 0..<12 {
        ids.append(
          try #require(
            try await listen(engine, ListenAuthorization { _, _ in .init(isAllowed: true) })))
      }
      let order = Answers<String>()
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      // Four connections, and a login whose group has no listeners.
      for connection in 0..<4 {
        let mine = ids[3 * connection..<3 * connection + 3]
        engine.setAuthorizations(mine.map { ($0, authorization()) }) {
          order.add("connection \(connection)")
        }
      }
      engine.reauthorize(ObjectIdentifier(received)) { order.add("group") }
      engine.submitSet("b", 1, outcomes)
      _ = outcomes
      let answered = Answers<Int>()
      engine.submit { _ in
        Decision(try .set(Location("b"), WriteValue(2)), ())
      } completion: { _ in
        answered.add(self.asked.values.count)
      }
      gate.open()
      #expect(await answered.wait(for: 1) == [1])
      // A login that ends does not wait for connections that change their users.
      let expected = ["group"] + (0..<4).map { "connection \($0)" }
      #expect(await order.wait(for: 5) == expected)
      #expect(asked.values.count == 12)
    }
  }

  @Test func `a client waits for no more than its share of the clients that change their users`()
    async throws
  {
    final class Client: Sendable {}
    let clients = (0..<6).map { _ in Client() }
    @Sendable func turns(_ client: Int, _ network: String?) -> TurnGroup {
      TurnGroup(network: network, connection: ObjectIdentifier(clients[client]))
    }
    var configuration = Engine.Configuration()
    configuration.elapsed = Self.slowClock()
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      try await engine.set("open", true)
      var ids: [ListenerID] = []
      for _ in 0..<40 {
        ids.append(
          try #require(
            try await listen(engine, ListenAuthorization { _, _ in .init(isAllowed: true) })))
      }
      let done = Answers<String>()
      func change(_ range: Range<Int>, _ client: Int, _ network: String?) {
        engine.setAuthorizations(
          ids[range].map { ($0, authorization()) }, of: turns(client, network)
        ) {
          done.add("client \(client) after \(self.asked.values.count)")
        }
      }
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      // Three clients of a network, one of another network, and two of this machine.
      for client in 0..<3 { change(10 * client..<10 * client + 10, client, "192.0.2.1") }
      change(30..<33, 3, "192.0.2.2")
      change(33..<36, 4, nil)
      change(36..<40, 5, nil)
      gate.open()
      // The networks and the clients of this machine have one step each in turn.
      #expect(
        await done.wait(for: 6) == [
          "client 3 after 10", "client 4 after 11", "client 5 after 14", "client 0 after 20",
          "client 1 after 30", "client 2 after 40",
        ])
    }
    withExtendedLifetime(clients) {}
  }

  @Test func `a group with many authorizations is authorized in several turns`() async throws {
    final class Group: Sendable {}
    let group = Group()
    var configuration = Engine.Configuration()
    configuration.elapsed = Self.slowClock()
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      try await engine.set("open", true)
      for _ in 0..<8 {
        _ = try await listen(engine, authorization(group: ObjectIdentifier(group)))
      }
      #expect(asked.values.count == 8)
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      let done = Answers<Bool>()
      engine.reauthorize(ObjectIdentifier(group), completion: { done.add(true) })
      let answered = Answers<Int>()
      engine.submit { _ in
        Decision(try .set(Location("b"), WriteValue(2)), ())
      } completion: { _ in
        answered.add(self.asked.values.count)
      }
      gate.open()
      // The write has waited for one step.
      #expect(await answered.wait(for: 1) == [8])
      _ = await done.wait(for: 1)
      #expect(asked.values.count == 16)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a write waits for the listeners that fit in a batch, and the others begin in order`()
    async throws
  {
    // Each authorization takes a millisecond, and nothing else takes time.
    let setting = Setting()
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      let count = 45
      let started = Answers<Int>()
      let starts = Answers<Int64>()
      let listening = Listening(try Path("b"), form: .value)
      for number in 0..<count {
        let authorization = ListenAuthorization { _, time in
          setting.advance(.milliseconds(1))
          self.asked.add(time)
          return ReadVerdict(isAllowed: true)
        }
        engine.listen(listening, authorization: authorization) { notification in
          self.received.add("\(number): \(notification.sequence)")
        } denied: {
        } started: { id, start in
          starts.add(start.sequence)
          started.add(id == nil ? -1 : number)
        }
      }
      let answered = Answers<Int>()
      @Sendable func write(_ value: Int64, then next: (@Sendable () -> Void)? = nil) {
        engine.submit { _ in
          Decision(try .set(Location("b"), WriteValue(Node(value))), ())
        } completion: { _ in
          answered.add(self.asked.values.count)
          next?()
        }
      }
      write(1) { write(2) { write(3) } }
      gate.open()
      #expect(await answered.wait(for: 3) == [10, 20, 30])
      #expect(await started.wait(for: count) == Array(0..<count))
      // A batch begins with the listeners that are left, and each of them gets the commits after its start.
      #expect(starts.values == (0..<count).map { min(2 + Int64($0) / 10, 4) })
      try await engine.set("b", 4)
      let expected = (0..<count).flatMap { number in
        (min(3 + number / 10, 5)...5).map { "\(number): \($0)" }
      }
      #expect(Set(received.values) == Set(expected) && received.values.count == expected.count)
    }
  }
}
