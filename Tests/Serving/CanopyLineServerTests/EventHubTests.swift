import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Dispatch
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import CanopyEvents
@testable import CanopyLineServer

/// The events that an event loop sends to its subscriptions, and when it sends them.
struct EventHubTests {
  @Test
  func `many listeners receive the events of several commits at once while commits are under way`()
    async throws
  {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 0, lines: 0)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 2)]))
    }
  }

  @Test func `many listeners wait at most three milliseconds for a slow disk`() async throws {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.advanceTime(by: .microseconds(2_999))
      #expect(try await setting.sent() == Set([Sent(times: 0, lines: 0)]))
      await setting.loop.advanceTime(by: .microseconds(1))
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `few listeners do not wait for commits that are under way`() async throws {
    try await withHub(listeners: 63) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `many listeners do not wait when no commit is under way`() async throws {
    try await withHub(listeners: 64) { setting in
      _ = try await setting.engine.transact { _ in try setting.write(1) }
      // The engine is idle when it has answered an empty request.
      _ = try await setting.engine.transact { _ in Decision(nil, ()) }
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
    }
  }

  @Test func `a reply that waits for earlier events sends them at once`() async throws {
    try await withHub(listeners: 64) { setting in
      let second = try await setting.commitAndHoldTheNext()
      await setting.loop.run()
      try await setting.loop.executeInContext { _ = setting.hub.drain() }
      await setting.loop.run()
      #expect(try await setting.sent() == Set([Sent(times: 1, lines: 1)]))
      second.open()
      try await setting.waitUntilIdle()
      #expect(try await setting.sent() == Set([Sent(times: 2, lines: 2)]))
    }
  }

  @Test func `a subscriber is asked before later events are encoded, and may refuse them`()
    async throws
  {
    try await withHub(listeners: 1) { setting in
      // Each event has some 50 KB: the second fills a group.
      let value = Node(String(repeating: "x", count: 50_000))
      try await setting.end(after: 3)
      let first = setting.journal.holdNextAppend()
      for number in 0...40 as ClosedRange<Int64> {
        setting.engine.submit { _ in
          let value = number > 0 && number % 2 == 0 ? value : Node(number)
          return Decision(try Write([Write.Item(try Path("place"), value)]), ())
        } completion: { _ in
        }
        // The other commits are one batch.
        if number == 0 { await first.reached() }
      }
      first.open()
      try await setting.waitUntilIdle()
      // 64 KiB are two large events and the two small ones before them.
      #expect(try await setting.asked() == [1, 4, 4])
    }
  }

  @Test func `subscriptions of two protocols share a view, and each gets its own text`()
    async throws
  {
    try await withHub(listeners: 0) { setting in
      try await setting.begin([.line, .stream, .line])
      _ = try await setting.engine.transact { _ in try setting.write(7) }
      try await setting.waitUntilIdle()
      let texts = try await setting.texts()
      let line =
        #">{"sub":1,"event":"put","path":"/","data":7,"seq":\#(setting.engine.snapshot.sequence)}"#
      #expect(texts == [[line], ["event: put", #"data: {"path":"/","data":7}"#], [line]])
    }
  }

  @Test func `a loop that is behind sends each commit as long as few wait`() async throws {
    try await withHub(listeners: 1) { setting in
      for number in 1...1_000 as ClosedRange<Int64> {
        _ = try await setting.engine.transact { _ in try setting.write(number) }
      }
      await setting.loop.run()
      let values = try await setting.lines().map { try Event($0) }
      #expect(values.map(\.sequence) == (1...1_000).map { $0 })
    }
  }

  @Test func `a loop that is behind by many commits sends the newest value`() async throws {
    try await withHub(listeners: 1, eventBytesMax: 100 * PendingEvents.eventBytes) { setting in
      // The first commit is one batch, and all others are the next one.
      let first = setting.journal.holdNextAppend()
      for number in 1...1_000 as ClosedRange<Int64> {
        setting.engine.submit { _ in
          try setting.write(number)
        } completion: { _ in
        }
        if number == 1 { await first.reached() }
      }
      first.open()
      try await setting.waitUntilIdle()
      await setting.loop.run()
      let events = try await setting.lines().map { try Event($0) }
      #expect(events.count <= 101)
      #expect(events.last?.sequence == 1_000 && events.last?.data == .leaf(1_000))
      #expect(
        zip(events, events.dropFirst()).allSatisfy { ($0.sequence ?? 0) < ($1.sequence ?? 0) })
      // Later commits are sent one by one again.
      for number in 1_001...1_010 as ClosedRange<Int64> {
        _ = try await setting.engine.transact { _ in try setting.write(number) }
      }
      await setting.loop.run()
      let later = try await setting.lines().dropFirst(events.count).map { try Event($0).sequence }
      #expect(later == (1_001...1_010).map { $0 })
    }
  }

  @Test(arguments: [1, 20], [0, 2])
  func `copies equal their queries' answers however far their loop is behind`(
    _ eventsMax: Int, _ depth: Int
  ) async throws {
    // In one case each turn ends at the first look at the clock.
    let turnMax = eventsMax == 20 ? TimeAmount.zero : .hours(1)
    let random = SeededGenerator(printingSeedFor: "EventHubTests.behind")
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      var random = random
      var writes = RandomWrites()
      writes.keysMax = 4
      writes.depthMax = 3
      writes.bigOnceIn = 1_000
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(
        engine, loop: loop, eventBytesMax: eventsMax * PendingEvents.eventBytes)
      let hub = EventHub.test(inbox, engine, turnMax: turnMax)
      let setting = HubSetting(journal, engine, loop, hub)
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      // With a depth of zero all of them listen to one place, more than the writer notifies one by one.
      let count = depth == 0 ? 90 : 20
      for round in 0..<60 {
        // Some begin while commits wait.
        if round % 5 == 0 {
          for _ in 0..<count / 12 + 1 {
            var listening = try Listening.random(&random)
            listening.path = listening.path.prefix(min(depth, listening.path.count))
            try await setting.begin(listening)
          }
        }
        for _ in 0..<Int.random(in: 1...12, using: &random) {
          let write = writes.next(&random)
          _ = try? await engine.transact { _ in Decision(write, ()) }
        }
        guard random.oneIn(3) else { continue }
        try await setting.waitUntilIdle()
        let root = engine.root
        let problems = try await loop.executeInContext {
          try setting.copies.value.compactMap { try $0.problem(root) }
        }
        #expect(problems == [], "round \(round)")
        if !problems.isEmpty { break }
      }
      await loop.shutdownGracefully()
    }
  }

  @Test func `a read sees no newer commit than the events before it, whatever others read`()
    async throws
  {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop)
      let hub = EventHub.test(inbox, engine)
      let setting = HubSetting(journal, engine, loop, hub)
      try await setting.begin(1)
      _ = try await engine.transact { _ in try setting.write(1) }
      let sequence = try await loop.executeInContext {
        // A connection that has waited reads a commit that was not published when its events were taken.
        hub.wait { _ in
          let isCommitted = DispatchSemaphore(value: 0)
          engine.submit { _ in
            try setting.write(2)
          } completion: { _ in
            isCommitted.signal()
          }
          isCommitted.wait()
          inbox.release()
          #expect(inbox.snapshot.root == engine.root)
        }
        #expect(hub.drain())
        return inbox.snapshot.sequence
      }
      let events = try await setting.lines().map { try Event($0) }
      #expect(events.count == 2 && events.last?.sequence == sequence)
      await loop.shutdownGracefully()
    }
  }

  private func withHub(
    listeners count: Int, eventBytesMax: Int = LoopInbox.eventBytesMax,
    _ body: @escaping @Sendable (HubSetting) async throws -> Void
  ) async throws {
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal) { engine in
      let loop = NIOAsyncTestingEventLoop()
      let inbox = LoopInbox(engine, loop: loop, eventBytesMax: eventBytesMax)
      let hub = EventHub.test(inbox, engine)
      try await loop.executeInContext { inbox.onWakeUp { hub.drainSoon() } }
      let setting = HubSetting(journal, engine, loop, hub)
      try await setting.begin(count)
      try await body(setting)
      await loop.shutdownGracefully()
    }
  }
}

extension EventHub {
  /// Creates a hub whose turns never end, or end at the second look at the clock if `turnMax` is zero. It goes on when
  /// the test runs the loop.
  static func test(
    _ inbox: LoopInbox, _ engine: Engine, turnMax: TimeAmount = .hours(1)
  ) -> EventHub {
    let loop = inbox.loop
    let clock = LookClock(step: turnMax == .zero ? HubTurn.timeMax : .zero)
    return EventHub(inbox, engine: engine, limits: Limits()) {
      clock.look()
    } later: { body in
      let bound = NIOLoopBound(body, eventLoop: loop)
      loop.execute { bound.value() }
    } beside: { body in
      body()
      return true
    }
  }
}
