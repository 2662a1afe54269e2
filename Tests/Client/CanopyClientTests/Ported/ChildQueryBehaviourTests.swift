import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Queries by a child, by key and by value, as the original client answers them. The rules declare no index for them.
@Suite(.timeLimit(.minutes(20))) struct ChildQueryBehaviourTests {
  private static let nuggets: [String: Double] = [
    "alex": 60, "rob": 56, "vassili": 55.5, "tony": 52, "greg": 52,
  ]
  private static let inOrder =
    "+greg after none, +tony after greg, +vassili after tony, +rob after vassili, +alex after rob"

  @Test(
    .ported(
      "FOrderByTests.testCanDefineAndUseAnIndex", "FOrderByTests.testCanDefineAndUseDeepIndex",
      "FOrderByTests.testServerRespectsDeepIndex"), arguments: WireKind.allCases,
    ["nuggets", "deep/nuggets"])
  func `children are ordered by a value below them, at any depth`(_ kind: WireKind, _ path: String)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      for (name, number) in [("Andrew", 35), ("Rob", 40), ("Greg", 38)] {
        try await writer.child(name).setValue(["name": name])
        try await writer.child(name).child(path).setValue(number)
      }
      let log = EventLog()
      reader.queryOrdered(byChild: path).record(.childAdded, to: log)
      #expect(await log.joined(3) == "+Andrew, +Greg, +Rob")
      let from = reader.queryOrdered(byChild: path).queryStarting(atValue: 38)
      let seen1 = try await from.queryLimited(toFirst: 2).keys()
      #expect(seen1 == ["Greg", "Rob"])
    }
  }

  @Test(
    .ported(
      "FOrderByTests.testCanUsaAFallbackThenDefineTheSpecifiedIndex",
      "FOrderByTests.testUpdatesForUnindexedQuery"), arguments: WireKind.allCases)
  func `a limited query hears only of what enters its window`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue([
        "a": ["order": 2, "foo": 1], "b": ["order": 0], "c": ["order": 1, "foo": false],
        "d": ["order": 3, "foo": "hello"],
      ])
      let log = EventLog()
      reader.queryOrdered(byChild: "order").queryLimited(toLast: 2).record(.value, to: log)
      let first = #"={"a":{"foo":1,"order":2},"d":{"foo":"hello","order":3}}"#
      #expect(await log.joined(1) == first)
      try await writer.child("e").setValue(["order": 1.5, "foo": true])
      await reader.waitUntilQuiet()
      #expect(log.values.count == 1)
      try await writer.child("f").setValue(["order": 4, "foo": ["bar": "baz"]])
      let second = #"={"d":{"foo":"hello","order":3},"f":{"foo":{"bar":"baz"},"order":4}}"#
      #expect(await log.wait(for: 2).last == second)
      // A deep change brings a child that the window did not contain, with all of it.
      try await writer.child("c/order").setValue(9)
      let third = #"={"c":{"foo":false,"order":9},"f":{"foo":{"bar":"baz"},"order":4}}"#
      #expect(await log.wait(for: 3).last == third)
    }
  }

  @Test(
    .ported(
      "FOrderByTests.testSnapshotsAreIteratedInOrder",
      "FOrderByTests.testSnapshotsAreIteratedInOrderForValueIndex"), arguments: WireKind.allCases,
    [true, false])
  func `snapshots and added children have the order of the query`(
    _ kind: WireKind, _ isByValue: Bool
  ) async throws {
    try await withPair(over: kind) { _, place, _ in
      let query = isByValue ? place.queryOrderedByValue() : place.queryOrdered(byChild: "nuggets")
      let (log, keys) = (EventLog(), Received<[String]>())
      query.recordPlaces(.childAdded, to: log)
      query.observe(.value, with: { keys.add($0.childSnapshots.map(\.key)) })
      place.startSet(isByValue ? Self.nuggets : Self.nuggets.mapValues { ["nuggets": $0] })
      #expect(await log.joined(5) == Self.inOrder)
      await keys.wait { $0.last == ["greg", "tony", "vassili", "rob", "alex"] }
    }
  }

  @Test(.ported("FOrderByTests.testFiresChildMovedEvents"), arguments: WireKind.allCases)
  func `a new value of the order moves a child`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.queryOrdered(byChild: "nuggets").recordPlaces(.childMoved, to: log)
      place.startSet(Self.nuggets.mapValues { ["nuggets": $0] })
      place.child("greg/nuggets").startSet(57)
      #expect(await log.joined(1) == ">greg after rob")
    }
  }

  @Test(.ported("FOrderByTests.testDefineMultipleIndexesAtALocation"), arguments: WireKind.allCases)
  func `queries by different children of one location are independent`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue([
        "a": ["order": 2, "foo": 2], "b": ["order": 0], "c": ["order": 1, "foo": false],
        "d": ["order": 3, "foo": "hello"],
      ])
      let (foo, order) = (Received<[String]>(), Received<[String]>())
      reader.queryOrdered(byChild: "foo").queryStarting(atValue: nil).queryEnding(atValue: 1)
        .observe(.value, with: { foo.add($0.childSnapshots.map(\.key)) })
      reader.queryOrdered(byChild: "order").queryLimited(toLast: 2)
        .observe(.value, with: { order.add($0.childSnapshots.map(\.key)) })
      #expect(await foo.wait(for: 1) == [["b", "c"]])
      #expect(await order.wait(for: 1) == [["a", "d"]])
      try await writer.child("a").setValue(["order": -1, "foo": 1])
      #expect(await foo.wait(for: 2).last == ["b", "c", "a"])
      #expect(await order.wait(for: 2).last == ["c", "d"])
    }
  }

  @Test(.ported("FOrderByTests.testCallbackRemovalWorks"), arguments: WireKind.allCases)
  func `an observer is removed at its own query, and all of them at the location`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      func query(_ name: String) -> DatabaseQuery { place.queryOrdered(byChild: name) }
      let foo = query("foo").record(.value, to: log)[0]
      query("bar").record(.value, to: log)
      let baz = query("baz").record(.value, to: log)[0]
      place.record(.value, to: log)
      await log.wait(for: 4)
      func count(_ value: Int) async -> Int {
        let before = log.values.count
        place.startSet(value)
        await place.waitUntilQuiet()
        return log.values.count - before
      }
      #expect(await count(1) == 4)
      place.removeObserver(withHandle: foo)
      #expect(await count(2) == 3)
      query("foo").removeObserver(withHandle: baz)
      #expect(await count(3) == 3)
      query("bar").removeAllObservers()
      #expect(await count(4) == 2)
      place.removeAllObservers()
      #expect(await count(5) == 0)
    }
  }

  @Test(
    .ported("FOrderByTests.testChildAddedEventsAreInTheCorrectOrder"), arguments: WireKind.allCases)
  func `children that one write adds come in the order of the query`(_ kind: WireKind) async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.queryOrdered(byChild: "value").record(.childAdded, to: log)
      place.startSet(["a": ["value": 5], "c": ["value": 3]])
      place.startUpdate(["b": ["value": 4], "d": ["value": 2]])
      #expect(await log.joined(4) == "+c, +a, +d, +b")
    }
  }

  @Test(
    .ported(
      "FOrderByTests.testCanUseKeyIndex", "FOrderByTests.testServerRespectsKeyIndex",
      "FOrderByTests.testServerRespectsValueIndex"), arguments: WireKind.allCases)
  func `key and value order ignore priorities`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      for (number, priority) in [10, 5, 20, 7, 30, 8].enumerated() {
        let key = String("abcdef".dropFirst(number).prefix(1))
        writer.child(key).startSet(5 - number, priority: priority)
      }
      await writer.waitUntilQuiet()
      for place in [writer, reader] {
        let byKey = place.queryOrderedByKey()
        let seen2 = try await byKey.queryStarting(atValue: "c").keys()
        #expect(seen2 == ["c", "d", "e", "f"])
        let seen3 = try await byKey.queryLimited(toLast: 5).keys()
        #expect(seen3 == ["b", "c", "d", "e", "f"])
        let two = byKey.queryStarting(atValue: "b").queryLimited(toFirst: 2)
        let seen4 = try await two.keys()
        #expect(seen4 == ["b", "c"])
        let byValue = place.queryOrderedByValue().queryStarting(atValue: 2)
        let seen5 = try await byValue.queryLimited(toFirst: 2).keys()
        #expect(seen5 == ["d", "c"])
      }
    }
  }

  @Test(.ported("FOrderByTests.testQueriesWorkOnLeafNodes"), arguments: WireKind.allCases)
  func `a query of a leaf is empty`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, reader in
      try await place.setValue("leaf-node")
      let query = reader.queryOrdered(byChild: "foo").queryLimited(toLast: 1)
      let seen6 = try await query.first().value is NSNull
      #expect(seen6)
    }
  }

  @Test(.ported("FOrderByTests.testDeepUpdatesWorkWithQueries"), arguments: WireKind.allCases)
  func `an update of deep values moves children into and out of a query`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue([
        "a": ["data": "foo", "idx": true], "b": ["data": "bar", "idx": true],
        "c": ["data": "baz", "idx": false],
      ])
      let log = EventLog()
      reader.queryOrdered(byChild: "idx").queryEqual(toValue: true).record(.value, to: log)
      let first = #"={"a":{"data":"foo","idx":true},"b":{"data":"bar","idx":true}}"#
      #expect(await log.joined(1) == first)
      try await writer.updateChildValues(["a/idx": false, "b/data": "blah", "c/idx": true])
      let second = #"={"b":{"data":"blah","idx":true},"c":{"data":"baz","idx":true}}"#
      #expect(await log.wait(for: 2).last == second)
    }
  }

  @Test(.ported("FOrderByTests.testStartAtEndAtWorksWithValueIndex"), arguments: WireKind.allCases)
  func `a range of values begins at a key among equal values`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      let query = place.queryOrderedByValue().queryStarting(atValue: 52, childKey: "tony")
        .queryEnding(atValue: 59)
      query.recordPlaces(.childAdded, to: log)
      place.startSet(Self.nuggets)
      #expect(await log.joined(3) == "+tony after none, +vassili after tony, +rob after vassili")
      let seen7 = try await query.keys()
      #expect(seen7 == ["tony", "vassili", "rob"])
    }
  }

  @Test(
    .ported("FOrderByTests.testRemovingDefaultListenerRemovesNonDefaultListenWithLoadsAllData"),
    arguments: WireKind.allCases)
  func `a query can be observed again after all observers were removed`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      try await place.setValue(["key": "value"])
      let log = EventLog()
      place.queryOrderedByKey().record(.value, to: log)
      place.record(.value, to: log)
      place.removeAllObservers()
      let seen8 = try await place.queryOrderedByKey().keys()
      #expect(seen8 == ["key"])
    }
  }
}
