import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Observers of queries that overlap, and single reads, as the original client has them.
@Suite(.timeLimit(.minutes(20))) struct QueryObserverBehaviourTests {
  /// Returns the listens that the client keeps on the server, as `path` or `path with a query`.
  private func listens(_ database: Database) async -> Set<String> {
    await withCheckedContinuation { done in
      database.repository.use { state in
        let all = state.tree.listens.all.map { listen in
          let path = listen.spec.path.text
          return listen.spec.query.isUnbounded ? path : "\(path) \(listen.spec.query.limitText)"
        }
        done.resume(returning: Set(all))
      }
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testDedupesListensOnChild",
      "FIRDatabaseQueryTests.testDedupeListensOnGrandchild",
      "FIRDatabaseQueryTests.testListenOnGrandparentOfTwoChildren"), arguments: WireKind.allCases)
  func `a listen above replaces those below until it ends`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let database = place.database
      #expect(await listens(database) == [])
      for path in ["a/aa", "a/bb"] { place.child(path).observe(.value, with: { _ in }) }
      #expect(await listens(database) == ["t/a/aa", "t/a/bb"])
      place.observe(.value, with: { _ in })
      #expect(await listens(database) == ["t"])
      place.child("b").observe(.value, with: { _ in })
      #expect(await listens(database) == ["t"])
      place.removeAllObservers()
      #expect(await listens(database) == ["t/a/aa", "t/a/bb", "t/b"])
      for path in ["a/aa", "b"] { place.child(path).removeAllObservers() }
      #expect(await listens(database) == ["t/a/bb"])
      place.child("a/bb").removeAllObservers()
      #expect(await listens(database) == [])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testDedupingMultipleListenQueries",
      "FIRDatabaseQueryTests.testListenOnParentOfQueriedChildren"), arguments: WireKind.allCases)
  func `limited listens stand beside each other, and a whole one above replaces them`(
    _ kind: WireKind
  )
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let database = place.database
      let one = place.child("a").queryLimited(toLast: 1)
      let five = place.child("a").queryLimited(toLast: 5)
      let root = place.queryLimited(toLast: 1)
      let handles = [one, root, five].map { $0.observe(.value, with: { _ in }) }
      #expect(await listens(database) == ["t/a last 1", "t last 1", "t/a last 5"])
      place.removeObserver(withHandle: handles[1])
      #expect(await listens(database) == ["t/a last 1", "t/a last 5"])
      let whole = place.observe(.value, with: { _ in })
      #expect(await listens(database) == ["t"])
      one.removeObserver(withHandle: handles[0])
      #expect(await listens(database) == ["t"])
      place.removeObserver(withHandle: whole)
      #expect(await listens(database) == ["t/a last 5"])
      five.removeObserver(withHandle: handles[2])
      #expect(await listens(database) == [])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testOffCanBeCalledOnDefault",
      "FIRDatabaseQueryTests.testOffCanBeCalledOnHandle",
      "FIRDatabaseQueryTests.testOffCanBeCalledOnSpecificQuery",
      "FIRDatabaseQueryTests.testOffCanBeCalledOnMultipleQueries",
      "FIRDatabaseQueryTests.testOffCanBeCalledWithoutHandle"), arguments: WireKind.allCases, 0..<4)
  func `an observer of a query is removed at the query or at its location`(
    _ kind: WireKind, _ way: Int
  ) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      let query = place.queryLimited(toLast: 5)
      let handle = query.record(.value, to: log)[0]
      if way == 3 { place.record(.value, to: log) }
      place.startSet(["a": 5, "b": 6])
      await place.waitUntilQuiet()
      let count = log.values.count
      #expect(count >= (way == 3 ? 2 : 1))
      switch way {
      case 0, 3: place.removeAllObservers()
      case 1: place.removeObserver(withHandle: handle)
      default: query.removeObserver(withHandle: handle)
      }
      place.startSet(["a": 6, "b": 7])
      await place.waitUntilQuiet()
      #expect(log.values.count == count)
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testHandlesMultipleQueriesOnSameNode",
      "FIRDatabaseQueryTests.testHandlesOnceCalledOnNodeWithDefaultListener",
      "FIRDatabaseQueryTests.testHandlesOnceCalledOnNodeWithDefaultListenerAndNonCompleteLimit",
      "FIRDatabaseQueryTests.testQueriesBehaveProperlyAfterOnceCall",
      "FIRDatabaseQueryTests.testAddingListensForTheSamePathDoesNotCheckFail"),
    arguments: WireKind.allCases)
  func `single reads beside observers see the present value, and disturb none`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue(["a": 1, "b": 2, "c": 3, "d": 4])
      let log = EventLog()
      _ = try await reader.first()
      reader.queryLimited(toLast: 2).record(.value, to: log)
      await log.wait(for: 1)
      let once = EventLog()
      let one = reader.queryLimited(toLast: 1)
      one.observeSingleEvent(
        of: .value,
        with: { _ in one.observeSingleEvent(of: .value, with: { once.add("\($0.node.json())") }) })
      #expect(await once.joined(1) == #"{"d":4}"#)
      reader.record(.childRemoved, .childAdded, to: log)
      reader.queryOrderedByPriority().queryStarting(atValue: nil, childKey: "d")
        .record(.childAdded, to: log, as: "from ")
      await log.wait(for: 6)
      one.observeSingleEvent(of: .childAdded, with: { once.add($0.text) })
      #expect(await once.wait(for: 2).last == "4")
      let seen1 = try await reader.queryLimited(toLast: 5).keys()
      #expect(seen1 == ["a", "b", "c", "d"])
      for _ in 0..<2 {
        let seen2 = try await reader.child("a/toy").first().value is NSNull
        #expect(seen2)
      }
      let expected: Set = [#"={"c":3,"d":4}"#, "+a", "+b", "+c", "+d", "from +d"]
      #expect(Set(log.values) == expected && log.values.count == 6)
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testRemoveTriggersRemoteEvents",
      "FIRDatabaseQueryTests.testListenForChildAddedWithLimitEnsureEventsFireProperly",
      "FIRDatabaseQueryTests.testListenForChildChangedWithLimitEnsureEventsFireProperly",
      "FIRDatabaseQueryTests.testListenForChildRemovedWithLimitEnsureEventsFireProperly"),
    arguments: WireKind.allCases)
  func `others hear of each added, changed and removed child with its value`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      let log = EventLog()
      try await writer.setValue(["a": 1, "b": "b", "c": ["deep": "path"]])
      for type in [DataEventType.childAdded, .childChanged, .childRemoved] {
        reader.queryLimited(toLast: 3).observe(
          type, with: { log.add("\(type) \($0.key) \($0.node.json())") })
      }
      #expect(
        await log.joined(3)
          == #"childAdded a 1, childAdded b "b", childAdded c {"deep":"path"}"#)
      try await writer.setValue(["a": 2, "b": "b", "c": 3])
      #expect(await log.wait(for: 5).suffix(2) == ["childChanged a 2", "childChanged c 3"])
      for key in ["a", "b", "c"] { try await writer.child(key).removeValue() }
      #expect(
        await log.wait(for: 8).suffix(3)
          == ["childRemoved a 2", #"childRemoved b "b""#, "childRemoved c 3"])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testEmptyQueryGet", "FIRDatabaseQueryTests.testOfflineQueryGet",
      "FIRDatabaseQueryTests.testGetQueryBasic", "FIRDatabaseQueryTests.testQueryGetCached",
      "FIRDatabaseQueryTests.testGetRetrievesLatestValueEvenIfCached",
      "FIRDatabaseQueryTests.testQueryHasRef"), arguments: WireKind.allCases)
  func `getData asks the server, and returns the known value without a connection`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      #expect(reader.queryOrderedByKey().ref == reader)
      let seen3 = try await reader.getData().value is NSNull
      #expect(seen3)
      try await writer.setValue(42)
      let seen4 = try await reader.getData().value as? Int
      #expect(seen4 == 42)
      let log = EventLog()
      reader.record(.value, to: log)
      await log.wait(for: 1)
      try await writer.setValue(43)
      let seen5 = try await reader.getData().value as? Int
      #expect(seen5 == 43)
      await log.wait(for: 2)
      reader.database.goOffline()
      let seen6 = try await reader.getData().value as? Int
      #expect(seen6 == 43)
      let error = await #expect(throws: DatabaseError.self) {
        try await reader.parent?.child("other").getData()
      }
      #expect(error?.code == .disconnected)
    }
  }
}

extension Query {
  fileprivate var limitText: String {
    switch limit {
    case .first(let count)?: "first \(count)"
    case .last(let count)?: "last \(count)"
    case nil: "all"
    }
  }
}
