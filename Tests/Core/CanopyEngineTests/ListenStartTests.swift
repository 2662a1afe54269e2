import CanopySystem
import CanopyTesting
import CanopyTree
import Dispatch
import Synchronization
import Testing

@testable import CanopyEngine

/// The start of listeners whose verdicts take many steps of the rules.
@Suite(.timeLimit(.minutes(20))) struct ListenStartTests {
  private final class Group: ListenerGroup {
    let checksAuthorizations = true

    func notify(_ change: CommittedChange) {}

    func batchEnded(_ snapshot: Snapshot) {}
  }

  private let starts = Answers<String>()

  /// Returns an authorization that takes many steps, and allows listening unless `open` is false.
  private func costly(_ onAsked: @escaping @Sendable () -> Void) -> ListenAuthorization {
    ListenAuthorization { root, _, stepsLeft in
      guard stepsLeft == .max else {
        stepsLeft = 0
        return nil
      }
      onAsked()
      return ReadVerdict(
        isAllowed: root.child("open") != false, paths: [Path.root.child("open")])
    }
  }

  @discardableResult
  private func listen(
    _ engine: Engine, _ group: Group, _ name: String, of network: String? = nil,
    _ authorization: ListenAuthorization
  ) throws -> StartingListenerID {
    engine.listen(
      Listening(try Path("secret"), form: .value), group: group,
      owner: network.map { ListenerOwner($0, viewsMax: 1_000) }, authorization: authorization
    ) { _ in
    } denied: {
    } started: { [starts] id, start in
      starts.add("\(name) \(id == nil ? "refused" : "begins") after \(start.sequence)")
    }
  }

  /// Makes a commit while another thread waits for it.
  private func set(_ engine: Engine, _ value: Node) {
    let isMade = DispatchSemaphore(value: 0)
    engine.submit { _ in
      Decision(try .set(Location("open"), WriteValue(value)), ())
    } completion: { _ in
      isMade.signal()
    }
    isMade.wait()
  }

  @Test func `the engine's thread asks for no verdict that takes many steps`() async throws {
    try await withEngine { engine in
      let onThread = Mutex<[Bool]>([])
      let group = Group()
      for number in 0..<10 {
        try listen(
          engine, group, "\(number)",
          costly {
            onThread.withLock { $0.append(engine.thread.isCurrent) }
          })
      }
      _ = await starts.wait(for: 10)
      #expect(onThread.withLock { $0 } == [Bool](repeating: false, count: 10))
      #expect(engine.listenerCounts.listeners == 10 && engine.authorizationCounts == (10, 10))
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a verdict counts only if nothing that it depends on has changed meanwhile`()
    async throws
  {
    try await withEngine { engine in
      let group = Group()
      let asked = Mutex(0)
      try listen(
        engine, group, "a",
        costly {
          let number = asked.withLock {
            $0 += 1
            return $0
          }
          if number < 3 { set(engine, Node(Int64(number))) }
        })
      #expect(await starts.wait(for: 1) == ["a begins after 2"])
      #expect(asked.withLock { $0 } == 3)
      try await engine.set("open", false)
      try listen(engine, group, "b", costly {})
      #expect(await starts.wait(for: 2).last == "b refused after 3")
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a listener begins although others always change what its verdict depends on`()
    async throws
  {
    try await withEngine { engine in
      let group = Group()
      let asked = Mutex(0)
      try listen(
        engine, group, "a",
        costly {
          let number = asked.withLock {
            $0 += 1
            return $0
          }
          if !engine.thread.isCurrent { set(engine, Node(Int64(number))) }
        })
      let last = Engine.startingTriesMax
      #expect(await starts.wait(for: 1) == ["a begins after \(last)"])
      #expect(asked.withLock { $0 } == last + 1)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `an unchanged branch inside a packed branch does not repeat a verdict`() async throws {
    try await withEngine { engine in
      try await engine.set("roles", try Node(json: #"{"a":{"b":1,"c":"text"},"d":2}"#))
      #expect(engine.root.child("roles").isPacked)
      let group = Group()
      let asked = Mutex(0)
      let path = try Path("roles/a")
      let authorization = ListenAuthorization { _, _, stepsLeft in
        guard stepsLeft == .max else { return nil }
        asked.withLock { $0 += 1 }
        return ReadVerdict(isAllowed: true, paths: [path])
      }
      try listen(engine, group, "a", authorization)
      #expect(await starts.wait(for: 1) == ["a begins after 1"])
      #expect(asked.withLock { $0 } == 1)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `listeners move to another group after they have begun, and do not wait for others`()
    async throws
  {
    try await withEngine { engine in
      let (group, other) = (Group(), Group())
      let mayEnd = DispatchSemaphore(value: 0)
      let isAsked = Answers<Bool>()
      let authorization = costly {
        isAsked.add(true)
        mayEnd.wait()
      }
      let start = try listen(engine, group, "a", authorization)
      _ = await isAsked.wait(for: 1)
      // It is asked for next, and does not move.
      try listen(engine, group, "b", authorization)
      let starts = starts
      engine.move(from: group, to: other, after: [start]) {
        starts.add("moves")
        return []
      } completion: {
        starts.add("has moved: \($0)")
      }
      try await engine.set("x", 1)
      #expect(starts.values.isEmpty)
      mayEnd.signal()
      #expect(
        await starts.wait(for: 3) == ["a begins after 1", "moves", "has moved: true"])
      _ = await isAsked.wait(for: 2)
      mayEnd.signal()
      #expect(await starts.wait(for: 4).last == "b begins after 1")
      withExtendedLifetime((group, other)) {}
    }
  }

  @Test func `a network with many listeners delays the listener of another network by a batch`()
    async throws
  {
    // Each verdict takes a millisecond, and nothing else takes time.
    let setting = Setting()
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    let journal = FaultyJournal(InMemoryJournal())
    try await withEngine(journal, configuration: configuration) { engine in
      let slow = ListenAuthorization { _, _ in
        setting.advance(.milliseconds(1))
        return ReadVerdict(isAllowed: true)
      }
      let group = Group()
      let gate = journal.holdNextAppend()
      let outcomes = Answers<Outcome>()
      engine.submitSet("a", 1, outcomes)
      await gate.reached()
      for number in 0..<40 { try listen(engine, group, "\(number)", of: "192.0.2.1", slow) }
      try listen(engine, group, "other", of: "192.0.2.2", slow)
      gate.open()
      let names = await starts.wait(for: 41).map { $0.prefix { $0 != " " } }
      let place = try #require(names.firstIndex(of: "other"))
      #expect(place <= 20, "\(place)")
      withExtendedLifetime(group) {}
    }
  }

  @Test func `listeners begin or are refused although the engine stops`() async throws {
    let mayEnd = DispatchSemaphore(value: 0)
    let isAsked = Answers<Bool>()
    try await withEngine { engine in
      let group = Group()
      try listen(
        engine, group, "a",
        costly {
          isAsked.add(true)
          mayEnd.wait()
        })
      _ = await isAsked.wait(for: 1)
      withExtendedLifetime(group) {}
    }
    mayEnd.signal()
    #expect(await starts.wait(for: 1) == ["a refused after 0"])
  }

  @Test func `a listener that is not wanted any more waits for no verdict`() async throws {
    try await withEngine { engine in
      let group = Group()
      let asked = Mutex(0)
      let gate = Gate()
      async let held: Void = engine.longStarts.withTurn { await gate.pass() }
      await gate.reached()
      let authorization = costly { asked.withLock { $0 += 1 } }
      let first = try listen(engine, group, "a", authorization)
      try await eventually { engine.longStarts.waiting == 1 }
      engine.cancel(first)
      #expect(await starts.wait(for: 1) == ["a refused after 0"])
      #expect(engine.longStarts.waiting == 0 && engine.listenerCounts.listeners == 0)
      gate.open()
      try await held
      #expect(asked.withLock { $0 } == 0)
      // One that has begun goes on.
      let second = try listen(engine, group, "b", authorization)
      _ = await starts.wait(for: 2)
      engine.cancel(second)
      try await engine.set("a", 1)
      #expect(engine.listenerCounts.listeners == 1 && asked.withLock { $0 } == 1)
      withExtendedLifetime(group) {}
    }
  }

  @Test func `a listener that is cancelled while its verdict is asked for does not begin`()
    async throws
  {
    try await withEngine { engine in
      let group = Group()
      let start = Mutex<StartingListenerID?>(nil)
      let asked = Mutex(0)
      let isKnown = DispatchSemaphore(value: 0)
      let id = try listen(
        engine, group, "a",
        costly {
          isKnown.wait()
          asked.withLock { $0 += 1 }
          if let start = start.withLock({ $0 }) { engine.cancel(start) }
        })
      start.withLock { $0 = id }
      isKnown.signal()
      #expect(await starts.wait(for: 1) == ["a refused after 0"])
      #expect(asked.withLock { $0 } == 1 && engine.listenerCounts.listeners == 0)
      withExtendedLifetime(group) {}
    }
  }
}
