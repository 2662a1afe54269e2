import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// Commits that concern more authorizations than the writer asks for at once.
extension ListenAuthorizationTests {
  private final class Group: ListenerGroup {
    func notify(_ change: CommittedChange) {}
  }

  /// Each look at the clock takes a millisecond, so a batch authorizes one case.
  private static var slow: Engine.Configuration {
    let looks = Mutex<Int64>(0)
    var configuration = Engine.Configuration()
    configuration.elapsed = {
      looks.withLock { looks in
        looks += 1
        return .milliseconds(looks)
      }
    }
    return configuration
  }

  /// Begins to listen in a group. The pauses are noted under a number.
  private func listen(
    _ engine: Engine, _ group: Group, _ number: Int, _ form: Listening.Form = .value
  ) async throws -> ListenerID {
    let listening = Listening(try Path("secret"), form: form)
    let id = await withCheckedContinuation { continuation in
      engine.listen(listening, group: group, authorization: authorization()) { notification in
        received.add("view \(notification.sequence)")
      } denied: {
        received.add("denied \(number)")
      } paused: { pause in
        switch pause {
        case .began: received.add("pause \(number)")
        case .ended(let change):
          let notification = change.notification(for: listening)
          received.add("end \(number) at \(notification.sequence): \(notification.events)")
        }
      } started: { id, _ in
        continuation.resume(returning: id)
      }
    }
    return try #require(id)
  }

  /// Makes a commit. Returns what the listeners had received, and the number of questions, when it was answered.
  private func commit(_ engine: Engine, isOpen: Bool, secret: Int64) async -> ([String], Int) {
    let (before, count) = (received.values.count, asked.values.count)
    return await withCheckedContinuation { continuation in
      submit(engine, isOpen: isOpen, secret: secret) { [self] in
        continuation.resume(
          returning: (Array(received.values.dropFirst(before)), asked.values.count - count))
      }
    }
  }

  private func submit(
    _ engine: Engine, isOpen: Bool, secret: Int64, _ done: @escaping @Sendable () -> Void
  ) {
    engine.submit { _ in
      Decision(
        try .update(
          .root,
          [
            (Location("open"), WriteValue(Node(isOpen))),
            (Location("secret"), WriteValue(Node(secret))),
          ]), ())
    } completion: { _ in
      done()
    }
  }

  /// Makes commits elsewhere until no listener pauses.
  private func waitForPauses(_ engine: Engine) async throws {
    for _ in 0..<100 where engine.authorizations.pausedCount > 0 { try await engine.set("b", 1) }
    #expect(engine.authorizations.pausedCount == 0)
  }

  @Test func `a commit asks for a few of many authorizations, and the other listeners pause`()
    async throws
  {
    try await withEngine(configuration: Self.slow) { engine in
      try await engine.set("open", true)
      let group = Group()
      for number in 0..<8 { _ = try await listen(engine, group, number) }
      let before = asked.values.count
      let (seen, count) = await commit(engine, isOpen: true, secret: 5)
      #expect(count == 1)
      #expect(seen == (1..<8).map { "pause \($0)" } + ["view 2"])
      try await waitForPauses(engine)
      #expect(asked.values.count == before + 8)
      let ends = received.values.filter { $0.hasPrefix("end") }
      #expect(ends.map { $0.prefix(5) } == (1..<8).map { "end \($0)" })
      #expect(ends.allSatisfy { $0.hasSuffix("\([ListenEvent.value(5)])") })
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a listener that pauses is denied when its turn comes, and gets no events`()
    async throws
  {
    try await withEngine(configuration: Self.slow) { engine in
      try await engine.set("open", true)
      let group = Group()
      for number in 0..<4 { _ = try await listen(engine, group, number) }
      let (seen, _) = await commit(engine, isOpen: false, secret: 5)
      #expect(seen == ["denied 0", "pause 1", "pause 2", "pause 3", "view 2"])
      try await waitForPauses(engine)
      #expect(!received.values.contains { $0.hasPrefix("end") })
      #expect(received.values.filter { $0.hasPrefix("denied") }.count == 4)
      #expect(engine.authorizationCounts == (0, 0))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `commits during a pause come as one change, and do not pause the listener again`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: Self.slow) { engine in
      try await engine.set("open", true)
      let group = Group()
      for number in 0..<6 { _ = try await listen(engine, group, number, .sync) }
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      // These go to the journal together.
      let answered = Answers<Bool>()
      for secret in 5...6 {
        submit(engine, isOpen: true, secret: Int64(secret)) { answered.add(true) }
      }
      gate.open()
      _ = await answered.wait(for: 2)
      try await waitForPauses(engine)
      let last = received.values.filter { $0.hasPrefix("pause 5") || $0.hasPrefix("end 5") }
      #expect(last.count == 2 && last.first == "pause 5")
      let put = ListenEvent.put([Assignment(Path.root, 6)])
      #expect(last.last?.hasSuffix("\([put])") == true, "\(last)")
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a listener that gets another authorization or ends no longer pauses`() async throws {
    try await withEngine(configuration: Self.slow) { engine in
      try await engine.set("open", true)
      let group = Group()
      var ids: [ListenerID] = []
      for number in 0..<3 { ids.append(try await listen(engine, group, number)) }
      let open = ListenAuthorization { _, _ in .init(isAllowed: true) }
      let changed = Answers<Bool>()
      engine.submit { _ in
        Decision(try .set(Location("open"), WriteValue(true)), ())
      } completion: { [ids] _ in
        engine.unlisten(ids[1])
        engine.setAuthorizations([(ids[2], open)]) { changed.add(true) }
      }
      _ = await changed.wait(for: 1)
      try await waitForPauses(engine)
      #expect(received.values.filter { $0.hasPrefix("end 2") }.count == 1)
      #expect(!received.values.contains { $0.hasPrefix("end 1") })
      #expect(engine.listenerCounts.listeners == 2)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `missed commits are kept up to a bound, beyond which they stand for the whole tree`()
    throws
  {
    var missed = MissedCommits()
    let place = Assignment(try Path("a/b"), 1)
    missed.note([place], at: 5)
    #expect(missed.locations(since: 5) == [place.location])
    #expect(missed.locations(since: 6) == [])
    let many = try (0...CommittedChange.locationsMax).map { Assignment(try Path("c/\($0)"), 1) }
    missed.note(Array(many.dropLast()), at: 6)
    #expect(missed.locations(since: 6).count == CommittedChange.locationsMax)
    #expect(missed.locations(since: 5) == [Location(.root)])
    missed.note(many, at: 7)
    #expect(missed.locations(since: 7) == [Location(.root)])
    for sequence in 8..<Int64(MissedCommits.locationsMax) {
      missed.note([place], at: sequence)
    }
    #expect(missed.locations(since: 5) == [Location(.root)])
    #expect(missed.locations(since: 4_000) == [place.location])
  }
}
