import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// The authorizations that groups check before they deliver events.
extension ListenAuthorizationTests {
  private final class Group: ListenerGroup {
    let checksAuthorizations: Bool

    init(checks: Bool) { checksAuthorizations = checks }

    func notify(_ change: CommittedChange) {}

    func batchEnded(_ snapshot: Snapshot) {}
  }

  /// More verdicts than a commit repeats before it is published.
  private var count: Int { 2 * Engine.authorizedAtOnceMax + 8 }

  /// The authorizations at the time of a notification.
  private struct Notified: Equatable {
    /// The number of times that they were asked until then.
    var asked: Int
    /// The positions of the listeners to be checked.
    var unchecked: [Int]
    /// The number of checks that deny.
    var denials = 0
  }

  /// Begins to listen to `secret` with some listeners that have authorizations of their own.
  private func listen(
    _ engine: Engine, _ group: Group
  ) async throws -> (ids: [ListenerID], notified: Answers<Notified>) {
    let listening = Listening(try Path("secret"), form: .value)
    let (started, notified) = (Answers<ListenerID?>(), Answers<Notified>())
    let ids = Mutex<[ListenerID]>([])
    let asked = asked
    for _ in 0..<count {
      engine.listen(listening, group: group, authorization: authorization()) { notification in
        var now = Notified(asked: asked.values.count, unchecked: [])
        let sequence = notification.sequence
        if let change = notification.change, engine.mayNeedChecks(at: sequence) {
          let checks = engine.checks(of: ids.withLock { $0 }, at: sequence)
          now.unchecked = checks.flatMap(\.listeners)
          now.denials = checks.reduce(0) { $0 + ($1.allows(change) ? 0 : $1.listeners.count) }
        }
        notified.add(now)
      } denied: {
        received.add("denied")
      } started: { id, _ in
        started.add(id)
      }
    }
    let found = await started.wait(for: count).compactMap { $0 }
    ids.withLock { $0 = found }
    return (found, notified)
  }

  private func write(_ engine: Engine, open: Bool, secret: Int64) async throws {
    _ = try await engine.transact { _ in
      Decision(
        try .update(
          .root,
          [
            (Location("open"), WriteValue(Node(open))),
            (Location("secret"), WriteValue(Node(secret))),
          ]),
        ())
    }
  }

  /// Waits until all work that was added to the queue has been carried out.
  private func reauthorizeNobody(_ engine: Engine) async {
    await withCheckedContinuation { continuation in
      engine.setAuthorizations([]) { continuation.resume() }
    }
  }

