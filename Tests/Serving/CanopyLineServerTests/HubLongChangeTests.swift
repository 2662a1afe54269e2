import CanopyTesting
import CanopyTree
import CanopyWire
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopyEngine
@testable import CanopyEvents

/// Changes whose events take long to compute.
@Suite(.timeLimit(.minutes(20))) struct HubLongChangeTests {
  /// Listens to a place of which a commit replaces so many children, and then a commit writes one.
  ///
  /// - Returns: the numbers of the events that were received before and after the work on another thread, and of such works.
  private func events(
    replacing count: Int, _ form: EventForm = .child, limits: Limits = Limits()
  ) async throws -> [Int] {
    let journal = FaultyJournal(InMemoryJournal())
    return try await withEngine(journal) { engine in
      var result = (before: 0, after: 0, works: 0)
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop)
      let works = Works()
      let hub = EventHub(
        inbox, engine: engine, limits: limits, now: { .uptimeNanoseconds(1) },
        later: { body in
          let bound = NIOLoopBound(body, eventLoop: loop)
          loop.execute { bound.value() }
        }, beside: { works.add($0) })
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      let setting = HubSetting(journal, engine, loop, hub)
      let place = try Path("place")
      func children(_ value: Int64) throws -> Node {
        Node(children: try (0..<count).map { (try Key("k\($0)"), Node(value)) })
      }
      func write(_ path: Path, _ node: Node) async throws {
        _ = try await engine.transact { _ in Decision(try Write([Write.Item(path, node)]), ()) }
        _ = try await engine.transact { _ in Decision(nil, ()) }
        await loop.run()
      }
      try await write(place, children(1))
      try await setting.begin(1, Listening(place, form: form))
      try await write(place, children(2))
      try await write(place.child("k0"), 3)
      result.before = try await setting.lines().count
      let isDrained = try await loop.executeInContext { hub.drain() }
      #expect(isDrained == (works.count == 0))
      result.works = works.count
      while works.run() { await loop.run() }
      result.after = try await setting.lines().count
      #expect(try await setting.lines().last?.contains("k0") == true)
      // A connection that has waited for another thread meanwhile.
      let isCalled = try await loop.executeInContext {
        var isCalled = false
        hub.afterEvents { isCalled = true }
        return isCalled
      }
      #expect(isCalled)
      await loop.shutdownGracefully()
      return [result.before, result.after, result.works]
    }
  }

  @Test func `the events of many replaced children are computed on another thread, in order`()
    async throws
  {
    let few = 256
    #expect(try await events(replacing: few) == [few + 1, few + 1, 0])
    // As many are compared before the commit and after it.
    let many = EventHub.comparedChildrenMax / 2 + 1
    #expect(try await events(replacing: many) == [0, many + 1, 1])
  }

  @Test
  func
    `the state of a large value is found on another thread for each event, that of a small one is not`()
    async throws
  {
    var limits = Limits()
    limits.wholeReplyBytesMax = 1_000
    #expect(try await events(replacing: 200, .value, limits: limits) == [2, 2, 0])
    #expect(try await events(replacing: 2_000, .value, limits: limits) == [0, 2, 1])
  }
}

#if CANOPY_COUNT_WORK
  /// Large events of small commits, and their texts.
  struct PreparedEventTests {
    private final class Reader: Subscriber {
      var pieces: [LinePieces] = []

      func accepts(
        _ notifications: [Notification], bytes: ValueBytes, for subscription: Int64
      ) -> Bool { true }

      func send(events lines: ByteBuffer) {}

      func send(eventHead head: ByteBuffer, rest: ByteBuffer) {}

      func send(events lines: LinePieces) { pieces.append(lines) }

      func cancel(_ subscription: Int64, _ code: WireError.Code) {}
    }

    /// Delivers the commit of a number below a large child.
    ///
    /// - Returns: whether it takes long, and the nodes that are touched on the event loop before the work beside it and
    ///   after it.
    private func deliver(
      _ form: EventForm, children count: Int32, keeping derived: DerivedBytes
    ) throws -> (takesLong: Bool, touched: Int, pieces: Int) {
      let listening = Listening(
        try Path("a"), form == .sync ? try Query(order: .key, limit: .last(3)) : .all, form: form)
      var tree = Tree(
        root: Node(children: [
          (
            "a",
            Node(children: [("b", Node(children: (0..<count).map { (Key(index: $0), "text") }))])
          )
        ]))
      let before = tree.root
      let assignments = [Assignment(Location(try Path("a/b/0")), 1)]
      tree.apply(assignments)
      let change = CommittedChange(
        Change(
          commit: Commit(sequence: 7, time: 0, assignments: assignments), views: ConcernedViews(),
          before: before, after: tree.root), bytes: 10)
      let view = LocalView(listening, Limits(), number: 0)
      let reader = Reader()
      view.add(HubSubscription(number: 1, isAuthorized: false, subscriber: reader))
      let delivery = view.delivery(
        of: [(Notification(listening, change, derived), change)], in: nil)
      var works = 0
      var touched = 0
      var step: ViewDelivery.Step?
      repeat {
        touched += WorkCounter.nodesTouched { step = delivery.step() }
        if let work = step?.work {
          work()
          works += 1
        }
      } while step != nil
      #expect(works <= 1, "the work is done once")
      return (works > 0, touched, reader.pieces.count)
    }

    @Test(arguments: EventForm.allCases, [0, 1_000_000])
    func `a large event is measured on another thread, also if no memory is left to share it`(
      _ form: EventForm, _ bytesMax: Int
    ) throws {
      let small = try deliver(form, children: 100, keeping: DerivedBytes(bytesMax: bytesMax))
      #expect(!small.takesLong && small.pieces == 0)
      let large = try deliver(form, children: 100_000, keeping: DerivedBytes(bytesMax: bytesMax))
      #expect(large.takesLong && large.pieces == 1)
      #expect(large.touched < 100, "\(large.touched) nodes")
    }

    @Test func `the values of large lines are freed on another thread`() async {
      let freed = AsyncStream<Bool>.makeStream()
      for memory in [1024, 2 * 1024 * 1024] {
        // Only the thread of the test has the value.
        Probe.$isHere.withValue(true) {
          let bytes = ValueBytes(json: 10, memory: memory)
          let probe = Probe { freed.continuation.yield(Probe.isHere) }
          withExtendedLifetime(LinePieces(bytes: bytes, of: consume probe) { _ in [] }) {}
        }
      }
      var places: [Bool] = []
      for await place in freed.stream {
        places.append(place)
        if places.count == 2 { break }
      }
      // Small values are freed at once.
      #expect(places == [true, false])
    }
  }

  private final class Probe: Sendable {
    @TaskLocal static var isHere = false
    private let note: @Sendable () -> Void

    init(_ note: @escaping @Sendable () -> Void) { self.note = note }

    deinit { note() }
  }
#endif

/// Work for another thread, which the test carries out.
private final class Works: Sendable {
  private let state = Mutex<(count: Int, next: (@Sendable () -> Void)?)>((0, nil))

  /// The number of works so far.
  var count: Int { state.withLock { $0.count } }

  func add(_ body: @escaping @Sendable () -> Void) -> Bool {
    state.withLock { $0 = ($0.count + 1, body) }
    return true
  }

  /// Runs the next work. Returns whether there was one.
  func run() -> Bool {
    guard let body = state.withLock({ $0.next.take() }) else { return false }
    body()
    return true
  }
}
