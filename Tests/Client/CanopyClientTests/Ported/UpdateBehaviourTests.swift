import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Updates of several locations, as the original client makes them.
@Suite(.timeLimit(.minutes(20))) struct UpdateBehaviourTests {
  @Test(
    .ported(
      "FData.testUpdateRaisesCorrectLocalEvents", "FData.testUpdateRaisesCorrectRemoteEvents",
      "FData.testUpdateChangesAreStoredCorrectlyByTheServer"), arguments: WireKind.allCases)
  func `an update raises one event for each change and one for the whole`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { backend, writer, reader in
      try await writer.setValue(["a": 1, "b": 2, "c": 3, "d": 4])
      let logs = [EventLog(), EventLog()]
      for (log, place) in zip(logs, [writer, reader]) {
        for key in ["a", "b", "c", "d"] { place.child(key).record(.value, to: log, as: key) }
        place.record(.value, .childChanged, to: log)
        await log.wait(for: 5)
      }
      try await writer.updateChildValues(["a": 4, "d": 1])
      for log in logs {
        let texts = await log.wait(for: 10).suffix(5)
        #expect(Set(texts.prefix(2)) == ["a=4", "d=1"])
        #expect(Set(texts.suffix(3)) == ["~a", "~d", #"={"a":4,"b":2,"c":3,"d":1}"#])
      }
      let found1 = try backend.node("t")
      #expect(found1 == json(#"{"a":4,"b":2,"c":3,"d":1}"#))
      await reader.waitUntilQuiet()
      #expect(logs.allSatisfy { $0.values.count == 10 })
    }
  }

  @Test(
    .ported("FData.testUpdateReplacesChildrenAndIsNotRecursive", "FData.testDeepUpdatesWork"),
    arguments: WireKind.allCases)
  func `an update replaces the children that it names, and deep ones by their path`(
    _ kind: WireKind
  ) async throws {
    try await withPair(over: kind) { _, writer, reader in
      let log = EventLog()
      writer.record(.value, to: log)
      writer.startSet(["a": ["aa": 1, "ab": 2]])
      try await writer.updateChildValues(["a": ["aa": 1]])
      let seen1 = try await reader.first().node.json()
      #expect(seen1 == #"{"a":{"aa":1}}"#)
      await log.wait { $0.last == #"={"a":{"aa":1}}"# }
      try await writer.updateChildValues([
        "a/aa": 10, ".priority": 3.0, "a/ab": [".priority": 2.0, ".value": 20],
      ])
      let expected = #"{".priority":3,"a":{"aa":10,"ab":{".value":20,".priority":2}}}"#
      let seen2 = try await reader.first().node.json(.export)
      #expect(seen2 == expected)
      await log.wait { $0.last == "=\(expected)" }
    }
  }

  @Test(
    .ported(
      "FData.testUpdateFiresCorrectEventWhenAChildIsDeleted",
      "FData.testUpdateFiresCorrectEventOnNewChildren",
      "FData.testUpdateFiresCorrectEventOnDeletedChildren",
      "FData.testUpdateFiresCorrectEventOnChangedChildren"), arguments: WireKind.allCases)
  func `an update adds, changes and removes children, for everybody`(_ kind: WireKind) async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      let logs = [EventLog(), EventLog()]
      for (log, place) in zip(logs, [writer, reader]) {
        place.child("a").record(.value, to: log)
        await log.wait(for: 1)
      }
      for value in [42, 11, NSNull()] as [Any] {
        try await writer.updateChildValues(["a": value, "b": 6])
      }
      for log in logs { #expect(await log.joined(4) == "=null, =42, =11, =null") }
      let seen3 = try await reader.keys()
      #expect(seen3 == ["b"])
    }
  }
}
