import CanopySystem
import CanopyTesting
import CanopyTree
import Dispatch
import Synchronization
import Testing

@testable import CanopyEngine

/// Verdicts that take many steps of the rules.
extension ListenAuthorizationTests {
  private final class Group: ListenerGroup {
    let checksAuthorizations = true

    func notify(_ change: CommittedChange) {}

    func batchEnded(_ snapshot: Snapshot) {}
  }

  /// Counts the times that authorizations were asked.
  private final class Counts: Sendable {
    let brief = Mutex(0)
    let long = Mutex(0)

    var asked: (brief: Int, long: Int) { (brief.withLock { $0 }, long.withLock { $0 }) }
  }

  /// Returns an authorization that takes some steps, and allows listening unless `open` is false.
  private func authorization(
    _ counts: Counts, steps: Int, _ subject: ListenAuthorization.Subject? = nil,
    dependsOnQuery: Bool = true, onLong: @escaping @Sendable (Node) -> Void = { _ in }
  ) -> ListenAuthorization {
    let verdict = { @Sendable (root: Node) in
      ReadVerdict(
        isAllowed: root.child("open") != false, paths: [Path.root.child("open")],
        dependsOnQuery: dependsOnQuery)
    }
    return ListenAuthorization(subject: subject) { root, _, stepsLeft in
      guard stepsLeft != .max else {
        counts.long.withLock { $0 += 1 }
        onLong(root)
        return verdict(root)
      }
      counts.brief.withLock { $0 += 1 }
      guard steps <= stepsLeft else {
        stepsLeft = 0
        return nil
      }
      stepsLeft -= steps
      return verdict(root)
    }
  }

  /// Begins to listen to `secret` once for each authorization. Returns, for each notification, the number of verdicts that
  /// were asked for before it, and the positions of the listeners to be checked.
  private func listen(
    _ engine: Engine, _ group: Group, _ counts: Counts, _ authorizations: [ListenAuthorization]
  ) async throws -> Answers<(asked: Int, unchecked: [Int])> {
    let listening = Listening(try Path("secret"), form: .value)
    let started = Answers<ListenerID?>()
    let notified = Answers<(asked: Int, unchecked: [Int])>()
    let ids = Mutex<[ListenerID]>([])
    for authorization in authorizations {
      engine.listen(listening, group: group, authorization: authorization) { notification in
        let checks = engine.checks(of: ids.withLock { $0 }, at: notification.sequence)
        notified.add((counts.asked.brief, checks.flatMap(\.listeners)))
      } denied: {
        received.add("denied")
      } started: { id, _ in
        started.add(id)
      }
    }
    let found = await started.wait(for: authorizations.count).compactMap { $0 }
    ids.withLock { $0 = found }
    return notified
  }

  private func write(_ engine: Engine, open: Int64?) async throws {
    let value = open.map { Node($0) } ?? false
    _ = try await engine.transact { _ in
      Decision(
        try .update(
          .root, [(Location("open"), WriteValue(value)), (Location("secret"), WriteValue(1))]), ())
    }
  }

  /// Waits until no verdict waits.
  private func waitUntilAuthorized(_ engine: Engine) async {
    while engine.mayNeedChecks(at: .max) {
      await withCheckedContinuation { continuation in
        engine.setAuthorizations([]) { continuation.resume() }
      }
    }
  }

