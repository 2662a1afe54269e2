import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// The bounds on the views that one commit, or one batch, has the writer search and notify.
@Suite(.timeLimit(.minutes(20))) struct ConcernedViewsTests {
  /// Notes the commits that a group receives as a whole.
  private final class Group: ListenerGroup {
    func batchEnded(_ snapshot: Snapshot) {}

    let sequences = Answers<Int64>()

    func notify(_ change: CommittedChange) {
      sequences.add(change.sequence)
    }
  }

  private static func query(_ index: Int) throws -> Query {
    try Query(order: .child(Path.root.child(try Key("order\(index)"))))
  }

  private static func concerned(_ listeners: Listeners, _ path: String) throws -> ConcernedViews {
    listeners.views(concernedBy: [Assignment(Location(try Path(path)), 1)])
  }

  @Test func `a search ends when it has found more views than the writer notifies`() throws {
    let listeners = Listeners()
    let path = try Path("a")
    for index in 0..<10_000 {
      _ = listeners.add(Listening(path, try Self.query(index)), group: nil, owner: nil) { _ in }
      let concerned = try Self.concerned(listeners, "a/x")
      if index < ConcernedViews.countMax {
        #expect(!concerned.isMany && concerned.found.count == index + 1)
      } else if index == ConcernedViews.countMax || index == 9_999 {
        #expect(concerned.isMany && concerned.found.count == ConcernedViews.countMax + 1)
        #expect(concerned.looks <= ConcernedViews.countMax + 2)
      }
    }
    #expect(try Self.concerned(listeners, "b").isEmpty)
  }

  @Test func `a search ends when it has looked at many views whose bounds exclude the key`() throws
  {
    let listeners = Listeners()
    let path = try Path("a")
    func add(_ index: Int) throws {
      let bound = Query.Bound(.absent, key: try Key("b\(index)"))
      let query = try Query(order: .key, lower: bound)
      _ = listeners.add(Listening(path, query), group: nil, owner: nil) { _ in }
    }
    for index in 0..<ConcernedViews.looksMax { try add(index) }
    let most = try Self.concerned(listeners, "a/a")
    #expect(most.isEmpty && most.looks == ConcernedViews.looksMax)
    for index in 0..<1_000 { try add(ConcernedViews.looksMax + index) }
    let more = try Self.concerned(listeners, "a/a")
    #expect(more.isMany && more.looks == ConcernedViews.looksMax + 1)
  }

  private func listen(
    _ engine: Engine, _ count: Int, _ group: Group?, _ calls: Answers<Int64>
  ) async throws -> [ListenerID] {
    var ids: [ListenerID] = []
    for index in 0..<count {
      let listening = Listening(try Path("a"), try Self.query(index), form: .value)
      let id = await withCheckedContinuation { continuation in
        engine.listen(listening, group: group) { notification in
          calls.add(notification.sequence)
        } started: { id, _ in
          continuation.resume(returning: id)
        }
      }
      ids.append(try #require(id))
    }
    return ids
  }

  @Test func `a group receives a commit as a whole when it concerns more views than the bound`()
    async throws
  {
    try await withEngine { engine in
      let group = Group()
      let calls = Answers<Int64>()
      let ids = try await listen(engine, ConcernedViews.countMax, group, calls)
      try await engine.set("a/x", 1)
      #expect(calls.values.count == ConcernedViews.countMax && group.sequences.values.isEmpty)
      let more = try await listen(engine, ConcernedViews.countMax + 1, group, calls)
      try await engine.set("a/x", 2)
      #expect(calls.values.count == ConcernedViews.countMax && group.sequences.values == [2])
      // A listener without a group is notified in any case.
      let single = Answers<Int64>()
      let id = try await listen(engine, 1, nil, single)
      try await engine.set("a/x", 3)
      #expect(single.values == [3] && group.sequences.values == [2, 3])
      for id in ids + more + id { engine.unlisten(id) }
      try await engine.set("a/x", 4)
      #expect(single.values == [3] && group.sequences.values == [2, 3])
      #expect(engine.listenerCounts == (0, 0))
    }
  }

  @Test func `the writer notifies a bounded number of views for each batch`() async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let group = Group()
      let calls = Answers<Int64>()
      _ = try await listen(engine, ConcernedViews.countMax, group, calls)
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("b", 1, outcomes)
      await gate.reached()
      let within = Engine.notifiedViewsMax / ConcernedViews.countMax
      for number in 0..<within + 3 { engine.submitSet("a/x", Node(Int64(number)), outcomes) }
      gate.open()
      _ = await outcomes.wait(for: within + 4)
      #expect(calls.values.count == within * ConcernedViews.countMax)
      #expect(group.sequences.values == (0..<3).map { Int64(within + 2 + $0) })
      // The next batch has the whole number again.
      try await engine.set("a/x", -1)
      #expect(calls.values.count == (within + 1) * ConcernedViews.countMax)
    }
  }

  @Test func `an owner has so many different views and no more, and others are not concerned`()
    async throws
  {
    try await withEngine { engine in
      func listen(_ path: String, _ owner: ListenerOwner?) async throws -> (
        ListenerID?, ListenStart
      ) {
        let listening = Listening(try Path(path))
        return await withCheckedContinuation { continuation in
          engine.listen(listening, owner: owner) { _ in
          } started: {
            continuation.resume(returning: ($0, $1))
          }
        }
      }
      let owner = ListenerOwner("192.0.2.1", viewsMax: 2)
      let first = try #require(try await listen("a", owner).0)
      #expect(try await listen("b", owner).0 != nil)
      // The same view again costs no further one.
      let again = try #require(try await listen("a", owner).0)
      let (refused, start) = try await listen("c", owner)
      #expect(refused == nil && start.refusal == .tooManyViews && start.node.isAbsent)
      #expect(try await listen("c", ListenerOwner("192.0.2.2", viewsMax: 2)).0 != nil)
      #expect(try await listen("c", nil).0 != nil)
      engine.unlisten(first)
      #expect(try await listen("d", owner).0 == nil)
      engine.unlisten(again)
      #expect(try await listen("d", owner).0 != nil)
      #expect(engine.listeners.ownerCount == 2)
    }
  }

  @Test func `an owner without listeners is forgotten`() async throws {
    let listeners = Listeners()
    let owner = ListenerOwner("192.0.2.1", viewsMax: 10)
    let ids = try (0..<10).map { index in
      let listening = Listening(try Path("a/\(index % 5)"))
      return try #require(listeners.add(listening, group: nil, owner: owner) { _ in })
    }
    #expect(listeners.ownerCount == 1)
    for id in ids { listeners.remove(id) }
    #expect(listeners.ownerCount == 0 && listeners.counts == (0, 0))
  }
}
