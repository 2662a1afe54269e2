import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Writing and reading values, as the original client does.
@Suite(.timeLimit(.minutes(20))) struct DataBehaviourTests {
  @Test(
    .ported(
      "FData.testWriteABunchOfDataAndRead", "FData.testValReturnsCompoundObjectWithChildren",
      "FData.testWriteCompoundObjectAndGetItBack", "FData.testHasChildrenWorksCorrectly",
      "FData.testNumChildrenWorksCorrectly", "FData.testSetChildAndListenAtRootRegressionTest"),
    arguments: WireKind.allCases)
  func `a compound value comes back with its children`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      writer.startSet([
        "one": 42, "two": ["a": 5], "three": ["a": 5, "b": 6],
        "list": [0, ["c_1": 4], "hey", true, false, "dude"] as [Any],
      ])
      writer.child("a/d/e").startSet(2)
      await writer.waitUntilQuiet()
      for place in [writer, reader] {
        let snapshot = try await place.first()
        func child(_ path: String) -> DataSnapshot { snapshot.childSnapshot(forPath: path) }
        #expect(["one", "two", "three", "four"].map { child($0).childrenCount } == [0, 1, 2, 0])
        #expect(
          ["one", "two", "three", "four"].map { child($0).hasChildren() }
            == [false, true, true, false])
        #expect(child("a/d/e").value as? Int == 2 && snapshot.childrenCount == 5)
        let list = try #require(child("list").value as? [Any])
        #expect(list.count == 6 && list[3] as? Bool == true && list[5] as? String == "dude")
        #expect((snapshot.value as? [String: Any])?["two"] as? [String: Int] == ["a": 5])
      }
      try await writer.child("two").removeValue()
      let seen1 = try await reader.first().hasChild("two")
      #expect(seen1 == false)
    }
  }

  @Test(
    .ported(
      "FData.testWriteABunchOfDataWithLeadingZeroesAndRead",
      "FData.testLeadingZeroesTurnIntoDictionary", "FData.testLeadingZerosDontCollapseLocally",
      "FData.testNumericKeysGetTurnedIntoArrays",
      "FData.testLargeNumericKeysDontGetTurnedIntoArrays",
      "FData.testUsingNumbersAsKeysDoesntCreateHugeSparseArrays"), arguments: WireKind.allCases)
  func `keys that count from zero are an array, and others are not`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let zeros = place.child("zeros")
      for (number, key) in ["1", "01", "001", "0001"].enumerated() {
        zeros.child(key).startSet(number)
      }
      let seen2 = try await zeros.first().value as? [String: Int]
      #expect(seen2 == ["1": 0, "01": 1, "001": 2, "0001": 3])
      let words = ["alpha", "bravo", "charlie"]
      for (number, word) in words.enumerated() { place.child("list/\(number)").startSet(word) }
      let seen3 = try await place.child("list").first().value as? [String]
      #expect(seen3 == words)
      for key in ["100003354884401", "3024"] {
        let sparse = place.child("sparse\(key)")
        sparse.child(key).startSet("x")
        let seen4 = try await sparse.first().value as? [String: String]
        #expect(seen4 == [key: "x"])
      }
    }
  }

  @Test(
    .ported(
      "FData.testRemoveCallbackHit",
      "FData.testRemoveCallbackIsHitForNodesThatAreAlreadyRemoved",
      "FData.testRemoveFromOnMobileGraffitiBugAtAngelHack", "FData.testSettingNull"),
    arguments: WireKind.allCases)
  func `a removal is confirmed, also of an empty location`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      let log = EventLog()
      for _ in 0..<2 {
        place.removeValue { error, _ in log.add(error == nil ? "removed" : "failed") }
      }
      place.setValue(NSNull()) { error, _ in log.add(error == nil ? "set" : "failed") }
      #expect(await log.joined(3) == "removed, removed, set")
      place.observe(
        .childAdded,
        with: { snapshot in
          snapshot.ref.removeValue { error, _ in log.add(error == nil ? "gone" : "failed") }
        })
      place.childByAutoId().startSet("moo")
      #expect(await log.wait(for: 4).last == "gone")
      let isAbsent = try backend.node("t").isAbsent
      #expect(isAbsent)
    }
  }

  @Test(
    .ported(
      "FData.testSetAndThenListenForValueEventsAreCorrect", "FData.testSnapshotRef",
      "FData.testListenForValueAndThenWriteOnANodeWithExistingData",
      "FData.testOnAfterSetWaitsForLatestData", "FData.testOnceWaitsForLatestData"),
    arguments: WireKind.allCases)
  func `an observer begins with the latest data and the own writes`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      let log = EventLog()
      try await writer.setValue(5)
      try await reader.setValue(["a": 5, "b": 2])
      writer.record(.value, to: log)
      writer.child("a").startSet(10)
      await writer.waitUntilQuiet()
      #expect(log.values.last == #"={"a":10,"b":2}"#)
      let seen5 = try await reader.first().ref.first().value as? [String: Int]
      #expect(seen5 == ["a": 10, "b": 2])
      writer.removeAllObservers()
      try await reader.setValue(42)
      let seen6 = try await writer.first().value as? Int
      #expect(seen6 == 42)
      let own = EventLog()
      writer.child("own").startSet("moo")
      writer.child("own").record(.value, to: own)
      await writer.waitUntilQuiet()
      #expect(own.values == [#"="moo""#])
    }
  }

  @Test(
    .ported(
      "FData.testSettingANodeWithChildrenToAPrimitiveAndBack",
      "FData.testWriteLeafRemoveLeafAddChildToRemovedNode", "FData.testUpdateAfterChildSet"),
    arguments: WireKind.allCases)
  func `a branch becomes a leaf and a branch again, for everybody`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      for value in [["a": 5, "b": 6], 76, ["a": 5, "b": 6]] as [Any] {
        writer.startSet(value)
        let seen7 = try await writer.first().hasChildren()
        #expect(seen7 == !(value is Int))
        await writer.waitUntilQuiet()
        let snapshot = try await reader.first()
        #expect(snapshot.hasChildren() == !(value is Int))
        #expect(snapshot.childSnapshot(forPath: "b").value as? Int == (value is Int ? nil : 6))
      }
      writer.startSet(5)
      writer.startSet(nil)
      writer.child("abc").startSet(5)
      await writer.waitUntilQuiet()
      let seen8 = try await reader.first().value as? [String: Int]
      #expect(seen8 == ["abc": 5])
      writer.child("b").startSet("b")
      writer.startUpdate(["c": "c"])
      let seen9 = try await writer.keys()
      #expect(seen9 == ["abc", "b", "c"])
    }
  }

  @Test(
    .ported(
      "FData.testSetANodeWithAQuotedKey", "FData.testSetANodeWithASingleQuoteKey",
      "FData.testLargeNumbers", "FData.testLargeNumericPrioritiesWork"),
    arguments: WireKind.allCases)
  func `quotes in keys and large numbers are kept`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      let values: [String: Any] = [
        "\"herp\"": 1234, "\"": 1, "'": 2, "long": Int64(9_007_199_254_740_993), "max": Int64.max,
        "double": Double.greatestFiniteMagnitude,
      ]
      try await writer.setValue(values, andPriority: 1_356_721_306_842)
      for place in [writer, reader] {
        let snapshot = try await place.first()
        #expect(NSDictionary(dictionary: values).isEqual(snapshot.value))
        #expect(snapshot.priority as? Int == 1_356_721_306_842)
      }
    }
  }

  @Test(
    .ported(
      "FData.testRootProperty", "FData.testGetNode", "FData.testToString",
      "FData.testNameAtRootAndNonRootLocations",
      "FData.testNameAndRefOnSnapshotsForRootAndNonRootLocations",
      "FData.testParentForRootAndNonRootLocations",
      "FData.testURLEncodingOfDescriptionAndURLDecodingOfNewFirebase"), arguments: WireKind.allCases
  )
  func `references know their keys, parents, roots and URLs`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      let root = place.root
      let url = backend.url()
      #expect(root.key == nil && root.parent == nil && root.root == root)
      let deep = root.child("a").child("b/c")
      #expect(deep.key == "c" && deep.parent?.parent?.parent == root)
      #expect(deep.description == "\(url)/a/b/c")
      let snapshot = try await root.first()
      let child = snapshot.childSnapshot(forPath: "a")
      #expect(snapshot.key.isEmpty && snapshot.ref == root)
      #expect(child.key == "a" && child.ref == root.child("a"))
      #expect(child.childSnapshot(forPath: "b/c").ref == deep)
      let odd = place.database.reference(fromURL: "\(url)/a%25b%26c@d/space:%20/non-ascii:ø")
      #expect(odd.url == "\(url)/a%25b%26c%40d/space%3A%20/non-ascii%3A%C3%B8")
      try await odd.child("x").setValue("testdata")
      let again = place.database.reference(fromURL: odd.description).child("x")
      let seen10 = try await again.first().value as? String
      #expect(seen10 == "testdata")
    }
  }

  @Test(
    .ported(
      "FData.testVerifyNodeNamesCantStartWithADot",
      "FData.testVerifyWritingToDotLengthAndDotKeysThrows",
      "FData.testSettingNumericKeysConvertsToStrings", "FData.testAccessingInvalidPathsThrows",
      "FData.testSettingObjectsAtInvalidKeysThrow", "FData.testSettingInvalidObjectsThrow",
      "FData.testInvalidUpdateThrow", "FData.testSettingNaN", "FData.testSettingInvalidPriority",
      "FData.testEmptyUpdateWorks"), arguments: WireKind.allCases)
  func `invalid paths, keys and values are refused`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      let keys = [".test", "test.", "fo$o", "[what", "ever]", "ha#sh"]
      var attempts: [() async throws -> Void] = []
      for key in keys + [".foo", "foo/.foo", ".keys", ".length"] {
        attempts.append { try await place.child(key).setValue(42) }
      }
      for key in keys + ["/thing", "th/ing", "thing/"] {
        for value in [[key: "test"], ["deeper": [key: "test"]]] as [[String: Any]] {
          attempts.append { try await place.setValue(value) }
          attempts.append { try await place.setValue(value, andPriority: 5) }
          attempts.append { try await place.onDisconnectSetValue(value) }
          attempts.append { try await place.onDisconnectSetValue(value, andPriority: 5) }
        }
      }
      let invalid: [Any] = [
        Date(), ["invalid": "data", ".sv": "timestamp"], [".value": [String: Any]()],
        NSDecimalNumber.notANumber, [4: "hi", 5: "test"],
      ]
      for value in invalid { attempts.append { try await place.setValue(value) } }
      let priorities: [any Sendable] = [NSDecimalNumber.notANumber, [String: Int](), [Int]()]
      for priority in priorities {
        attempts.append { try await place.setValue("3", andPriority: priority) }
      }
      let updates: [[String: Any]] = [
        ["/": "t", "a": "t"], ["a": "t", "a/b": "t"], ["/a": "t", "a/b": "t"],
        ["/a/b": "t", "a": "t"], ["/a/b/.priority": "t", "/a/b": "t"],
        ["/a/b/.sv": "timestamp"], ["/a/b/.value": "t"], ["/a/b/.priority": ["x": "y"]],
      ]
      for update in updates {
        attempts.append { try await place.updateChildValues(update) }
        attempts.append { try await place.onDisconnectUpdateChildValues(update) }
      }
      for (number, attempt) in attempts.enumerated() {
        await #expect(throws: DatabaseError.self, "attempt \(number)") { try await attempt() }
      }
      let snapshot = try await place.first()
      for key in keys {
        #expect(!snapshot.hasChild(key) && !snapshot.childSnapshot(forPath: key).exists())
      }
      try await place.updateChildValues([:])
      let found1 = try backend.node("t").isAbsent
      #expect(found1)
    }
  }

  @Test(
    .ported("FData.testMemoryFreeingOnUnlistenDoesNotCorruptData"), arguments: WireKind.allCases)
  func `data are complete after observers above and below were removed`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, place, _ in
      try await place.setValue(["x": 1, "y": ["t": 2, "u": 3]] as [String: Any])
      let log = EventLog()
      let whole = place.record(.value, to: log)[0]
      await log.wait(for: 1)
      let deep = place.child("y/t").record(.value, to: log)[0]
      await log.wait(for: 2)
      place.child("y/t").removeObserver(withHandle: deep)
      place.removeObserver(withHandle: whole)
      place.child("x").startSet("test")
      let expected = #"{"x":"test","y":{"t":2,"u":3}}"#
      let seen11 = try await place.first().node.json()
      #expect(seen11 == expected)
      let seen12 = try await place.child("y").keys()
      #expect(seen12 == ["t", "u"])
    }
  }

  @Test(
    .ported(
      "FData.testParentDeleteShadowsChildListeners",
      "FData.testParentDeleteShadowsChildListenersWithNonDefaultQuery"),
    arguments: WireKind.allCases)
  func `a removal above hides a concurrent write from observers below`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { backend, writer, deleter in
      let log = EventLog()
      let place = deleter.child("c")
      place.record(.value, to: log)
      place.queryOrderedByPriority().queryStarting(atValue: nil, childKey: "b")
        .record(.value, to: log)
      place.child("a").record(.value, to: log)
      await log.wait(for: 3)
      // The removal is made first here and last at the server.
      backend.parts.journal.gate.hold()
      writer.child("c").startSet("foo")
      await backend.parts.journal.gate.reached()
      deleter.startSet(nil)
      backend.parts.journal.gate.open()
      await deleter.waitUntilQuiet()
      #expect(log.values == ["=null", "=null", "=null"])
    }
  }

  @Test(.ported("FData.testDeltaSyncNoDataUpdatesAfterReconnect"), arguments: WireKind.allCases)
  func `a reconnection without changes raises no event`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      try await writer.setValue(["a": 1, "c": [".value": 3, ".priority": 3]] as [String: Any])
      let log = EventLog()
      reader.record(.value, to: log)
      await log.wait(for: 1)
      reader.database.goOffline()
      reader.database.goOnline()
      await reader.waitUntilQuiet()
      #expect(log.values == [#"={"a":1,"c":{".value":3,".priority":3}}"#])
    }
  }
}