  @Test func `a commit repeats a few verdicts before its events, and the group checks the others`()
    async throws
  {
    try await withEngine { engine in
      try await engine.set("open", true)
      let group = Group(checks: true)
      let (ids, notified) = try await listen(engine, group)
      #expect(!engine.mayNeedChecks(at: 1))
      let before = asked.values.count
      try await write(engine, open: true, secret: 1)
      let first = try #require(notified.values.first)
      #expect(first.asked == before + Engine.authorizedAtOnceMax)
      #expect(first.unchecked == Array(Engine.authorizedAtOnceMax..<count))
      #expect(first.denials == 0)
      await reauthorizeNobody(engine)
      let checked = first.unchecked.count
      #expect(asked.values.count == before + count + checked)
      // The loop of the group may still have events up to that commit, and not of later ones.
      let sequence = engine.snapshot.sequence
      #expect(engine.checks(of: ids, at: sequence).count == checked)
      #expect(engine.mayNeedChecks(at: sequence) && !engine.mayNeedChecks(at: sequence + 1))
      #expect(engine.checks(of: ids, at: sequence + 1).isEmpty)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `listeners that a later turn denies are checked for the events before it`()
    async throws
  {
    try await withEngine { engine in
      try await engine.set("open", true)
      let group = Group(checks: true)
      let (ids, notified) = try await listen(engine, group)
      try await write(engine, open: false, secret: 2)
      let first = try #require(notified.values.first)
      #expect(first.unchecked == Array(0..<count) && first.denials == count)
      await reauthorizeNobody(engine)
      #expect(received.values == [String](repeating: "denied", count: count))
      #expect(engine.authorizationCounts == (0, 0) && engine.listenerCounts == (0, 0))
      // Until the loop has dropped them.
      let sequence = engine.snapshot.sequence
      #expect(engine.checks(of: ids, at: sequence).flatMap(\.listeners).count == count)
      #expect(engine.checks(of: ids, at: sequence - 1).isEmpty, "they may get earlier events")
      for id in ids { engine.unlisten(id) }
      #expect(engine.checks(of: ids, at: sequence).isEmpty)
      withExtendedLifetime(group) {}
    }
  }

  @Test
  func
    `verdicts that commits concern while they wait are checked, and found again after their turn`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      try await engine.set("open", true)
      let group = Group(checks: true)
      let (ids, notified) = try await listen(engine, group)
      // Three commits have no turn in between.
      let outcomes = Answers<Outcome>()
      let gate = journal.holdNextAppend()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      for _ in 0..<3 { engine.submitSet("open", true, outcomes) }
      engine.submitSet("secret", 1, outcomes)
      gate.open()
      _ = await outcomes.wait(for: 5)
      let first = try #require(notified.values.first)
      // The verdicts that the first commit has repeated wait since the second one.
      #expect(first.unchecked == Array(0..<count) && first.denials == 0)
      await reauthorizeNobody(engine)
      let sequence = engine.snapshot.sequence
      #expect(engine.checks(of: ids, at: sequence + 1).isEmpty, "no verdict waits")
      try await write(engine, open: false, secret: 2)
      #expect(notified.values.last?.denials == count)
      await reauthorizeNobody(engine)
      #expect(received.values == [String](repeating: "denied", count: count))
      #expect(engine.authorizationCounts == (0, 0))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `for a group that checks nothing, all verdicts are repeated before the events`()
    async throws
  {
    try await withEngine { engine in
      try await engine.set("open", true)
      let group = Group(checks: false)
      let (_, notified) = try await listen(engine, group)
      let before = asked.values.count
      try await write(engine, open: true, secret: 1)
      #expect(notified.values == [Notified(asked: before + count, unchecked: [])])
      try await write(engine, open: false, secret: 2)
      #expect(notified.values.count == 1)
      #expect(received.values == [String](repeating: "denied", count: count))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a change of something besides the tree is checked from then on`() async throws {
    try await withEngine { engine in
      try await engine.set("open", true)
      let group = Group(checks: true)
      let (ids, _) = try await listen(engine, group)
      let during = Answers<Int>()
      await withCheckedContinuation { continuation in
        engine.reauthorize {
          during.add(engine.checks(of: ids, at: .max).count)
        } completion: {
          continuation.resume()
        }
      }
      #expect(during.values == [0])
      let sequence = engine.snapshot.sequence
      #expect(engine.checks(of: ids, at: sequence).count == count)
      #expect(!engine.mayNeedChecks(at: sequence + 1))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `the events of a login that has ended are checked before the turn of the engine`()
    async throws
  {
    final class Login: Sendable {}
    let (login, other) = (Login(), Login())
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      try await engine.set("open", true)
      let group = Group(checks: true)
      let started = Answers<ListenerID?>()
      for login in [login, other, login] {
        let authorization = ListenAuthorization(group: ObjectIdentifier(login)) { _, _ in
          ReadVerdict(isAllowed: true)
        }
        engine.listen(Listening(.root), group: group, authorization: authorization) { _ in
        } denied: {
        } started: { id, _ in
          started.add(id)
        }
      }
      let ids = await started.wait(for: 3)
      // The engine is busy.
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      let sequence = engine.snapshot.sequence
      #expect(!engine.mayNeedChecks(at: sequence + 1))
      let done = Answers<Bool>()
      for _ in 0..<2 {
        engine.reauthorize(ObjectIdentifier(login), completion: { done.add(true) })
      }
      #expect(done.values.isEmpty && engine.mayNeedChecks(at: sequence + 1))
      #expect(engine.checks(of: ids, at: sequence + 1).map(\.listeners) == [[0], [2]])
      #expect(engine.checks(of: ids, at: sequence).isEmpty)
      gate.open()
      _ = await done.wait(for: 2)
      #expect(!engine.mayNeedChecks(at: engine.snapshot.sequence + 1))
      withExtendedLifetime(group) {}
    }
    withExtendedLifetime((login, other)) {}
  }
}
