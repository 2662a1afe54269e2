import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyEngine

/// Groups of writes whose large values have their texts and indexes already.
@Suite(.timeLimit(.minutes(20))) struct JointPreparedTests {
  private func configuration() -> Engine.Configuration {
    var configuration = Engine.Configuration.forTests
    configuration.threadTime = { .zero }
    configuration.indexPlan.declare(.child(Path.root.child("n")), at: ["list"])
    return configuration
  }

  private func list(_ count: Int) throws -> Node {
    let body = String(repeating: "x", count: 40)
    return Node(
      children: try (0..<count).map { number in
        (
          try Key("k\(number)"),
          Node(children: [("n", Node(Int64(number % 7))), ("t", Node(body))])
        )
      })
  }

  /// Returns the decision of a write that is prepared for an engine.
  private func prepared(_ write: Write, _ engine: Engine) -> Decision<Void> {
    var write = write
    write.addIndexes(of: engine.indexPlan, over: 0)
    write.encodeValues(over: 0)
    return Decision(write, ())
  }

  private func submit(_ group: [Decision<Void>], to engine: Engine) async -> WritesOutcome {
    await withCheckedContinuation { continuation in
      engine.submit([group]) { continuation.resume(returning: $0) }
    }
  }

  /// Returns the nodes that an engine touches for a group with a large value and a small one.
  private func work(_ count: Int) async throws -> Int {
    let list = try list(count)
    return try await WorkCounter.counting { [configuration] counter in
      try await withEngine(configuration: configuration()) { engine in
        let large = try Write.set(Location("list"), WriteValue(list))
        let group = await Task.detached {
          [self.prepared(large, engine)]
        }.value
        let small = Decision(try Write.set(Location("online"), WriteValue(false)), ())
        let before = counter.count
        #expect(await submit(group + [small], to: engine) == WritesOutcome(decided: 2))
        let work = counter.count - before
        #expect(engine.root.child("list") == list && engine.snapshot.sequence == 1)
        #expect(engine.root.brokenInvariant() == nil)
        return work
      }
    }
  }

  @Test func `the writer neither encodes nor sorts a large value of a group`() async throws {
    let (few, many) = (try await work(1_000), try await work(8_000))
    #expect(many < few + 200, "\(few), then \(many)")
  }

  @Test func `a group in which a write changes a large value before it is made write by write`()
    async throws
  {
    let store = InMemoryJournal()
    try await withEngine(store, configuration: configuration()) { engine in
      let list = try list(4_000)
      let large = prepared(try Write.set(Location("list"), WriteValue(list)), engine)
      let change = Decision(try Write.set(Location("list/k5/n"), WriteValue(100)), ())
      let other = Decision(try Write.set(Location("online"), WriteValue(false)), ())
      let outcome = await submit([large, change, other], to: engine)
      #expect(outcome == WritesOutcome(decided: 3))
      #expect(engine.root.child("list") == list.setting(100, at: try Path("k5/n")))
      #expect(engine.root.child("online") == false)
      #expect(engine.root.brokenInvariant() == nil)
    }
    #expect(
      store.commits.map { $0.assignments.map(\.location.text) } == [
        ["list"], ["list/k5/n"], ["online"],
      ])
    #expect(store.commits.folded().child("list").childCount == 4_000)
  }
}
