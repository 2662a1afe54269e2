import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Priorities, as the original client has them.
@Suite(.timeLimit(.minutes(20))) struct PriorityBehaviourTests {
  @Test(
    .ported("FData.testSetPriorityOnExistentNodeSucceeds"), arguments: WireKind.allCases)
  func `a priority is set on a value that exists`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      try await place.setValue("hello!")
      try await place.setPriority(5)
      let found1 = try backend.node("t")
      #expect(found1 == json(#"{".value":"hello!",".priority":5}"#))
    }
  }

  @Test(
    .ported(
      "FData.testSetWithPrioritySetsValueAndPriority",
      "FData.testSetPriorityOfLeafSavesCorrectly", "FData.testSetPriorityOfObjectSavesCorrectly",
      "FData.testSetWithPriorityFollowedBySetClearsPriority",
      "FData.testSetOverwritesPriorityOfTopLevelNodeAndSubnodes"), arguments: WireKind.allCases)
  func `a value is stored with its priority, and a plain value has none`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      for value in ["hello", ["a": 5]] as [Any] {
        try await writer.setValue(value, andPriority: 991)
        for place in [writer, reader] {
          let snapshot = try await place.first()
          #expect(snapshot.priority as? Int == 991)
          #expect(snapshot.hasChildren() == !(value is String))
        }
      }
      try await writer.child("a").setPriority(18)
      try await reader.setValue(["a": 19])
      let snapshot = try await writer.first()
      #expect(snapshot.priority is NSNull)
      #expect(snapshot.childSnapshot(forPath: "a").priority is NSNull)
      #expect(snapshot.childSnapshot(forPath: "a").value as? Int == 19)
    }
  }

  @Test(.ported("FData.testEffectsOfSetPriorityIsImmediatelyEvident"), arguments: WireKind.allCases)
  func `a new priority is evident at once`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      place.database.goOffline()
      let log = EventLog()
      place.observeSingleEvent(of: .value, with: { log.add($0.node.json(.export)) })
      place.startSet(5)
      place.startSetPriority(10)
      place.record(.value, to: log)
      #expect(await log.joined(2) == #"5, ={".value":5,".priority":10}"#)
    }
  }

  @Test(
    .ported("FData.testGetPriorityReturnsCorrectType", "FData.testExportValIncludesPriorities"),
    arguments: WireKind.allCases)
  func `a priority is a number, a string or NSNull, also in the form with priorities`(
    _ kind: WireKind
  ) async throws {
    try await withPair(over: kind) { _, place, _ in
      let cases: [(Any, String)] = [
        ("a", "null"), ([".value": "b", ".priority": 5], "5"),
        ([".value": "c", ".priority": "6"], #""6""#),
        ([".value": "e", ".priority": NSNull()], "null"),
      ]
      for (value, expected) in cases {
        place.startSet(value)
        let snapshot = try await place.first()
        #expect(snapshot.node.priority.json() == expected)
        #expect((snapshot.priority is NSNull) == (expected == "null"))
        #expect((snapshot.priority is String) == expected.hasPrefix("\""))
      }
      let contents: NSDictionary = [
        "foo": ["bar": [".value": 5, ".priority": 7], ".priority": "hi"] as [String: Any]
      ]
      place.startSet(contents)
      let exported = try await place.first().valueInExportFormat()
      #expect(contents.isEqual(exported))
    }
  }

  @Test(.ported("FData.testPriorityIsOverwrittenByServer"), arguments: WireKind.allCases)
  func `the value of another client replaces the own priority`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      let log = EventLog()
      reader.record(.value, to: log)
      await log.wait(for: 1)
      writer.observe(
        .value,
        with: { snapshot in
          if snapshot.priority as? Int == 100 { snapshot.ref.startSet("whatever") }
        })
      reader.startSet("hi", priority: 100)
      #expect(
        await log.joined(3) == #"=null, ={".value":"hi",".priority":100}, ="whatever""#)
    }
  }

  @Test(
    .ported(
      "FData.testUpdateDoesntAffectPriorityLocally",
      "FData.testUpdateDoesntAffectPriorityRemotely", "FData.testUpdateOfPriorityWorks"),
    arguments: WireKind.allCases)
  func `an update leaves the priority, or sets it by its key`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, reader in
      writer.startSet(["a": 1, "b": 2], priority: "testpri")
      writer.startUpdate(["a": 4])
      let seen1 = try await writer.first().priority as? String
      #expect(seen1 == "testpri")
      await writer.waitUntilQuiet()
      let seen2 = try await reader.first().priority as? String
      #expect(seen2 == "testpri")
      try await writer.updateChildValues([
        "a": 6, ".priority": "pri2", "b": [".priority": "pri3", "c": 10] as [String: Any],
      ])
      let seen3 = try await reader.first().node.json(.export)
      #expect(seen3 == #"{".priority":"pri2","a":6,"b":{".priority":"pri3","c":10}}"#)
    }
  }
}
