import CanopyAccounts
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Reads without a connection, and after a restart of the process, as the original client answers them.
@Suite(.timeLimit(.minutes(20))) struct PersistenceBehaviourTests {
  private let temporaryFolder: TemporaryFolder

  init() throws {
    temporaryFolder = try TemporaryFolder()
  }

  /// Uses a database with persistence, then a second one offline on a copy of its state.
  private func restart(
    _ backend: Backend, _ before: (Database) async throws -> Void,
    offline after: (Database) async throws -> Void
  ) async throws {
    let folder = temporaryFolder.file(UUID().uuidString)
    let copy = temporaryFolder.file(UUID().uuidString)
    let first = try await backend.client { $0.persistenceFolder = folder }
    first.isPersistenceEnabled = true
    try await before(first)
    first.goOffline()
    await first.recorded()
    try FileManager.default.copyItem(atPath: folder, toPath: copy)
    let second = try backend.anonymousClient { $0.persistenceFolder = copy }
    second.isPersistenceEnabled = true
    second.goOffline()
    try await after(second)
  }

  private func setUp(_ backend: Backend, _ value: Any) async throws {
    try await backend.client().reference(withPath: "t").setValue(value)
  }

  /// Reads a location by an observer that is removed at once.
  private func observe(_ query: DatabaseQuery) async throws {
    _ = try await query.observeSingleEventAndPreviousSiblingKey(of: .value)
  }

  @Test(
    .ported("FPersist.testServerDataCachedOffline1"), arguments: WireKind.allCases)
  func `data observed before a restart answer getData without a connection`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await setUp(backend, ["a": 1, "b": 2])
      try await restart(backend) { database in
        try await observe(database.reference(withPath: "t"))
      } offline: { database in
        let place = database.reference(withPath: "t")
        #expect(try await place.getData().value as? [String: Int] == ["a": 1, "b": 2])
        #expect(try await place.child("a").getData().value as? Int == 1)
        #expect(try await place.child("none").getData().value is NSNull)
        let last = try await place.queryLimited(toLast: 1).getData()
        #expect(last.value as? [String: Int] == ["b": 2])
        // A pending write covers the saved data.
        place.child("a").startSet(9)
        #expect(try await place.getData().value as? [String: Int] == ["a": 9, "b": 2])
        await #expect(throws: DatabaseError.self) {
          try await database.reference(withPath: "other").getData()
        }
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `data fetched by getData survive a restart`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      try await setUp(backend, ["a": ["x": 1], "b": 2, "c": 3])
      try await restart(backend) { database in
        let place = database.reference(withPath: "t")
        _ = try await place.child("a").getData()
        _ = try await place.queryOrderedByKey().queryLimited(toLast: 2).getData()
        // Offline, it is there at once too.
        database.goOffline()
        #expect(try await place.child("a/x").getData().value as? Int == 1)
      } offline: { database in
        let place = database.reference(withPath: "t")
        #expect(try await place.child("a").getData().value as? [String: Int] == ["x": 1])
        let last = try await place.queryOrderedByKey().queryLimited(toLast: 2).getData()
        #expect(last.value as? [String: Int] == ["b": 2, "c": 3])
        await #expect(throws: DatabaseError.self) { try await place.getData() }
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `fetched data replace older saved data above and below`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      try await setUp(backend, ["a": ["x": 1, "y": 1]])
      let folder = temporaryFolder.file(UUID().uuidString)
      let database = try await backend.client { $0.persistenceFolder = folder }
      database.isPersistenceEnabled = true
      let place = database.reference(withPath: "t")
      try await observe(place)
      try await observe(place.child("a/x"))
      try await setUp(backend, ["a": ["x": 2, "y": 1]])
      _ = try await place.child("a").getData()
      database.goOffline()
      #expect(try await place.child("a/x").getData().value as? Int == 2)
      let whole = try await place.getData()
      #expect(whole.value as? [String: [String: Int]] == ["a": ["x": 2, "y": 1]])
      // The next listening brings the client up to date, from wherever it was.
      try await setUp(backend, ["a": ["x": 3, "y": 4]])
      database.goOnline()
      let fresh = Received<String>()
      place.observe(.value, with: { fresh.add($0.node.json()) })
      #expect(await fresh.wait { $0.last == #"{"a":{"x":3,"y":4}}"# }.count > 0)
    }
  }

  @Test func `data that were fetched only are synchronized as a whole when they are observed`()
    throws
  {
    var state = SyncTree(restoring: SavedState())
    let spec = try QuerySpec("a")
    let kept = state.fetched(json(#"{"x":1}"#), of: spec)
    #expect(kept.changes.count == 2)
    _ = state.connected()
    let effects = state.listen(ListenerID(1), to: spec, for: .value)
    #expect(effects.events.map(\.node) == [json(#"{"x":1}"#)])
    #expect(effects.starts.map(\.since) == [nil])
    // While it is listened to, a single read adds nothing.
    #expect(state.fetched(json(#"{"x":2}"#), of: spec).changes.isEmpty)
  }

  @Test(.ported("FPersist.testServerDataCompleteness1"), arguments: WireKind.allCases)
  func `children known singly raise their events after a restart, and no value`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await setUp(backend, ["child": ["a": 1, "b": 2, "c": 3], "other": "blah"])
      try await restart(backend) { database in
        let place = database.reference(withPath: "t")
        for path in ["child/a", "child/b", "other"] { try await observe(place.child(path)) }
      } offline: { database in
        let place = database.reference(withPath: "t")
        let seen = Received<String>()
        place.child("child").observe(.childAdded, with: { seen.add("+\($0.key) \($0.text)") })
        place.child("child").observe(.value, with: { _ in seen.add("value") })
        place.child("other").observe(.value, with: { seen.add($0.text) })
        #expect(await seen.wait { $0.contains("blah") } == ["+a 1", "+b 2", "blah"])
      }
    }
  }

  @Test(.ported("FPersist.testServerDataCompleteness2"), arguments: WireKind.allCases)
  func `children known singly stay readable under an observer of their parent`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await setUp(backend, ["a": 1, "b": 2])
      try await restart(backend) { database in
        for key in ["a", "b"] { try await observe(database.reference(withPath: "t/\(key)")) }
      } offline: { database in
        let place = database.reference(withPath: "t")
        place.observe(.value, with: { _ in })
        let seen = Received<String>()
        for key in ["a", "b"] { place.child(key).observe(.value, with: { seen.add($0.text) }) }
        #expect(await seen.wait(for: 2) == ["1", "2"])
      }
    }
  }

  @Test(.ported("FPersist.testServerDataLimit"), arguments: WireKind.allCases)
  func `the result of a limited query is readable after a restart, and the rest is not`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await setUp(backend, ["a": 1, "b": 2, "c": 3])
      try await restart(backend) { database in
        try await observe(database.reference(withPath: "t").queryLimited(toLast: 2))
      } offline: { database in
        let place = database.reference(withPath: "t")
        let seen = Received<String>()
        place.observe(.value, with: { _ in seen.add("value of the whole") })
        place.observe(.childAdded, with: { seen.add("+\($0.key)") })
        place.queryLimited(toLast: 2).observe(.value, with: { seen.add($0.node.json()) })
        #expect(await seen.wait(for: 3) == ["+b", "+c", #"{"b":2,"c":3}"#])
      }
    }
  }

  @Test(
    .ported("FPersist.testPutsAreRestoredInOrder", "FPersist.testSetIsReappliedAfterRestart"),
    arguments: WireKind.allCases)
  func `writes made offline are visible after a restart, in their order`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await restart(backend) { database in
        database.goOffline()
        let place = database.reference(withPath: "t")
        for number in 0..<11 { place.child("n").setValue(number) }
        place.child("c").startSet("hello")
        place.child("c").startSetPriority("p")
        place.startUpdate(["b": "b-val"])
      } offline: { database in
        let place = database.reference(withPath: "t")
        let seen = Received<String>()
        for key in ["n", "c", "b"] {
          place.child(key).observe(.value, with: { seen.add($0.node.json(.export)) })
        }
        #expect(
          await seen.wait(for: 3) == ["10", #"{".value":"hello",".priority":"p"}"#, #""b-val""#])
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `the result of a query without an index is readable after a restart`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client().reference(withPath: "posts")
      for key in ["a", "b", "c"] { try await writer.child("\(key)/title").setValue(key) }
      func last(_ database: Database) -> DatabaseQuery {
        database.reference(withPath: "posts").queryOrdered(byChild: "title").queryLimited(toLast: 2)
      }
      let folder = temporaryFolder.file(UUID().uuidString)
      let copy = temporaryFolder.file(UUID().uuidString)
      let first = try backend.anonymousClient { $0.persistenceFolder = folder }
      first.isPersistenceEnabled = true
      let keys = Received<[String]>()
      last(first).observe(.value, with: { keys.add($0.childSnapshots.map(\.key)) })
      #expect(await keys.wait(for: 1) == [["b", "c"]])
      try await writer.child("a/title").setValue("z")
      #expect(await keys.wait(for: 2).last == ["c", "a"])
      first.goOffline()
      await first.recorded()
      try FileManager.default.copyItem(atPath: folder, toPath: copy)
      // It is also known here after its observer has gone.
      last(first).removeAllObservers()
      #expect(try await last(first).getData().childSnapshots.map(\.key) == ["c", "a"])

      let second = try backend.anonymousClient { $0.persistenceFolder = copy }
      second.isPersistenceEnabled = true
      second.goOffline()
      #expect(try await last(second).getData().childSnapshots.map(\.key) == ["c", "a"])
      await #expect(throws: DatabaseError.self) {
        try await second.reference(withPath: "posts").getData()
      }
      let again = Received<[String]>()
      last(second).observe(.value, with: { again.add($0.childSnapshots.map(\.key)) })
      #expect(await again.wait(for: 1) == [["c", "a"]])
      try await writer.child("b/title").setValue("zz")
      second.goOnline()
      #expect(await again.wait { $0.last == ["a", "b"] }.isEmpty == false)
    }
  }

  @Test(
    .ported(
      "FPersist.testSetIsResentAfterRestart", "FPersist.testRemoveWhileOfflineAndRestart",
      "FPersist.testDeltaSyncAfterRestart"), arguments: WireKind.allCases)
  func `after a restart pending writes are sent once, and data are brought up to date`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
      let folder = temporaryFolder.file(UUID().uuidString)
      let copy = temporaryFolder.file(UUID().uuidString)
      let other = try await backend.client().reference(withPath: "t")
      try await other.setValue(["kept": "test"])
      let first = try await backend.client { $0.persistenceFolder = folder }
      first.isPersistenceEnabled = true
      try await observe(first.reference(withPath: "t/kept"))
      first.goOffline()
      let place = first.reference(withPath: "t/mine")
      place.startSet(["a": 42, "b": 3.1415, "c": "hello"] as [String: Any])
      place.child("a").startSet("a-val")
      place.child("c").startSetPriority("c-pri")
      place.startUpdate(["b": "b-val"])
      await first.recorded()
      try FileManager.default.copyItem(atPath: folder, toPath: copy)
      try await other.child("kept").removeValue()

      let second = try await backend.client { $0.persistenceFolder = copy }
      second.isPersistenceEnabled = true
      await second.reference(withPath: "t").waitUntilQuiet()
      let expected = #"{"a":"a-val","b":"b-val","c":{".value":"hello",".priority":"c-pri"}}"#
      #expect(try backend.node("t/mine") == json(expected))
      let seen = Received<String>()
      second.reference(withPath: "t/kept").observe(.value, with: { seen.add($0.text) })
      #expect(await seen.wait { $0.last == "nothing" }.isEmpty == false)
      // The writes of the first process are not made again.
      try await other.child("mine").setValue(12)
      second.goOffline()
      second.goOnline()
      await second.reference(withPath: "t").waitUntilQuiet()
      #expect(try backend.node("t/mine") == 12)
    }
  }
}
