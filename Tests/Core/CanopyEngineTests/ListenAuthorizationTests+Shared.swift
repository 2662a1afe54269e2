import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Authorizations that many listeners share.
extension ListenAuthorizationTests {
  private func shared(_ caller: some AnyObject & Sendable, _ path: String) throws
    -> ListenAuthorization
  {
    let id = ObjectIdentifier(caller)
    let subject = ListenAuthorization.Subject(caller: id, Listening(try Path(path)))
    var authorization = authorization(group: id)
    authorization.subject = subject
    return authorization
  }

  @Test func `listeners with the same subject are authorized once, however many they are`()
    async throws
  {
    final class Caller: Sendable {}
    let (ada, bob) = (Caller(), Caller())
    try await withEngine { engine in
      try await engine.set("open", true)
      var ids: [ListenerID] = []
      for _ in 0..<50 {
        ids.append(try #require(try await listen(engine, shared(ada, "secret"))))
      }
      _ = try await listen(engine, shared(bob, "secret"))
      #expect(engine.authorizationCounts == (51, 2))
      #expect(engine.authorizations.caseCount == 2)
      // A commit asks once for each subject.
      var before = asked.values.count
      try await engine.set("open", true)
      #expect(asked.values.count == before + 2)
      // So does a repetition for a group.
      before = asked.values.count
      await withCheckedContinuation { continuation in
        engine.reauthorize(ObjectIdentifier(ada), completion: { continuation.resume() })
      }
      #expect(asked.values.count == before + 1)
      // A connection that logs in as another user asks once for all its listeners.
      before = asked.values.count
      let other = try shared(bob, "secret")
      await withCheckedContinuation { continuation in
        engine.setAuthorizations(ids.dropLast().map { ($0, other) }) { continuation.resume() }
      }
      #expect(asked.values.count <= before + 50 / 2)
      #expect(engine.authorizations.caseCount == 2)
      try await engine.set("open", false)
      #expect(received.values == [String](repeating: "denied", count: 51))
      #expect(engine.listenerCounts == (0, 0) && engine.authorizationCounts == (0, 0))
      #expect(engine.authorizations.caseCount == 0)
      withExtendedLifetime((ada, bob)) {}
    }
  }

  @Test func `a verdict that denies many listeners of a group ends all, and removes most later`()
    async throws
  {
    final class Group: ListenerGroup {
      func batchEnded(_ snapshot: Snapshot) {}

      func notify(_ change: CommittedChange) {}
    }
    let group = Group()
    let count = 2 * Engine.removedAtOnceMax + 10
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      try await engine.set("open", true)
      let authorization = try shared(group, "secret")
      let started = Answers<Bool>()
      for _ in 0..<count {
        engine.listen(
          Listening(try Path("secret")), group: group, authorization: authorization
        ) { notification in
          received.add("\(notification.sequence)")
        } denied: {
          received.add("denied")
        } started: { id, _ in
          started.add(id != nil)
        }
      }
      _ = await started.wait(for: count)
      try await engine.set("open", false)
      #expect(received.values == [String](repeating: "denied", count: count))
      // Each further batch removes some.
      for _ in 0..<20 where engine.listenerCounts.listeners > 0 { try await engine.set("b", 1) }
      #expect(engine.listenerCounts == (0, 0))
      withExtendedLifetime(group) {}
    }
  }
}
