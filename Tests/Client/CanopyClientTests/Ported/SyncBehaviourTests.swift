import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// Data that are kept synchronized, and the state of the connection, as the original client has them.
@Suite(.timeLimit(.minutes(20))) struct SyncBehaviourTests {
  /// Expects that the value which another client has just written is known without a connection, or is not.
  private func expect(
    _ query: DatabaseQuery, _ number: Int, by writer: DatabaseReference, isKept: Bool
  ) async throws {
    try await writer.setValue(["child": number])
    await query.ref.waitUntilQuiet()
    query.database.goOffline()
    defer { query.database.goOnline() }
    let value = (try? await query.getData())?.value as? [String: Int]
    #expect((value == ["child": number]) == isKept, "\(number)")
  }

  @Test(
    .ported(
      "FKeepSyncedTest.testKeepSynced", "FKeepSyncedTest.testManyKeepSyncedCallsDontAccumulate"),
    arguments: WireKind.allCases)
  func `one call keeps data synchronized, and one call ends it`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, place in
      place.keepSynced(true)
      try await expect(place, 1, by: writer, isKept: true)
      place.keepSynced(false)
      try await expect(place, 2, by: writer, isKept: false)
      for _ in 0..<3 { place.keepSynced(true) }
      try await expect(place, 3, by: writer, isKept: true)
      for _ in 0..<2 { place.keepSynced(false) }
      try await expect(place, 4, by: writer, isKept: false)
      place.keepSynced(true)
      try await expect(place, 5, by: writer, isKept: true)
    }
  }

  @Test(
    .ported(
      "FKeepSyncedTest.testRemoveAllObserversDoesNotAffectKeepSynced",
      "FKeepSyncedTest.testRemoveSingleObserverDoesNotAffectKeepSynced",
      "FKeepSyncedTest.testKeepSyncedNoDoesNotAffectExistingObserver"), arguments: WireKind.allCases
  )
  func `observers and the synchronization do not end each other`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, writer, place in
      let log = EventLog()
      place.keepSynced(true)
      let handle = place.record(.value, to: log)[0]
      place.removeObserver(withHandle: handle)
      try await expect(place, 1, by: writer, isKept: true)
      place.removeAllObservers()
      try await expect(place, 2, by: writer, isKept: true)
      place.record(.value, to: log)
      place.keepSynced(false)
      try await writer.setValue("done")
      #expect(await log.wait { $0.last == #"="done""# }.isEmpty == false)
    }
  }

  @Test(
    .ported(
      "FKeepSyncedTest.testDifferentQueriesAreIndependent",
      "FKeepSyncedTest.testChildIsKeptSynced", "FKeepSyncedTest.testRootIsKeptSynced"),
    arguments: WireKind.allCases)
  func `queries are kept by themselves, and all locations below a kept one`(_ kind: WireKind)
    async throws
  {
    try await withPair(over: kind) { _, writer, place in
      let (one, two) = (place.queryLimited(toFirst: 1), place.queryLimited(toFirst: 2))
      one.keepSynced(true)
      try await expect(one, 1, by: writer, isKept: true)
      try await expect(two, 2, by: writer, isKept: false)
      two.keepSynced(true)
      try await expect(two, 3, by: writer, isKept: true)
      one.keepSynced(false)
      try await expect(two, 4, by: writer, isKept: true)
      two.keepSynced(false)
      try await expect(one, 5, by: writer, isKept: false)
      place.root.keepSynced(true)
      try await expect(place, 6, by: writer, isKept: true)
      try await expect(place.child("deep/er"), 7, by: writer.child("deep/er"), isKept: true)
    }
  }

  @Test(
    .ported("FDotInfo.testCanGetReferenceToInfoNodes", "FDotInfo.testCantWriteToInfo"),
    arguments: WireKind.allCases)
  func `the information of the connection cannot be written`(_ kind: WireKind) async throws {
    try await withPair(over: kind) { _, place, _ in
      for info in [place.root.child(".info"), place.root.child(".info/test")] {
        await #expect(throws: DatabaseError.self) { try await info.setValue("hi") }
        await #expect(throws: DatabaseError.self) {
          try await info.setValue("hi", andPriority: 5)
        }
        await #expect(throws: DatabaseError.self) { try await info.setPriority("hi") }
        await #expect(throws: DatabaseError.self) { try await info.removeValue() }
        await #expect(throws: DatabaseError.self) {
          try await info.runTransactionBlock { .success(withValue: $0) }
        }
      }
    }
  }

  @Test(
    .ported(
      "FDotInfo.testCanWatchInfoConnected", "FDotInfo.testInfoConnectedGoesToFalseOnDisconnect",
      "FDotInfo.testInfoServerTimeOffset"), arguments: WireKind.allCases)
  func `the state of the connection and the difference of the clocks can be observed`(
    _ kind: WireKind
  )
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try backend.anonymousClient()
      let log = EventLog()
      let info = database.reference(withPath: ".info")
      info.child("connected").record(.value, to: log)
      await log.wait { $0.last == "=true" }
      let before = log.values.count
      database.goOffline()
      database.goOnline()
      await log.wait(for: before + 2)
      #expect(log.values.suffix(3) == ["=true", "=false", "=true"])
      let seen1 = try await info.child("serverTimeOffset").first().value is NSNumber
      #expect(seen1)
      #expect(database.reference().childByAutoId().key?.utf8.count == 20)
    }
  }

  @Test(.ported("FDotInfo.testManualConnectionManagement"), arguments: WireKind.allCases)
  func `databases that go offline stay there, whatever begins, and come back`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let databases = try (0..<2).map { _ in try backend.anonymousClient() }
      let logs = databases.map { _ in EventLog() }
      for (log, database) in zip(logs, databases) {
        database.reference(withPath: ".info/connected").record(.value, to: log)
        await log.wait { $0.last == "=true" }
      }
      for database in databases { database.goOffline() }
      for (log, database) in zip(logs, databases) {
        await log.wait { $0.last == "=false" }
        database.reference(withPath: "t").keepSynced(true)
        let connected = database.reference(withPath: ".info/connected")
        let seen2 = try await connected.first().value as? Bool
        #expect(seen2 == false)
      }
      for database in databases { database.goOnline() }
      for log in logs { await log.wait { $0.last == "=true" } }
    }
  }
}
