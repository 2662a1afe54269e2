import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Values that the server computes, as the original client estimates and stores them.
@Suite(.timeLimit(.minutes(20))) struct ServerValueBehaviourTests {
  private typealias Placeholder = CanopyClient.ServerValue

  @Test(
    .ported(
      "FData.testLocalServerTimestampEventuallyButNotImmediatelyMatchServer",
      "FData.testServerTimestampEventualConsistencyBetweenLocalAndRemote"),
    arguments: WireKind.allCases)
  func `a timestamp is estimated, then that of the server, for which others hear one event`(
    _ kind: WireKind
  )
    async throws
  {
    try await withPair(over: kind) { backend, writer, reader in
      let (local, remote) = (Received<DataSnapshot>(), Received<DataSnapshot>())
      reader.observe(.value, with: { if $0.exists() { remote.add($0) } })
      _ = try await reader.first()
      writer.observe(.value, with: { if $0.exists() { local.add($0) } })
      _ = try await writer.first()
      // The server's time goes on after the client has learned it.
      backend.parts.clock.advance(3_000)
      writer.startSet(Placeholder.timestamp(), priority: Placeholder.timestamp())
      let seen = await local.wait(for: 2)
      let now = Int(backend.parts.clock.now)
      #expect(await remote.wait(for: 1).map { $0.value as? Int } == [now])
      #expect(seen[1].value as? Int == now && seen[1].priority as? Int == now)
      #expect(seen[0].value as? Int != now && seen[0].value is NSNumber)
      #expect(seen[0].priority as? Int == seen[0].value as? Int)
      await reader.waitUntilQuiet()
      #expect(remote.values.count == 1 && local.values.count == 2)
    }
  }

  @Test(
    .ported(
      "FData.testServerTimestampSetWithPriorityRemoteEvents",
      "FData.testServerTimestampSetWithPriorityLocalEvents",
      "FData.testServerTimestampUpdateRemoteEvents",
      "FData.testServerTimestampTransactionLocalEvents",
      "FData.testServerTimestampUpdateLocalEvents"), arguments: WireKind.allCases)
  func `timestamps inside values, updates and transactions agree`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, writer, reader in
      let now = Int(backend.parts.clock.now)
      let timestamp = Placeholder.timestamp()
      try await writer.child("set").setValue(
        ["a": timestamp, "b": [".value": timestamp, ".priority": timestamp]] as [String: Any],
        andPriority: timestamp)
      writer.child("update/b/c").startSet(1)
      try await writer.child("update").updateChildValues(
        ["b": ["c": timestamp, "d": 1] as [String: Any]])
      try await writer.child("transaction").runTransactionBlock { data in
        data.value = Placeholder.timestamp()
        return .success(withValue: data)
      }
      for place in [writer, reader] {
        let snapshot = try await place.first()
        let set = snapshot.childSnapshot(forPath: "set")
        #expect(set.priority as? Int == now && set.value as? [String: Int] == ["a": now, "b": now])
        #expect(set.childSnapshot(forPath: "b").priority as? Int == now)
        let update = snapshot.childSnapshot(forPath: "update/b")
        #expect(update.value as? [String: Int] == ["c": now, "d": 1])
        #expect(snapshot.childSnapshot(forPath: "transaction").value as? Int == now)
      }
    }
  }

  @Test(
    .ported(
      "FData.testServerTimestampSetPriorityRemoteEvents",
      "FData.testServerTimestampSetPriorityLocalEvents"), arguments: WireKind.allCases)
  func `a timestamp as priority moves a child, for everybody`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, writer, reader in
      try await writer.child("a").setValue(1)
      try await writer.child("b").setValue(1, andPriority: 1)
      let logs = [EventLog(), EventLog()]
      for (log, place) in zip(logs, [writer, reader]) {
        place.record(.childAdded, to: log)
        await log.wait(for: 2)
        place.recordPlaces(.childMoved, to: log)
      }
      try await writer.child("a").setPriority(Placeholder.timestamp())
      for log in logs { #expect(await log.joined(3) == "+a, +b, >a after b") }
      let now = Int(backend.parts.clock.now)
      let seen1 = try await reader.child("a").first().priority as? Int
      #expect(seen1 == now)
    }
  }

  @Test(
    .ported(
      "FData.testServerIncrementOverwritesExistingDataOnline",
      "FData.testServerIncrementOverwritesExistingDataOffline",
      "FData.testServerIncrementPriorityOnline", "FData.testServerIncrementPriorityOffline"),
    arguments: WireKind.allCases, [true, false])
  func `an increment adds to a number and replaces anything else`(
    _ kind: WireKind, _ isOnline: Bool
  ) async throws {
    try await withPair(over: kind) { backend, place, _ in
      let log = EventLog()
      place.record(.value, to: log)
      let other = place.child("p")
      let priorities = EventLog()
      other.observe(.value, with: { priorities.add($0.node.priority.json()) })
      await log.wait(for: 1)
      await priorities.wait(for: 1)
      place.removeAllObservers()
      let values = place.child("v")
      let seen = EventLog()
      values.record(.value, to: seen)
      await seen.wait(for: 1)
      if !isOnline { place.database.goOffline() }
      let one = Placeholder.increment(1)
      values.startSet(one)
      for value in [5, "hello", ["hello": "world"]] as [Any] {
        values.startSet(value)
        values.startSet(one)
      }
      let expected = #"=null, =1, =5, =6, ="hello", =1, ={"hello":"world"}, =1"#
      #expect(await seen.joined(8) == expected)
      other.startSet(0, priority: one)
      other.startSet(0, priority: Placeholder.increment(1.5))
      #expect(await priorities.joined(3) == "null, 1, 2.5")
      if !isOnline { place.database.goOnline() }
      await place.waitUntilQuiet()
      let found1 = try backend.node("t")
      #expect(found1 == json(#"{"p":{".value":0,".priority":2.5},"v":1}"#))
      #expect(seen.values.count == 8 && priorities.values.count == 3)
    }
  }

  @Test(.ported("FData.testServerIncrementOverflowAndTypeCoercion"), arguments: WireKind.allCases)
  func `an increment that exceeds an integer is a double`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { backend, place, _ in
      let cases: [(NSNumber, NSNumber, Double)] = [
        (1, 1.0, 2), (1.5, 1, 2.5), (1, NSNumber(value: Int64.max), 9_223_372_036_854_775_808),
        (-1, NSNumber(value: Int64.min), -9_223_372_036_854_775_808),
      ]
      for (first, delta, expected) in cases {
        place.database.goOffline()
        place.startSet(first)
        place.startSet(Placeholder.increment(delta))
        let local = EventLog()
        place.observe(.value, with: { local.add("\($0.value as? Double ?? .nan)") })
        #expect(await local.wait(for: 1) == ["\(expected)"])
        place.removeAllObservers()
        place.database.goOnline()
        await place.waitUntilQuiet()
        let found2 = try backend.node("t")
        #expect(found2 == json("\(expected)"))
      }
    }
  }
}
