import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// On-disconnect writes against a live server, as their writer sees them.
@Suite(.timeLimit(.minutes(20))) struct DisconnectBehaviourTests {
  /// Returns the values that an observer of a query receives.
  private func values(_ query: DatabaseQuery) -> Received<String> {
    let seen = Received<String>()
    query.observe(.value, with: { seen.add($0.node.json(.export)) })
    return seen
  }

  @Test(.ported("FRealtime.testOnDisconnectSetWorks"), arguments: WireKind.allCases)
  func `the writer and others hear of a registered value, and only of the last one`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client()
      let place = writer.reference(withPath: "t/disconnected")
      let other = try await backend.client().reference(withPath: "t/disconnected")
      let (own, others) = (values(place), values(other))
      await own.wait(for: 1)
      await others.wait(for: 1)
      try await place.onDisconnectSetValue(1)
      try await place.onDisconnectSetValue(2)
      writer.goOffline()
      #expect(await own.wait(for: 2) == ["null", "2"])
      #expect(await others.wait(for: 2) == ["null", "2"])
    }
  }

  @Test(
    .ported(
      "FRealtime.testOnDisconnectSetWithPriorityWorks", "FRealtime.testOnDisconnectRemoveWorks",
      "FRealtime.testOnDisconnectUpdateWorks"), arguments: WireKind.allCases)
  func `the writer hears of registered priorities, removals and updates`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client()
      let root = writer.reference(withPath: "t")
      try await root.setValue([
        "foo": ["bar": "a", "baz": "b"], "gone": "bar",
      ])
      let all = ["disconnected", "foo", "gone"].map { values(root.child($0)) }
      for seen in all { await seen.wait(for: 1) }
      try await finished {
        root.child("disconnected").onDisconnectSetValue(
          true, andPriority: "abcd", withCompletionBlock: $0)
      }
      try await root.child("foo").onDisconnectUpdateChildValues(["baz": "c", "bat": "d"])
      try await root.child("gone").onDisconnectRemoveValue()
      writer.goOffline()
      #expect(
        await all[0].wait(for: 2) == ["null", #"{".value":true,".priority":"abcd"}"#])
      #expect(await all[1].wait(for: 2)[1] == #"{"bar":"a","bat":"d","baz":"c"}"#)
      #expect(await all[2].wait(for: 2)[1] == "null")
    }
  }

  private func finished(
    _ begin: (@escaping @Sendable ((any Error)?, DatabaseReference) -> Void) -> Void
  ) async throws {
    let errors = Received<Bool>()
    begin { error, _ in errors.add(error == nil) }
    #expect(await errors.wait(for: 1) == [true])
  }

  @Test(
    .ported(
      "FRealtime.testOnDisconnectTriggersSingleLocalValueEventForWriter",
      "FRealtime.testOnDisconnectTriggersSingleLocalValueEventForWriterWithQuery"),
    arguments: WireKind.allCases, [false, true])
  func `several registered operations raise one event for their writer`(
    _ kind: WireKind, isLimited: Bool
  ) async throws {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client()
      let place = writer.reference(withPath: "t/foo")
      let seen = values(isLimited ? place.queryLimited(toLast: 2) : place)
      await seen.wait(for: 1)
      place.startOnDisconnectSet(["bar": "a", "baz": "b"])
      place.startOnDisconnectUpdate(["bam": "c"])
      try await place.child("baz").onDisconnectRemoveValue()
      writer.goOffline()
      #expect(await seen.wait(for: 2) == ["null", #"{"bam":"c","bar":"a"}"#])
      // The server may see the end of the connection after the beginning of the next one.
      try await eventually { try backend.node("t/foo") == json(#"{"bam":"c","bar":"a"}"#) }
      writer.goOnline()
      _ = try await place.getData()
      #expect(seen.values.last == #"{"bam":"c","bar":"a"}"#)
    }
  }

  @Test(
    .ported("FRealtime.testOnDisconnectTriggersSingleLocalValueEventForReader"),
    arguments: WireKind.allCases)
  func `several registered operations raise one event for another client`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let seen = values(try await backend.client().reference(withPath: "t/foo"))
      await seen.wait(for: 1)
      let writer = try await backend.client()
      let place = writer.reference(withPath: "t/foo")
      try await place.onDisconnectSetValue(["bar": "a", "baz": "b"])
      try await place.onDisconnectUpdateChildValues(["bam": "c"])
      try await place.child("baz").onDisconnectRemoveValue()
      writer.goOffline()
      #expect(await seen.wait(for: 2) == ["null", #"{"bam":"c","bar":"a"}"#])
      try await backend.client().reference(withPath: "t/foo/last").setValue(1)
      #expect(await seen.wait(for: 3)[2] == #"{"bam":"c","bar":"a","last":1}"#)
    }
  }

  @Test(
    .ported("FRealtime.testOnDisconnectTriggersSingleLocalValueEventForReaderWithQuery"),
    arguments: WireKind.allCases)
  func `several registered operations raise one event for a query of another client`(
    _ kind: WireKind
  ) async throws {
    try await withPair(over: kind) { _, writer, reader in
      let seen = Received<String>()
      reader.child("foo").queryLimited(toLast: 2).observe(
        .value, with: { seen.add("\($0.key) \($0.node.json(.export))") })
      await seen.wait(for: 1)
      let foo = writer.child("foo")
      foo.startOnDisconnectSet(["bar": "a", "baz": "b"])
      foo.startOnDisconnectUpdate(["bam": "c"])
      try await foo.child("baz").onDisconnectRemoveValue()
      writer.database.goOffline()
      #expect(await seen.wait(for: 2) == ["foo null", #"foo {"bam":"c","bar":"a"}"#])
      await reader.waitUntilQuiet()
      #expect(seen.values.count == 2)
    }
  }

  @Test(
    .ported("FRealtime.testOnDisconnectDeepMergeTriggersOnlyOneValueEventForReaderWithQuery"),
    arguments: WireKind.allCases)
  func `registered operations of several levels raise one event for a query`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, reader in
      writer.startSet(
        ["a": 1, "b": ["c": true, "d": "scalar", "e": ["f": "hooray"]]] as [String: Any])
      writer.child("a").startOnDisconnectSet(2)
      try await writer.child("b/d").onDisconnectRemoveValue()
      let seen = values(reader.queryLimited(toLast: 3))
      await seen.wait(for: 1)
      writer.database.goOffline()
      #expect(await seen.wait(for: 2)[1] == #"{"a":2,"b":{"c":true,"e":{"f":"hooray"}}}"#)
      await reader.waitUntilQuiet()
      #expect(seen.values.count == 2)
    }
  }

  @Test(.ported("FRealtime.testOnDisconnectCancelWorks"), arguments: WireKind.allCases)
  func `the writer hears nothing of a cancelled operation`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client()
      let foo = writer.reference(withPath: "t/foo")
      try await foo.setValue(["bar": "a", "baz": "b"])
      let seen = values(foo)
      await seen.wait(for: 1)
      try await foo.onDisconnectUpdateChildValues(["baz": "c", "bat": "d"])
      try await foo.child("bat").cancelDisconnectOperations()
      writer.goOffline()
      #expect(await seen.wait(for: 2)[1] == #"{"bar":"a","baz":"c"}"#)
      writer.goOnline()
      _ = try await foo.getData()
      #expect(try backend.node("t/foo") == json(#"{"bar":"a","baz":"c"}"#))
      // They were made once: the next end of the connection does nothing.
      try await foo.setValue("new")
      writer.goOffline()
      writer.goOnline()
      #expect(try await foo.getData().value as? String == "new")
    }
  }

  @Test(
    .ported("FRealtime.testOnDisconnectWithServerValuesWithLocalEvents"),
    arguments: WireKind.allCases)
  func `server values of registered operations are estimated for their writer`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client()
      let root = writer.reference(withPath: "t")
      try await root.setValue(["n": 5])
      let seen = values(root)
      await seen.wait(for: 1)
      try await root.onDisconnectUpdateChildValues([
        "n": CanopyClient.ServerValue.increment(2), "at": CanopyClient.ServerValue.timestamp(),
      ])
      writer.goOffline()
      let local = try Node(json: await seen.wait(for: 2)[1])
      #expect(local.child("n") == 7 && local.child("at").doubleValue != nil)
      writer.goOnline()
      _ = try await root.getData()
      #expect(try backend.node("t/n") == 7)
      #expect(try await root.getData().node == backend.node("t"))
    }
  }

  @Test func `the next connection corrects a registered write that the server did not make`() throws
  {
    let fixture = SyncFixture()
    _ = fixture.tree.connected()
    _ = try fixture.listen("whole", to: "a", for: .value)
    _ = try fixture.listen("other", to: "b", for: .value)
    _ = try fixture.received(try QuerySpec("a"), "", #"{"x":1}"#, sequence: 5)
    _ = try fixture.received(try QuerySpec("b"), "", "2", sequence: 5)
    _ = fixture.tree.disconnected()
    let made = fixture.tree.disconnectWritesMade(
      [try Write.set(Location("a/y"), WriteValue(json: "2"))], at: 0)
    #expect(fixture.texts(made) == [#"whole value {"x":1,"y":2}"#])
    #expect(made.changes.isEmpty, "the store keeps the data of the server alone")
    #expect(
      Set(fixture.requests(fixture.tree.connected())) == ["start /a", "start /b since 5"])
    #expect(
      fixture.texts(try fixture.received(try QuerySpec("a"), "", #"{"x":1}"#, sequence: 6))
        == [#"whole value {"x":1}"#])
  }

  @Test(
    .ported("FIRDatabaseTests.testPurgeWritesCancelsOnDisconnects"), arguments: WireKind.allCases)
  func `purging withdraws the operations that wait for a connection`(_ kind: WireKind) async throws
  {
    try await withBackend(over: kind) { backend in
      let writer = try await backend.client()
      let place = writer.reference(withPath: "t/here")
      try await place.setValue("there")
      try await place.child("kept").onDisconnectSetValue(1)
      writer.goOffline()
      let ends = Received<String>()
      for key in ["a", "b"] {
        place.child(key).onDisconnectSetValue("gone") { error, _ in
          ends.add((error as? DatabaseError)?.code.rawValue ?? "registered")
        }
      }
      writer.purgeOutstandingWrites()
      #expect(await ends.wait(for: 2) == ["writeCanceled", "writeCanceled"])
      writer.goOnline()
      try await place.setValue("again")
      writer.goOffline()
      writer.goOnline()
      #expect(try await place.getData().value as? String == "again")
      #expect(try backend.node("t/here") == "again")
    }
  }
}
