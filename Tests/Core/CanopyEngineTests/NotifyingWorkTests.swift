import CanopyTesting
import CanopyTree
import Synchronization
import Testing

@testable import CanopyEngine

/// The engine's work for its listeners, counted in nodes of the tree that it touches.
@Suite(.timeLimit(.minutes(20))) struct NotifyingWorkTests {
  private static func children(_ count: Int) -> Node {
    Node(
      children: (0..<count).map { i in
        (Key(index: Int32(i)), Node(String(repeating: "x", count: 40)))
      })
  }

  /// Returns the number of nodes that the engine touches for one write to a place with so many children, when
  /// listeners have different queries there.
  private static func work(
    children count: Int, listeners: Int, _ form: EventForm, write: Write,
    costMax: Int = Engine.Configuration().notifyingCostMax
  ) async throws -> Int {
    var configuration = Engine.Configuration()
    configuration.notifyingCostMax = costMax
    return try await WorkCounter.counting { [configuration] counter in
      try await withEngine(configuration: configuration) { engine in
        try await engine.set("a", children(count))
        let notifications = Answers<Notification>()
        for i in 0..<listeners {
          let query = try Query(order: .key, limit: .last(count - i))
          let started = Answers<Bool>()
          engine.listen(Listening(try Path("a"), query, form: form)) {
            notifications.add($0)
          } started: { id, _ in
            started.add(id != nil)
          }
          _ = await started.wait(for: 1)
        }
        let before = counter.count
        _ = try await engine.transact { _ in Decision(write, ()) }
        let work = counter.count - before
        #expect(notifications.values.count == listeners)
        // All of them are notified.
        for i in [0, listeners - 1] { #expect(!notifications.values[i].events.isEmpty) }
        if case .value(let node)? = notifications.values.first?.events.first {
          #expect(node == engine.value("a"))
        } else {
          #expect(form != .value)
        }
        return work
      }
    }
  }

  @Test(arguments: EventForm.allCases)
  func `a small write costs the same however large the results of its listeners are`(
    _ form: EventForm
  ) async throws {
    let write = try Write([Write.Item(try Path("a/400"), 1)])
    let few = try await Self.work(children: 500, listeners: 50, form, write: write)
    let many = try await Self.work(children: 8_000, listeners: 50, form, write: write)
    // The tree is a little deeper.
    #expect(many < 2 * few)
    #expect(many < 50 * 200)
  }

  @Test(arguments: EventForm.allCases)
  func `a large write does not cost more the more listeners there are`(
    _ form: EventForm
  ) async throws {
    let write = try Write((0..<1_000).map { Write.Item(try Path("a/\($0)"), Node(Int64($0))) })
    // One view costs 1,000 steps and some, so one or two are looked at.
    let costMax = 2_500
    let few = try await Self.work(
      children: 1_100, listeners: 10, form, write: write, costMax: costMax)
    let many = try await Self.work(
      children: 1_100, listeners: 90, form, write: write, costMax: costMax)
    #expect(many < few + 80 * 20)
  }

  @Test func `a view whose bounds exclude the key of the child that is written costs nothing`()
    async throws
  {
    var configuration = Engine.Configuration()
    configuration.notifyingCostMax = 0
    try await withEngine(configuration: configuration) { engine in
      let key = Key("m")
      func bound(_ text: String, _ isInclusive: Bool) throws -> Query.Bound {
        Query.Bound(.absent, key: try Key(text), isInclusive: isInclusive)
      }
      let calls = Answers<String>()
      func listen(_ name: String, _ query: Query, _ form: EventForm = .child) async throws {
        let started = Answers<Bool>()
        engine.listen(Listening(try Path("a"), query, form: form)) { _ in
          calls.add(name)
        } started: { id, _ in
          started.add(id != nil)
        }
        #expect(await started.wait(for: 1) == [true])
      }
      for form in EventForm.allCases {
        try await listen("upper", try Query(order: .key, upper: bound("l", true)), form)
        try await listen(
          "limited", try Query(order: .key, upper: bound("l", true), limit: .last(1)), form)
        try await listen("before m", try Query(order: .key, upper: bound("m", false)), form)
        try await listen("lower", try Query(order: .key, lower: bound("n", true)), form)
        try await listen("after m", try Query(order: .key, lower: bound("m", false)), form)
      }
      let shown = [
        ("to m", try Query(order: .key, upper: bound("m", true))),
        ("from m", try Query(order: .key, lower: bound("m", true))),
        ("within", try Query(order: .key, lower: bound("a", true), upper: bound("z", true))),
        ("last", try Query(order: .key, limit: .last(1))), ("all", .all),
      ]
      for (name, query) in shown { try await listen(name, query) }
      for path in ["a/m", "a/m/x", "a/m/x/y"] {
        let before = calls.values.count
        try await engine.set(path, 1)
        #expect(calls.values.dropFirst(before).sorted() == shown.map(\.0).sorted())
      }
      // A write of the whole location concerns all views.
      let before = calls.values.count
      try await engine.set("a", Node(children: [(key, 2)]))
      #expect(calls.values.count == before + 20)
    }
  }

  @Test func `a listener may be notified, without events, of a commit that changed nothing for it`()
    async throws
  {
    var configuration = Engine.Configuration()
    configuration.notifyingCostMax = 500
    try await withEngine(configuration: configuration) { engine in
      try await engine.set("a", Self.children(1_000))
      let first = Replica(
        Listening(try Path("a"), try Query(order: .key, limit: .first(2)), form: .value))
      let id = try #require(await first.start(engine))
      let notifications = Answers<Notification>()
      let started = Answers<Bool>()
      engine.listen(first.listening) {
        notifications.add($0)
      } started: { id, _ in
        started.add(id != nil)
      }
      #expect(await started.wait(for: 1) == [true])
      let items = try (100..<1_000).map { Write.Item(try Path("a/\($0)"), 1) }
      _ = try await engine.transact { _ in Decision(try Write(items), ()) }
      #expect(notifications.values.map(\.events) == [[]])
      #expect(first.problem(engine.root) == nil)
      // The budget of the large commit is not that of the next small ones.
      try await engine.set("a/300", 2)
      #expect(notifications.values.count == 1)
      try await engine.set("a/1", 2)
      #expect(notifications.values.map(\.events.count) == [0, 1])
      #expect(first.problem(engine.root) == nil)
      first.leave(engine, id)
    }
  }
}
