import CanopyTesting
import CanopyTree
import Logging
import Synchronization
import Testing

@testable import CanopyEngine

/// Counters and log lines of work that holds the writer for too long.
struct WriterWatchTests {
  private let setting = Setting()

  private func work(_ times: Int, _ milliseconds: Int, longest: Int? = nil) -> WriterHolds.Work {
    WriterHolds.Work(
      count: times, longest: .milliseconds(longest ?? milliseconds / times),
      total: .milliseconds(milliseconds))
  }

  @Test func `work of ten milliseconds is not counted, and work of one more is`() throws {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    setting.advance(.milliseconds(10))
    watch.note("SET", since: .zero)
    #expect(watch.holds == WriterHolds() && setting.logged().isEmpty)
    setting.advance(.milliseconds(1))
    let location = try Location("a/b")
    watch.note("SET", since: .zero, at: location)
    #expect(watch.holds.work == ["SET": work(1, 11)])
    #expect(watch.holds.longestWork == "SET")
    #expect(setting.logged() == [#"ms=11 path="/a/b" work=SET"#])
  }

  @Test func `a place that a client chose cannot forge a line or a field of the log`() throws {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    setting.advance(.milliseconds(11))
    let location = try Location("a\u{85}\u{202E} level=error")
    watch.note("SET", since: .zero, at: location)
    #expect(setting.logged() == [#"ms=11 path="/a   level=error" work=SET"#])
  }

  @Test func `there is a line a second, with the number of omitted ones`() {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    for _ in 0..<40 {
      let start = watch.now
      setting.advance(.milliseconds(40))
      watch.note("UPDATE", since: start)
    }
    #expect(watch.holds.count == 40)
    #expect(setting.logged() == ["ms=40 work=UPDATE", "ms=40 suppressed=24 work=UPDATE"])
  }

  @Test func `a slow disk is counted apart`() {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    setting.advance(.seconds(1))
    #expect(watch.noteAppend(since: .zero) == .seconds(1))
    #expect(watch.holds.count == 0 && watch.holds.appends == work(1, 1_000))
    #expect(setting.logged().isEmpty)
  }

  @Test func `each kind of work has its own counters, which one line repeats at the end`() {
    let watch = WriterWatch(clock: setting.elapsed, logger: setting.logger)
    watch.logSummary()
    #expect(setting.logged().isEmpty, "nothing held the writer")
    for (name, milliseconds) in [("SET", 20), ("PUSH", 30), ("SET", 40)] as [(StaticString, Int)] {
      let start = watch.now
      setting.advance(.milliseconds(milliseconds))
      watch.note(name, since: start)
    }
    let start = watch.now
    setting.advance(.milliseconds(15))
    _ = watch.noteAppend(since: start)
    #expect(watch.holds.work == ["SET": work(2, 60, longest: 40), "PUSH": work(1, 30)])
    #expect(watch.holds.count == 3 && watch.holds.longest == .milliseconds(40))
    _ = setting.logged()
    watch.logSummary()
    #expect(
      setting.logged() == [
        "PUSH=1 times, 30 ms, the longest 30 ms SET=2 times, 60 ms, the longest 40 ms "
          + "journal=1 times, 15 ms, the longest 15 ms"
      ])
  }

  @Test func `the engine names each step that takes long`() async throws {
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    try await withEngine(configuration: configuration) { [setting] engine in
      func submit(_ name: StaticString, decide: Bool, answer: Bool) async throws {
        try await withCheckedThrowingContinuation {
          (continuation: CheckedContinuation<Void, any Error>) in
          engine.submit(
            { _ in
              if decide { setting.advance(.milliseconds(20)) }
              return Decision(try Write.set(Location("a"), WriteValue(json: "1")), ())
            }, named: name
          ) { result in
            if answer { setting.advance(.milliseconds(30)) }
            continuation.resume(with: result.map { _ in })
          }
        }
        // The engine has noted the answer when it takes the next request.
        _ = try await engine.transact { _ in Decision(nil, ()) }
      }
      try await submit("SET", decide: false, answer: false)
      #expect(engine.writerHolds == WriterHolds())
      try await submit("SET", decide: true, answer: false)
      #expect(engine.writerHolds.work["SET"]?.count == 1)
      try await submit("PUSH", decide: false, answer: true)
      #expect(engine.writerHolds.work["PUSH"]?.longest == .milliseconds(30))
      #expect(engine.writerHolds.longestWork == "PUSH")
    }
  }

  @Test func `each name of the engine's own work is counted`() async throws {
    // Every piece of work takes long: the clock advances each time it is read.
    var configuration = Engine.Configuration()
    configuration.elapsed = { [setting] in
      setting.advance(.milliseconds(11))
      return setting.elapsed()
    }
    let engine = try await Engine(
      journal: InMemoryJournal(), configuration: configuration, now: { 1 }, clock: StepClock(),
      random: { 1 }, logger: setting.logger)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await engine.run() }
      await withCheckedContinuation { continuation in
        engine.listen(Listening(.root)) { _ in
        } started: { _, _ in
          continuation.resume()
        }
      }
      await withCheckedContinuation { continuation in
        engine.setAuthorizations([]) { continuation.resume() }
      }
      await engine.keepIndex(.value, at: .root)
      _ = try? await engine.set("a", 1)
      await withCheckedContinuation { continuation in
        engine.submit([[Decision(nil, ())]]) { _ in continuation.resume() }
      }
      engine.stop()
    }
    let names: Set = [
      "listen", "authorization", "index", "transaction", "writes", "listeners", "freeing",
    ]
    #expect(Set(engine.writerHolds.work.keys) == names)
    #expect(engine.writerHolds.appends.count == 1)
    // The last line has all of them.
    let line = setting.logged().last ?? ""
    for name in names { #expect(line.contains("\(name)="), "\(line)") }
  }

  @Test func `a slow listener is named`() async throws {
    var configuration = Engine.Configuration()
    configuration.elapsed = setting.elapsed
    try await withEngine(configuration: configuration) { [setting] engine in
      await withCheckedContinuation { continuation in
        engine.listen(Listening(.root)) { _ in
          setting.advance(.milliseconds(25))
        } started: { _, _ in
          continuation.resume()
        }
      }
      try await engine.set("a", 1)
      #expect(engine.writerHolds.work == ["listeners": work(1, 25)])
    }
  }

  @Test func `a large branch that is replaced counts as large, a leaf and a post do not`() throws {
    let place = try Location("a")
    func commit(_ replaced: Node) -> Commit {
      Commit(
        sequence: 1, time: 0, assignments: [],
        beforeImage: [Assignment(place, replaced)])
    }
    let text = String(repeating: "x", count: 1_000)
    let children = (0..<10).map { (Key(index: $0), Node(text)) }
    let post = Node(children: [("title", Node(text))])
    #expect(!RetiredTrees.areLarge([commit(.absent), commit(post)]))
    #expect(!RetiredTrees.areLarge([commit(Node(children: children.dropLast(7)))]))
    #expect(RetiredTrees.areLarge([commit(post), commit(Node(children: children))]))
  }
}
