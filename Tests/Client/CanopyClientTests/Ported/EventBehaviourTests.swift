import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// The events of observers, as the original client raises them.
@Suite(.timeLimit(.minutes(20))) struct EventBehaviourTests {
  @Test(
    .ported(
      "FEventTests.testWriteLeafExpectValueChanged",
      "FEventTests.testWRiteLeafNodeThenExpectValueEvent",
      "FEventTests.testSetMultipleEventListenersOnSameNode",
      "FData.testWriteAndReadData", "FData.testWriteDataAndWaitForServerConfirmation",
      "FData.testOnceWithACallbackHitsServer"), arguments: WireKind.allCases)
  func `a written value is observed by its writer and by others, by each observer`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      let seen1 = try await reader.first().value is NSNull
      #expect(seen1)
      writer.startSet(42)
      let seen2 = try await writer.first().value as? Int
      #expect(seen2 == 42)
      try await writer.setValue(1234)
      for place in [writer, writer, reader, reader] {
        let seen3 = try await place.first().value as? Int
        #expect(seen3 == 1234)
      }
    }
  }

  @Test(
    .ported("FEventTests.testWriteLeafNodeThenExpectChildAddedEventThenValueEvent"),
    arguments: WireKind.allCases)
  func `the events of children come before the value`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      // The server answers when both observers are there.
      place.database.goOffline()
      place.child("foo").startSet(878_787)
      place.record(.value, .childAdded, to: log)
      place.database.goOnline()
      #expect(await log.joined(2) == #"+foo, ={"foo":878787}"#)
    }
  }

  @Test(
    .ported(
      "FEventTests.testUnsubscribeEventsAndConfirmThatEventsNoLongerFire",
      "FEventTests.testRegisteringCallbackMultipleTimesAndUnregistering",
      "FEventTests.testUnregisteringTheSameCallbackTooManyTimesDoesNothing"),
    arguments: WireKind.allCases)
  func `each observer is removed by itself, and hears nothing afterwards`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      let handles = ["a", "b", "c"].flatMap { place.record(.value, to: log, as: $0) }
      var expected = 0
      for (number, handle) in handles.enumerated() {
        place.startSet(number)
        await place.waitUntilQuiet()
        // The first observers may also have seen that there was nothing.
        let seen = log.values.filter { !$0.hasSuffix("=null") }
        expected += 3 - number
        #expect(seen.count == expected)
        place.removeObserver(withHandle: handle)
        place.removeObserver(withHandle: handle)
      }
      place.startSet(99)
      await place.waitUntilQuiet()
      #expect(log.values.filter { !$0.hasSuffix("=null") }.count == 6)
    }
  }

  @Test(
    .ported(
      "FEventTests.testCanWriteACompoundObjectAndGetMoreGranularEventsForIndividualChanges"),
    arguments: WireKind.allCases)
  func `only the observers of what changed hear of a new value above`(_ kind: WireKind) async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue(["a": 10, "b": 20])
      let logs = [EventLog(), EventLog()]
      for (log, place) in zip(logs, [writer, reader]) {
        for key in ["a", "b"] { place.child(key).record(.value, to: log, as: key) }
        await log.wait(for: 2)
      }
      try await writer.setValue(["a": 10, "b": 30])
      for log in logs { #expect(await log.wait(for: 3).last == "b=30") }
      await writer.waitUntilQuiet()
      await reader.waitUntilQuiet()
      #expect(logs.allSatisfy { $0.values.count == 3 })
    }
  }

  @Test(
    .ported(
      "FEventTests.testValueEventIsFiredForEmptyNode", "FEventTests.testOnEmptyChildFires",
      "FEventTests.testOnEmptyChildEvenAfterParentIsSynched",
      "FIRDatabaseQueryTests.testLimitOnEmptyNodeFiresValue"), arguments: WireKind.allCases)
  func `an empty location has a value event, also below one that is known`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.record(.value, to: log)
      place.child("test").record(.value, to: log)
      await log.wait(for: 2)
      place.child("other").record(.value, to: log)
      place.queryLimited(toLast: 1).record(.value, to: log)
      #expect(await log.joined(4) == "=null, =null, =null, =null")
    }
  }

  @Test(
    .ported("FEventTests.testCorrectEventsRaisedWhenLeafTurnsIntoInternalNode"),
    arguments: WireKind.allCases)
  func `a leaf becomes a branch and a leaf again`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.database.goOffline()
      place.record(.value, .childAdded, to: log)
      place.startSet(42)
      place.startSet(["a": 2])
      place.startSet(84)
      place.startSet(nil)
      #expect(await log.joined(5) == #"=42, +a, ={"a":2}, =84, =null"#)
    }
  }

  @Test(
    .ported(
      "FEventTests.testOnceValueFiresExactlyOnce", "FEventTests.testOnceChildAddedFiresExaclyOnce",
      "FEventTests.testOnceValueFiresExacltyOnceEvenIfThereIsASetInsideCallback",
      "FEventTests.testOnceChildAddedFiresOnceEvenWithCompoundObject"), arguments: WireKind.allCases
  )
  func `an observer of a single event hears one, whatever follows`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      place.database.goOffline()
      let log = EventLog()
      place.observeSingleEvent(
        of: .value,
        with: { snapshot in
          log.add("value \(snapshot.text)")
          snapshot.ref.startSet(43)
        })
      place.observeSingleEvent(of: .childAdded, with: { log.add("child \($0.key) \($0.text)") })
      place.startSet(42)
      place.startSet(84)
      place.startSet(["foo": 42, "bar": 84])
      place.child("foo").startSet(168)
      place.database.goOnline()
      await log.wait(for: 2)
      await place.waitUntilQuiet()
      #expect(log.values == ["value 42", "child bar 84"])
    }
  }

  @Test(
    .ported("FEventTests.testEventsAreRaisedChildRemovedChildAddedChildMoved"),
    arguments: WireKind.allCases)
  func `removals come first, then additions, then moves`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      func set(_ priorities: [String: Int]) {
        place.startSet(priorities.mapValues { [".value": 1, ".priority": $0] })
      }
      let log = EventLog()
      place.record(.childAdded, .childRemoved, .childMoved, to: log)
      set(["a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5])
      await log.wait(for: 6)
      set(["a": 5, "aa": 0, "b": 1, "bb": 2, "d": 3, "e": 6])
      await place.waitUntilQuiet()
      #expect(log.values.dropFirst(6).joined(separator: ", ") == "-c, -f, +aa, +bb, >a, >e")
    }
  }

  @Test(.ported("FEventTests.testIntegerToDoubleConversions"), arguments: WireKind.allCases)
  func `the same number in another type is no change`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.database.goOffline()
      place.record(.value, to: log)
      for number in [1, 1.0, 1, 1.1] as [Any] { place.startSet(number) }
      place.database.goOnline()
      await place.waitUntilQuiet()
      #expect(log.values == ["=1", "=1.1"])
    }
  }

  @Test(
    .ported(
      "FData.testWriteLeafNodeOverwriteAtParentVerifyExpectedEvents",
      "FData.testWriteLeafNodeOverwriteAtParentMultipleTimesVerifyExpectedEvents",
      "FData.testWriteParentNodeOverwriteAtLeafVerifyExpectedEvents"), arguments: WireKind.allCases)
  func `writes above and below each other raise the deepest events first`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      place.database.goOffline()
      func record(_ place: DatabaseReference) -> EventLog {
        let log = EventLog()
        place.child("a/aa").record(.value, to: log, as: "aa")
        place.child("a").record(.childAdded, .childChanged, .value, to: log, as: "a")
        return log
      }
      let up = record(place.child("up"))
      place.child("up/a/aa").startSet(1)
      for number in [2, 3, 3] { place.child("up/a").startSet(["aa": number]) }
      #expect(
        await up.joined(8)
          == #"aa=1, a+aa, aa=2, a~aa, a={"aa":2}, aa=3, a~aa, a={"aa":3}"#)
      let down = record(place.child("down"))
      place.child("down/a").startSet(["aa": 2])
      place.child("down/a/aa").startSet(1)
      #expect(await down.joined(6) == #"aa=2, a+aa, a={"aa":2}, aa=1, a~aa, a={"aa":1}"#)
      place.database.goOnline()
      await place.waitUntilQuiet()
      #expect(up.values.count == 8 && down.values.count == 6)
    }
  }

  @Test(
    .ported(
      "FData.testWriteLeafNodeRemoveParentNodeVerifyExpectedEvents",
      "FData.testWriteLeafNodeRemoveLeafVerifyExpectedEvents"), arguments: WireKind.allCases,
    ["a", "a/aa"])
  func `a removal empties all locations above it, for the writer and for others`(
    _ kind: WireKind, _ removed: String
  )
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      let logs = [EventLog(), EventLog()]
      for (log, place) in zip(logs, [writer, reader]) {
        for path in ["a/aa", "a"] { place.child(path).record(.value, to: log, as: path) }
        place.record(.childAdded, .childRemoved, to: log)
        await log.wait(for: 2)
      }
      try await writer.child("a/aa").setValue(42)
      for log in logs { await log.wait(for: 5) }
      try await writer.child(removed).removeValue()
      for log in logs {
        let texts = await log.wait(for: 8)
        #expect(Set(texts[2..<5]) == ["a/aa=42", #"a={"aa":42}"#, "+a"])
        #expect(Set(texts[5..<8]) == ["a/aa=null", "a=null", "-a"])
      }
      try await writer.child("a/aa").setValue(3.1415)
      for log in logs { #expect(await log.wait(for: 11).contains("a/aa=3.1415")) }
    }
  }

  @Test(.ported("FData.testEmptyChildGetValueEventBeforeParent"), arguments: WireKind.allCases)
  func `empty locations have their value events before those above`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.database.goOffline()
      for path in ["a/aa/aaa", "a/aa", "a"] { place.child(path).record(.value, to: log, as: path) }
      place.startSet(["b": 5])
      #expect(await log.joined(3) == "a/aa/aaa=null, a/aa=null, a=null")
    }
  }
}