  @Test(arguments: [0, 1])
  func `a commit repeats verdicts with few steps before its events, and the others wait`(
    excess: Int
  ) async throws {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let count = Engine.authorizedAtOnceMax
      let steps = Engine.authorizingStepsAtOnceMax / count + excess
      let notified = try await listen(
        engine, group, counts, (0..<count).map { _ in authorization(counts, steps: steps) })
      let before = counts.asked
      try await write(engine, open: 1)
      let first = try #require(notified.values.first)
      #expect(first.asked <= before.brief + count)
      #expect(first.unchecked == (excess == 0 ? [] : [count - 1]))
      await waitUntilAuthorized(engine)
      #expect(counts.asked.long == before.long)
      #expect(counts.asked.brief == before.brief + count + excess)
      #expect(received.values.isEmpty)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `the steps of a batch are those of all of its commits together`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let (group, counts) = (Group(), Counts())
      let steps = Engine.authorizingStepsAtOnceMax
      let notified = try await listen(
        engine, group, counts, [authorization(counts, steps: steps)])
      let outcomes = Answers<Outcome>()
      let gate = journal.holdNextAppend()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      engine.submitSet("open", 1, outcomes)
      engine.submitSet("secret", 1, outcomes)
      engine.submitSet("open", 2, outcomes)
      engine.submitSet("secret", 2, outcomes)
      gate.open()
      _ = await outcomes.wait(for: 5)
      #expect(notified.values.map(\.unchecked) == [[], [0]])
      await waitUntilAuthorized(engine)
      #expect(counts.asked.long == 0)
      withExtendedLifetime(group) {}
    }
  }

  @Test(arguments: [false, true])
  func `the queries of a caller share a verdict that does not depend on the query`(
    dependsOnQuery: Bool
  ) async throws {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let count = 60
      let path = try Path("secret")
      let authorizations = try (1...count).map { limit in
        let query = try Query(order: .key, limit: .first(limit))
        return authorization(
          counts, steps: 1, .init(caller: nil, Listening(path, query)),
          dependsOnQuery: dependsOnQuery)
      }
      let notified = try await listen(engine, group, counts, authorizations)
      let before = counts.asked.brief
      try await write(engine, open: 1)
      let atOnce = Engine.authorizedAtOnceMax
      #expect(notified.values.first?.asked == before + (dependsOnQuery ? atOnce : 1))
      await waitUntilAuthorized(engine)
      let asked = counts.asked.brief - before
      if dependsOnQuery {
        #expect(asked == count)
      } else {
        // A turn of the engine may end at any time, and the next one asks again.
        #expect((2...8).contains(asked), "\(asked)")
      }
      try await write(engine, open: nil)
      await waitUntilAuthorized(engine)
      #expect(received.values == [String](repeating: "denied", count: count))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a verdict that takes many steps is not asked for on the engine's thread`()
    async throws
  {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let onThread = Mutex<[Bool]>([])
      let path = try Path("secret")
      let authorizations = try (1...60).map { limit in
        let query = try Query(order: .key, limit: .first(limit))
        return authorization(
          counts, steps: .max, .init(caller: nil, Listening(path, query)), dependsOnQuery: false
        ) { _ in
          onThread.withLock { $0.append(engine.thread.isCurrent) }
        }
      }
      let notified = try await listen(engine, group, counts, authorizations)
      #expect(onThread.withLock { $0 } == [Bool](repeating: false, count: 60))
      onThread.withLock { $0 = [] }
      let before = counts.asked.brief
      try await write(engine, open: 1)
      #expect(notified.values.last?.unchecked.count == 60)
      await waitUntilAuthorized(engine)
      // At once, and in the turns of the engine, of which there is one unless it lasts too long.
      #expect((2...8).contains(counts.asked.brief - before))
      let asked = onThread.withLock { $0 }
      #expect((1...7).contains(asked.count), "one verdict for all queries of a turn")
      #expect(!asked.contains(true))
      #expect(received.values.isEmpty)
      try await write(engine, open: nil)
      #expect(notified.values.last?.unchecked.count == 60)
      #expect(await received.wait(for: 60) == [String](repeating: "denied", count: 60))
      #expect(engine.authorizationCounts == (0, 0) && engine.listenerCounts == (0, 0))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a verdict is asked for again if a commit has written its place meanwhile`()
    async throws
  {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let seen = Mutex<[Node]>([])
      let authorization = authorization(counts, steps: .max) { root in
        let count = seen.withLock {
          $0.append(root.child("open"))
          return $0.count
        }
        // The first verdict is that of the beginning. During the second one comes a commit.
        guard count == 2 else { return }
        let isMade = DispatchSemaphore(value: 0)
        engine.submit { _ in
          Decision(try .set(Location("open"), WriteValue(2)), ())
        } completion: { _ in
          isMade.signal()
        }
        isMade.wait()
      }
      _ = try await listen(engine, group, counts, [authorization])
      try await write(engine, open: 1)
      await waitUntilAuthorized(engine)
      #expect(seen.withLock { $0 } == [.absent, 1, 2])
      try await engine.set("open", false)
      #expect(await received.wait(for: 1) == ["denied"])
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a verdict from before a change of something besides the tree is asked for again`()
    async throws
  {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let isAllowed = Mutex(true)
      let asked = Mutex(0)
      let place = Path.root.child("open")
      let authorization = ListenAuthorization { _, _, stepsLeft in
        guard stepsLeft == .max else {
          stepsLeft = 0
          return nil
        }
        let verdict = ReadVerdict(isAllowed: isAllowed.withLock { $0 }, paths: [place])
        let number = asked.withLock {
          $0 += 1
          return $0
        }
        guard number == 2 else { return verdict }
        // The rules change before this verdict comes.
        let isMade = DispatchSemaphore(value: 0)
        engine.submit { _ in
          isAllowed.withLock { $0 = false }
          engine.reauthorizeAll()
          return Decision(nil, ())
        } completion: { _ in
          isMade.signal()
        }
        isMade.wait()
        return verdict
      }
      _ = try await listen(engine, group, counts, [authorization])
      try await write(engine, open: 1)
      #expect(await received.wait(for: 1) == ["denied"])
      #expect(asked.withLock { $0 } == 3)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a long verdict about another authorization is asked for beside the engine's thread`()
    async throws
  {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let onThread = Mutex<[Bool]>([])
      let started = Answers<ListenerID?>()
      for _ in 0..<3 {
        engine.listen(
          Listening(try Path("secret"), form: .value), group: group,
          authorization: authorization(counts, steps: 1)
        ) { _ in
        } denied: {
          received.add("denied")
        } started: { id, _ in
          started.add(id)
        }
      }
      let found = await started.wait(for: 3).compactMap { $0 }
      let costly = authorization(counts, steps: .max) { _ in
        onThread.withLock { $0.append(engine.thread.isCurrent) }
      }
      let sequence = engine.snapshot.sequence
      await withCheckedContinuation { continuation in
        engine.setAuthorizations(found.map { ($0, costly) }) { continuation.resume() }
      }
      await waitUntilAuthorized(engine)
      #expect(onThread.withLock { $0 } == [false, false, false])
      #expect(engine.checks(of: found, at: sequence + 1).isEmpty && received.values.isEmpty)
      // From now on commits that the new verdicts depend on concern them.
      try await write(engine, open: nil)
      #expect(await received.wait(for: 3) == ["denied", "denied", "denied"])
      #expect(engine.authorizationCounts == (0, 0) && engine.listenerCounts == (0, 0))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `the long verdicts of one client do not delay those of another`() async throws {
    try await withEngine { engine in
      let (group, counts) = (Group(), Counts())
      let started = Answers<ListenerID?>()
      for _ in 0..<40 {
        engine.listen(
          Listening(Path.root.child("secret"), form: .value), group: group,
          authorization: authorization(counts, steps: 1)
        ) { _ in
        } denied: {
        } started: { id, _ in
          started.add(id)
        }
      }
      let ids = await started.wait(for: 40).compactMap { $0 }
      try #require(ids.count == 40)
      let turns = ["a", "b"].map {
        TurnGroup(network: $0, connection: ObjectIdentifier(group))
      }
      let order = Mutex<[String]>([])
      // The first verdict begins after all are asked for.
      let areAsked = DispatchSemaphore(value: 0)
      let changes = { (name: String, ids: ArraySlice<ListenerID>) in
        ids.map { id -> (id: ListenerID, authorization: ListenAuthorization?) in
          let costly = authorization(counts, steps: .max) { _ in
            let count = order.withLock {
              $0.append(name)
              return $0.count
            }
            if count == 1 { areAsked.wait() }
          }
          return (id, costly)
        }
      }
      let accepted = Answers<Void>()
      engine.setAuthorizations(changes("a", ids[..<39]), of: turns[0]) { accepted.add(()) }
      engine.setAuthorizations(changes("b", ids[39...]), of: turns[1]) { accepted.add(()) }
      _ = await accepted.wait(for: 2)
      areAsked.signal()
      await waitUntilAuthorized(engine)
      let names = order.withLock { $0 }
      #expect(names.count == 40 && names.prefix(4).contains("b"), "\(names)")
      withExtendedLifetime(group) {}
    }
  }
}
