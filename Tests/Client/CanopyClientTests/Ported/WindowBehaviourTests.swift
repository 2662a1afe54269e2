import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Limited queries, as the original client answers them. Each test runs on data that its client wrote and observed, and
/// again on data of the server.
@Suite(.timeLimit(.minutes(20))) struct WindowBehaviourTests {
  /// Sets a value before or after a body that observes.
  private func set(
    _ value: [String: Any], _ place: DatabaseReference, isFirst: Bool,
    _ observe: () -> Void
  ) async throws {
    if isFirst { try await place.setValue(value) }
    observe()
    if !isFirst { place.startSet(value) }
    await place.waitUntilQuiet()
  }

  private static var three: [String: Any] { ["a": 1, "b": 2, "c": 3] }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testEnsureOnly5ItemsAreKept",
      "FIRDatabaseQueryTests.testOnlyLast5SentFromServer",
      "FIRDatabaseQueryTests.testLocalEvents", "FIRDatabaseQueryTests.testRemoteEvents"),
    arguments: WireKind.allCases)
  func `the last children stay in the window, at the writer and at others`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      let (values, local, remote) = (Received<[Int]>(), EventLog(), EventLog())
      writer.queryLimited(toLast: 5).observe(
        .value, with: { values.add($0.childSnapshots.map { $0.value as? Int ?? -1 }) })
      await values.wait(for: 1)
      for (place, log) in [(writer, local), (reader, remote)] {
        let query = place.queryLimited(toLast: 2)
        query.observe(.childAdded, with: { log.add("+\($0.text)") })
        query.observe(.childRemoved, with: { log.add("-\($0.text)") })
      }
      _ = try await reader.queryLimited(toLast: 2).first()
      for number in 0..<10 { writer.childByAutoId().startSet(number) }
      #expect(await values.wait(for: 11).last == [5, 6, 7, 8, 9])
      let expected = "+0, +1, -0, +2, -1, +3, -2, +4"
      #expect(await local.wait(for: 18).prefix(8).joined(separator: ", ") == expected)
      await remote.wait { $0.last == "+9" }
      let last = try await reader.queryLimited(toLast: 5).first()
      #expect(last.childSnapshots.map { $0.value as? Int ?? -1 } == [5, 6, 7, 8, 9])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testVariousLimits", "FIRDatabaseQueryTests.testSetLimitsWithStartAt",
      "FIRDatabaseQueryTests.testLimitsAndStartAtWithServerData",
      "FIRDatabaseQueryTests.testStartAtAndLimit1Works"), arguments: WireKind.allCases,
    [true, false])
  func `limits combine with bounds of the key`(_ kind: WireKind, _ isFirst: Bool) async throws {
    try await withPair(over: kind) { _, place, _ in
      let order = place.queryOrderedByPriority()
      func from(_ key: String?, _ count: UInt) -> DatabaseQuery {
        order.queryStarting(atValue: nil, childKey: key).queryLimited(toFirst: count)
      }
      func to(_ count: UInt) -> DatabaseQuery {
        order.queryEnding(atValue: nil).queryLimited(toLast: count)
      }
      let cases: [(DatabaseQuery, [String])] = [
        (place.queryLimited(toLast: 1), ["c"]), (to(1), ["c"]), (to(2), ["b", "c"]),
        (to(3), ["a", "b", "c"]), (to(4), ["a", "b", "c"]),
        (order.queryStarting(atValue: nil).queryLimited(toFirst: 1), ["a"]), (from("c", 1), ["c"]),
        (from("b", 1), ["b"]), (from("b", 2), ["b", "c"]), (from("b", 3), ["b", "c"]),
      ]
      let logs = cases.map { _ in Received<[String]>() }
      try await set(Self.three, place, isFirst: isFirst) {
        for (log, (query, _)) in zip(logs, cases) {
          query.observe(.value, with: { log.add($0.childSnapshots.map(\.key)) })
        }
      }
      for (log, (_, expected)) in zip(logs, cases) { await log.wait { $0.last == expected } }
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testChildEventsAreFiredWhenLimitIsHit",
      "FIRDatabaseQueryTests.testChildEventsAreFiredWhenLimitIsHitWithServerData",
      "FIRDatabaseQueryTests.testChildEventsAreFiredWhenLimitIsHitWithStart",
      "FIRDatabaseQueryTests.testChildEventsAreFiredWhenLimitIsHitWithStartAndServerData",
      "FIRDatabaseQueryTests.testStartAndLimitWithIncompleteWindow",
      "FIRDatabaseQueryTests.testStartAndLimitWithIncompleteWindowAndServerData"),
    arguments: WireKind.allCases, [true, false])
  func `a child that enters a full window drives one out`(_ kind: WireKind, _ isFirst: Bool)
    async throws
  {
    try await withPair(over: kind) { _, root, _ in
      let (last, start, partial) = (EventLog(), EventLog(), EventLog())
      let (one, two, three) = (root.child("1"), root.child("2"), root.child("3"))
      try await set(Self.three, one, isFirst: isFirst) {
        one.queryLimited(toLast: 2).record(.childAdded, .childRemoved, to: last)
      }
      one.child("d").startSet(4)
      #expect(await last.joined(4) == "+b, +c, -b, +d")
      func from(_ place: DatabaseReference) -> DatabaseQuery {
        place.queryOrderedByPriority().queryStarting(atValue: nil, childKey: "a")
          .queryLimited(toFirst: 2)
      }
      try await set(Self.three, two, isFirst: isFirst) {
        from(two).record(.childAdded, .childRemoved, to: start)
      }
      two.child("aa").startSet(4)
      #expect(await start.joined(4) == "+a, +b, -b, +aa")
      try await set(["c": 3], three, isFirst: isFirst) {
        from(three).record(.childAdded, .childRemoved, to: partial)
      }
      three.child("b").startSet(4)
      await three.waitUntilQuiet()
      #expect(partial.values == ["+c", "+b"])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testChildEventsFiredWhenItemDeleted",
      "FIRDatabaseQueryTests.testChildEventsAreFiredWhenItemDeletedAtServer",
      "FIRDatabaseQueryTests.testRemoveFiredWhenItemDeleted",
      "FIRDatabaseQueryTests.testRemoveFiredWhenItemDeletedAtServer",
      "FIRDatabaseQueryTests.testHandlesRemovingAQueriedElement",
      "FIRDatabaseQueryTests.testStartAtAndLimit1AndRemoveFirstChild"),
    arguments: WireKind.allCases, [true, false])
  func `the next child takes the place of a removed one, if there is one`(
    _ kind: WireKind, _ isFirst: Bool
  )
    async throws
  {
    try await withPair(over: kind) { _, root, _ in
      let logs = (0..<4).map { _ in EventLog() }
      let places = (0..<4).map { root.child("\($0)") }
      let queries = [
        places[0].queryLimited(toLast: 2), places[1].queryLimited(toLast: 2),
        places[2].queryLimited(toLast: 1),
        places[3].queryOrderedByPriority().queryStarting(atValue: nil).queryLimited(toFirst: 1),
      ]
      let values = [Self.three, ["b": 2, "c": 3], ["a": 1, "b": 2], ["a": 1, "b": 2]]
      let removed = ["b", "b", "b", "a"]
      let expected = [
        ["+b", "+c", "-b", "+a"], ["+b", "+c", "-b"], ["+b", "-b", "+a"], ["+a", "-a", "+b"],
      ]
      for index in 0..<4 {
        try await set(values[index], places[index], isFirst: isFirst) {
          queries[index].record(.childAdded, .childRemoved, to: logs[index])
        }
        await logs[index].wait(for: isFirst || index > 1 ? 1 : 2)
        places[index].child(removed[index]).startSet(nil)
        await logs[index].wait(for: expected[index].count)
        await places[index].waitUntilQuiet()
        #expect(logs[index].values == expected[index])
      }
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testPrevNameWorks",
      "FIRDatabaseQueryTests.testPrevNameWorksWithMoves"), arguments: WireKind.allCases)
  func `the key before a child is that within the window`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, root, _ in
      let (added, moved) = (EventLog(), EventLog())
      let (one, two) = (root.child("1"), root.child("2"))
      one.queryLimited(toLast: 2).recordPlaces(.childAdded, to: added)
      for (key, number) in [("a", 1), ("c", 3), ("b", 2), ("d", 3)] {
        one.child(key).startSet(number)
      }
      let expected = "+a after none, +c after a, +b after none, +d after c"
      #expect(await added.joined(4) == expected)
      two.queryLimited(toLast: 2).recordPlaces(.childMoved, to: moved)
      two.startSet(
        ["a": 10, "b": 20, "c": 30, "d": 40].mapValues { [".value": 1, ".priority": $0] })
      two.child("c").startSetPriority(50)
      two.child("c").startSetPriority(35)
      two.child("b").startSetPriority(33)
      await two.waitUntilQuiet()
      #expect(moved.values == [">c after d", ">c after none"])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testLimitWithMixOfNullAndNonNullPriorities",
      "FIRDatabaseQueryTests.testLimitWithMixOfNullAndNonNullPrioritiesOnServerData"),
    arguments: WireKind.allCases, [true, false])
  func `a child without a priority leaves a full window first`(_ kind: WireKind, _ isFirst: Bool)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      var people: [String: Any] = ["Fred": ["score": 0]]
      for (name, score) in [
        ("Vikrum", 1000), ("Mike", 500), ("Andrew", 50), ("James", 7), ("Sally", -7),
      ] {
        people[name] = [".priority": score, "score": score]
      }
      try await set(people, place, isFirst: isFirst) {
        place.queryLimited(toLast: 5).record(.childAdded, to: log)
      }
      #expect(await log.joined(5) == "+Sally, +James, +Andrew, +Mike, +Vikrum")
    }
  }

  @Test(
    .ported(
      "FIRDatabaseQueryTests.testHandlesAnOutOfViewQueryOnAChild",
      "FIRDatabaseQueryTests.testHandlesAChildQueryGoingOutOfViewOfTheParent",
      "FIRDatabaseQueryTests.testHandlesDivergingViews"), arguments: WireKind.allCases)
  func `observers of a window, of a child outside it, and of another window are independent`(
    _ kind: WireKind
  )
    async throws
  {
    try await withPair(over: kind) { _, root, _ in
      let (window, child) = (EventLog(), EventLog())
      let place = root.child("1")
      place.queryLimited(toLast: 1).record(.value, to: window)
      place.child("a").record(.value, to: child)
      place.startSet(["a": 1])
      await place.waitUntilQuiet()
      for (key, value) in [("b", 2), ("c", 3), ("c", nil), ("b", nil)] as [(String, Int?)] {
        place.child(key).startSet(value)
        await place.waitUntilQuiet()
      }
      #expect(
        window.values.filter { $0 != "=null" }
          == [#"={"a":1}"#, #"={"b":2}"#, #"={"c":3}"#, #"={"b":2}"#, #"={"a":1}"#])
      #expect(child.values.filter { $0 != "=null" } == ["=1"])
      let (c, d) = (EventLog(), EventLog())
      let other = root.child("2")
      for (key, log) in [("c", c), ("d", d)] {
        other.queryOrderedByPriority().queryEnding(atValue: nil, childKey: key)
          .queryLimited(toLast: 1).record(.value, to: log)
      }
      other.startSet(Self.three)
      other.child("d").startSet(4)
      await other.waitUntilQuiet()
      #expect(c.values.last == #"={"c":3}"#)
      #expect(d.values.suffix(2) == [#"={"c":3}"#, #"={"d":4}"#])
    }
  }

  @Test(
    .ported("FIRDatabaseQueryTests.testItemsPulledIntoLimitCorrectly"), arguments: WireKind.allCases
  )
  func `a known child outside the window is pulled in at once`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.observe(.value, with: { _ in })
      place.queryLimited(toLast: 2).record(.value, to: log)
      place.startSet(["a": 1, "b": 2, "c": 3].mapValues { [".value": $0, ".priority": $0] })
      place.child("b").startSet(nil)
      await place.waitUntilQuiet()
      #expect(
        log.values.filter { $0 != "=null" } == [
          #"={"b":{".value":2,".priority":2},"c":{".value":3,".priority":3}}"#,
          #"={"a":{".value":1,".priority":1},"c":{".value":3,".priority":3}}"#,
        ])
    }
  }
}
