import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

/// Resumptions over commits with and without before-images.
extension ResumeTests {
  @Test
  func `without before-images only a copy of a whole place gets changes, the others get the state`()
    async throws
  {
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      try await engine.set("a", json(#"{"x":1,"y":2,"z":{".value":3,".priority":1}}"#))
      let limited = try Query(order: .key, limit: .first(2))
      let place = Path.root.child("a")
      let replicas = [
        (Replica(Listening(place, form: .child)), true),
        (Replica(Listening(place, form: .value)), true),
        (Replica(Listening(place, limited, form: .child)), true),
        (Replica(Listening(place, limited, form: .value)), true),
        (Replica(Listening(place, limited, form: .sync)), true),
        (Replica(Listening(place, form: .sync)), false),
        (Replica(Listening(.root, form: .sync)), false),
        (Replica(Listening(place.child("x"), form: .sync)), false),
        // Nothing was written there, so no before-image is needed.
        (Replica(Listening(place.child("y"), form: .value)), false),
        (Replica(Listening(.root.child("elsewhere"), form: .child)), false),
      ]
      for (replica, _) in replicas {
        replica.leave(engine, try #require(await replica.start(engine)))
      }
      try await engine.set("a/x", 5)
      try await engine.set("a/z/.priority", 7)
      try await engine.set("a/0", json(#"{"deep":{"er":true}}"#))
      try await engine.set("a/0/deep", .absent)
      try await engine.set("other", 1)
      journal.forgetImages(through: 3)
      for (replica, isAnew) in replicas {
        let resumed = try #require(try await replica.resume(engine))
        #expect(resumed.isAnew == isAnew, "\(replica.listening)")
        #expect(replica.problem(engine.root) == nil)
        replica.leave(engine, resumed.id)
        // Later commits have before-images again.
        try await engine.set("a/x", Node(engine.snapshot.sequence))
        let again = try #require(try await replica.resume(engine))
        #expect(!again.isAnew)
        #expect(replica.problem(engine.root) == nil)
        replica.leave(engine, again.id)
      }
    }
  }

  @Test(arguments: [1, 2, 3])
  func `copies of whole places are exact without any before-image`(turn: Int) async throws {
    let random = SeededGenerator(printingSeedFor: "ResumeTests.imageless")
    let journal = InMemoryJournal()
    try await withEngine(journal) { engine in
      for random in Self.generators(60, random) {
        var random = random
        let listening = try Listening.random(&random)
        let replica = Replica(Listening(listening.path, form: .sync))
        replica.leave(engine, try #require(await replica.start(engine)))
        await Self.write(Int.random(in: 0...12, using: &random), random, engine)
        journal.forgetImages(through: .max)
        let (id, isAnew) = try #require(try await replica.resume(engine))
        #expect(!isAnew)
        if let problem = replica.problem(engine.root) { Issue.record("\(problem)") }
        replica.leave(engine, id)
      }
    }
  }

  @Test(arguments: ["", "t", "t/a", "t/a/b"], EventForm.allCases)
  func `a leaf that became a branch and was then removed is not kept`(
    path: String, form: EventForm
  ) async throws {
    try await withEngine(InMemoryJournal()) { engine in
      let replica = Replica(Listening(try Path(path), form: form))
      replica.leave(engine, try #require(await replica.start(engine)))
      try await engine.set("t", json(#"{"a":5,"c":{"d":6}}"#))
      for (first, last) in [("t/a/b/x", "t/a/b/x"), ("t/c/d/e", "t/c/d"), ("t/c/y", "t/c/y")] {
        let (id, _) = try #require(try await replica.resume(engine))
        #expect(replica.problem(engine.root) == nil)
        replica.leave(engine, id)
        try await engine.set(first, 1)
        try await engine.set(last, .absent)
      }
      let (id, isAnew) = try #require(try await replica.resume(engine))
      #expect(!isAnew)
      #expect(replica.problem(engine.root) == nil)
      replica.leave(engine, id)
    }
  }
}
