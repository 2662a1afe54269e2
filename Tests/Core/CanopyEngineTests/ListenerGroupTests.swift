import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Listeners of one group with the same view are notified by one call.
@Suite(.timeLimit(.minutes(20))) struct ListenerGroupTests {
  /// A group whose commits concern few views.
  private final class Group: ListenerGroup {
    func batchEnded(_ snapshot: Snapshot) {}

    func notify(_ change: CommittedChange) {
      Issue.record("commit \(change.sequence) concerns few views")
    }
  }

  /// Begins to listen. The notifications are noted under a name.
  private func listen(
    _ engine: Engine, _ listening: Listening, _ group: Group?, _ name: String,
    _ calls: Answers<String>
  ) async throws -> ListenerID {
    let id = await withCheckedContinuation { continuation in
      engine.listen(listening, group: group) { notification in
        calls.add("\(name) \(notification.sequence)")
      } started: { id, _ in
        continuation.resume(returning: id)
      }
    }
    return try #require(id)
  }

  private let all = Listening(.root, form: .value)

  @Test func `each group has one call for a view, and each listener without a group has its own`()
    async throws
  {
    try await withEngine { engine in
      let (one, two) = (Group(), Group())
      let calls = Answers<String>()
      for i in 0..<3 { _ = try await listen(engine, all, one, "one-\(i)", calls) }
      for i in 0..<2 { _ = try await listen(engine, all, two, "two-\(i)", calls) }
      for i in 0..<2 { _ = try await listen(engine, all, nil, "alone-\(i)", calls) }
      let part = Listening(Path.root.child("a"), form: .value)
      for i in 0..<2 { _ = try await listen(engine, part, one, "part-\(i)", calls) }
      #expect(engine.listenerCounts == (9, 2))
      try await engine.set("a", 1)
      #expect(
        calls.values.sorted() == ["alone-0 1", "alone-1 1", "one-0 1", "part-0 1", "two-0 1"])
      try await engine.set("b", 1)
      #expect(calls.values.count == 9)
      withExtendedLifetime((one, two)) {}
    }
  }

  @Test func `a group is notified while it has a member, also when the first one has left`()
    async throws
  {
    try await withEngine { engine in
      let group = Group()
      let calls = Answers<String>()
      var ids: [ListenerID] = []
      for i in 0..<4 { ids.append(try await listen(engine, all, group, "member-\(i)", calls)) }
      var notified = 0
      for (i, id) in ids.enumerated() {
        try await engine.set("n", Node(Int64(i)))
        notified += 1
        #expect(calls.values.count == notified)
        #expect(engine.unlisten(id))
        #expect(!engine.unlisten(id))
      }
      #expect(engine.listenerCounts == (0, 0))
      try await engine.set("n", 9)
      #expect(calls.values.count == notified)
      // The first member of a new group is called.
      _ = try await listen(engine, all, group, "again", calls)
      try await engine.set("n", 10)
      #expect(calls.values.last == "again 6")
      #expect(calls.values.count == notified + 1)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `the end of one group leaves the others and the listeners without a group`()
    async throws
  {
    try await withEngine { engine in
      let (one, two) = (Group(), Group())
      let calls = Answers<String>()
      let first = try await listen(engine, all, one, "one", calls)
      let second = try await listen(engine, all, two, "two", calls)
      let alone = try await listen(engine, all, nil, "alone", calls)
      engine.unlisten(first)
      try await engine.set("n", 1)
      #expect(calls.values.sorted() == ["alone 1", "two 1"])
      engine.unlisten(alone)
      try await engine.set("n", 2)
      #expect(calls.values.last == "two 2")
      engine.unlisten(second)
      try await engine.set("n", 3)
      #expect(calls.values.count == 3)
      #expect(engine.listenerCounts == (0, 0))
      withExtendedLifetime((one, two)) {}
    }
  }

  @Test func `a text is made once for all listeners that share a notification`() async throws {
    try await withEngine { engine in
      let made = Answers<Int>()
      let seen = Answers<String>()
      for _ in 0..<5 {
        await withCheckedContinuation { continuation in
          engine.listen(all) { notification in
            let text = notification.shared {
              made.add(1)
              return "text of \(notification.sequence)"
            }
            seen.add(text)
          } started: { _, _ in
            continuation.resume()
          }
        }
      }
      try await engine.set("n", 1)
      #expect(seen.values == [String](repeating: "text of 1", count: 5))
      #expect(made.values.count == 1)
    }
  }
}
