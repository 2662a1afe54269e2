import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// The order of children, as the original client has it.
@Suite(.timeLimit(.minutes(20))) struct OrderBehaviourTests {
  @Test(
    .ported(
      "FOrder.testPushEnumerateAndCheckCorrectOrder",
      "FOrder.testPushEnumerateManyPathsWriteAndCheckOrder",
      "FOrder.testPushDataReconnectReadBackAndVerifyOrder", "FData.testCanPassValueToPush"),
    arguments: WireKind.allCases)
  func `generated keys keep the order in which they were made, for everybody`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      let children = (0..<20).map { _ in writer.childByAutoId() }
      for (number, child) in children.enumerated() { child.startSet(["n": number]) }
      await writer.waitUntilQuiet()
      for place in [writer, reader] {
        let snapshot = try await place.first()
        #expect(
          snapshot.childSnapshots.map { $0.childSnapshot(forPath: "n").value as? Int ?? -1 }
            == Array(0..<20))
        #expect(snapshot.childrenCount == 20)
      }
    }
  }

  @Test(
    .ported(
      "FOrder.testPushDataWithPrioritiesReconnectReadBackAndVerifyOrder",
      "FOrder.testPushDataWithExponentialPrioritiesReconnectReadBackAndVerifyOrder"),
    arguments: WireKind.allCases, [true, false])
  func `priorities order generated keys`(_ kind: WireKind, _ areExponential: Bool) async throws {
    try await withPair(over: kind) { _, writer, reader in
      for number in 0..<10 {
        let priority =
          areExponential
          ? 111_111_111_111_111_111_111_111_111_111.0 / pow(10, Double(number))
          : Double(10 - number)
        try await writer.childByAutoId().setValue(number, andPriority: priority)
      }
      for place in [writer, reader] {
        let numbers = try await place.first().childSnapshots.map { $0.value as? Int ?? -1 }
        #expect(numbers == Array((0..<10).reversed()))
      }
    }
  }

  @Test(.ported("FOrder.testThatNodesWithoutValuesAreNotEnumerated"), arguments: WireKind.allCases)
  func `a reference alone is no child`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      _ = place.child("foo")
      place.child("bar").startSet("test")
      let seen1 = try await place.keys()
      #expect(seen1 == ["bar"])
    }
  }

  @Test(.ported("FOrder.testChildMovedEventWhenPriorityChanges"), arguments: WireKind.allCases)
  func `a new priority moves a child and changes it`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.record(.value, to: log)
      await log.wait(for: 1)
      place.record(.childAdded, .childMoved, .childChanged, .childRemoved, to: log)
      for (number, key) in ["a", "b", "c"].enumerated() {
        place.child(key).startSet(key, priority: number + 1)
      }
      await log.wait(for: 7)
      place.child("a").startSetPriority(15)
      let texts = await log.wait(for: 10)
      #expect(
        texts.map { $0.prefix(2) }.dropFirst().prefix(6) == ["+a", "={", "+b", "={", "+c", "={"])
      #expect(texts.map { $0.prefix(2) }.suffix(3) == [">a", "~a", "={"])
    }
  }

  @Test(.ported("FOrder.testCanResetPriorityToNull"), arguments: WireKind.allCases)
  func `a priority can be removed`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      try await place.child("a").setValue("a", andPriority: 1)
      try await place.child("b").setValue("b", andPriority: 2)
      let log = EventLog()
      place.record(.childAdded, .childMoved, .childChanged, to: log)
      await log.wait(for: 2)
      place.child("b").startSetPriority(nil)
      #expect(await log.joined(4) == "+a, +b, >b, ~b")
      let seen2 = try await place.child("b").first().priority is NSNull
      #expect(seen2)
    }
  }

  @Test(
    .ported("FOrder.testInsertingANodeUnderALeafPreservesItsPriority"), arguments: WireKind.allCases
  )
  func `a leaf that gets a child keeps its priority`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.record(.value, to: log)
      place.startSet("a", priority: 10)
      place.child("deeper").startSet("deeper")
      let expected = #"={".priority":10,"deeper":"deeper"}"#
      #expect(await log.wait { $0.last == expected }.last == expected)
    }
  }

  @Test(
    .ported("FOrder.testVerifyOrderOfMixedNumbersStringNoPriorities"), arguments: WireKind.allCases)
  func `no priority comes first, then numbers, then strings`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      let priorities: [(String, Any)] = [
        ("alpha42", "zed"), ("noPriorityC", NSNull()), ("num41", 500), ("noPriorityB", NSNull()),
        ("num80", 4000.1), ("num50", 4000), ("num10", 24), ("alpha41", "zed"),
        ("alpha20", "horse"), ("num20", 123), ("num70", 4000.01), ("noPriorityA", NSNull()),
        ("alpha30", "tree"), ("num30", 300), ("num60", 4000.001), ("alpha10", "0horse"),
        ("num42", 500), ("alpha40", "zed"), ("num40", 500),
      ]
      for (key, priority) in priorities {
        writer.child(key).setValue(1, andPriority: priority) { _, _ in }
      }
      await writer.waitUntilQuiet()
      let expected =
        "noPriorityA, noPriorityB, noPriorityC, num10, num20, num30, num40, num41, num42, num50, "
        + "num60, num70, num80, alpha10, alpha20, alpha30, alpha40, alpha41, alpha42"
      for place in [writer, reader] {
        let seen3 = try await place.keys().joined(separator: ", ")
        #expect(seen3 == expected)
      }
    }
  }

  @Test(.ported("FOrder.testVerifyOrderOfIntegerNames"), arguments: WireKind.allCases)
  func `keys that spell integers come first, by number`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      for key in ["foo", "bar", "03", "0", "100", "20", "5", "3", "003", "9"] {
        writer.child(key).startSet(1)
      }
      await writer.waitUntilQuiet()
      for place in [writer, reader] {
        let seen4 = try await place.keys()
        #expect(seen4 == ["0", "3", "03", "003", "5", "9", "20", "100", "bar", "foo"])
      }
    }
  }

  @Test(
    .ported(
      "FOrder.testPrevNameIsCorrectOnChildAddedEvent",
      "FOrder.testPrevNameIsCorrectWhenAddingNewNodes",
      "FOrder.testPrevNameIsCorrectWhenAddingNewNodesWithJSON"), arguments: WireKind.allCases,
    [true, false])
  func `an added child comes with the key before it`(_ kind: WireKind, _ isWhole: Bool) async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      var value = ["b": 2, "c": 3, "d": 4]
      try await place.setValue(value)
      place.recordPlaces(.childAdded, to: log)
      #expect(await log.joined(3) == "+b after none, +c after b, +d after c")
      for (key, number) in [("a", 1), ("e", 5)] {
        value[key] = number
        if isWhole { place.startSet(value) } else { place.child(key).startSet(number) }
      }
      #expect(await log.wait(for: 5).suffix(2) == ["+a after none", "+e after d"])
    }
  }

  @Test(
    .ported(
      "FOrder.testPrevNameIsCorrectWhenMovingNodes",
      "FOrder.testPrevNameIsCorrectWhenSettingWholeJsonDict"), arguments: WireKind.allCases,
    [true, false])
  func `a moved child comes with the key before it`(_ kind: WireKind, _ isWhole: Bool) async throws
  {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      var priorities = ["a": 1.0, "b": 2, "c": 3, "d": 4]
      func set() {
        place.startSet(priorities.mapValues { [".value": "x", ".priority": $0] })
      }
      place.recordPlaces(.childMoved, to: log)
      set()
      for (key, priority) in [("d", 0), ("a", 4), ("c", 0.5)] {
        priorities[key] = priority
        if isWhole { set() } else { place.child(key).startSetPriority(priority) }
      }
      #expect(await log.joined(3) == ">d after none, >a after c, >c after d")
    }
  }

  @Test(
    .ported("FOrder.testCase595NoChildMovedEventWhenDeletingPrioritizedGrandchild"),
    arguments: WireKind.allCases)
  func `a grandchild with a priority moves no child`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      let log = EventLog()
      place.record(.childMoved, to: log)
      place.child("test/foo").startSet(42, priority: "5")
      place.child("test/foo2").startSet(42, priority: "10")
      place.child("test/foo").startSet(nil)
      place.child("test/foo").startSet(nil)
      await place.waitUntilQuiet()
      #expect(log.values.isEmpty)
    }
  }

  @Test(
    .ported("FOrder.testCanSetAValueWithPriZero", "FOrder.testCanSetObjectWithPriZero"),
    arguments: WireKind.allCases,
    [#"{".value":"test",".priority":0}"#, #"{".priority":0,"x":"test","y":7}"#])
  func `zero is a priority`(_ kind: WireKind, _ expected: String) async throws {
    try await withPair(over: kind) { _, place, reader in
      let value: Any = expected.contains("x") ? ["x": "test", "y": 7] : "test"
      let log = EventLog()
      try await place.setValue(value, andPriority: 0)
      place.record(.value, to: log)
      reader.record(.value, to: log)
      #expect(await log.joined(2) == "=\(expected), =\(expected)")
    }
  }
}
