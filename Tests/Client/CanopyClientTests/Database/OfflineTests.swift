import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Behaviour without a connection, and when it breaks.
@Suite(.timeLimit(.minutes(20))) struct OfflineTests {
  @Test(arguments: WireKind.allCases)
  func `writes made offline are visible at once and reach the server in order`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let list = database.reference(withPath: "list")
      let reported = Received<String>()
      list.observe(.childAdded, with: { reported.add("+\($0.key)") })
      list.observe(.value, with: { reported.add("\($0.childrenCount)") })
      await reported.wait(for: 1)
      database.goOffline()
      for key in ["a", "b", "c"] {
        list.child(key).setValue(key) { error, _ in
          reported.add(error.map { "\($0)" } ?? "saved \(key)")
        }
      }
      await reported.wait(for: 7)
      #expect(reported.values == ["0", "+a", "1", "+b", "2", "+c", "3"])
      #expect(backend.root.isAbsent)
      database.goOnline()
      await reported.wait(for: 10)
      #expect(reported.values.dropFirst(7) == ["saved a", "saved b", "saved c"])
      #expect(try backend.node("list") == json(#"{"a":"a","b":"b","c":"c"}"#))
      #expect(backend.parts.journal.count == 3)
    }
  }

  @Test(arguments: WireKind.allCases) func `changes of others meanwhile arrive as ordinary events`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let other = try await backend.client().reference(withPath: "list")
      try await other.setValue(["a": 1, "b": 2, "c": 3])
      let list = database.reference(withPath: "list")
      let reported = Received<String>()
      list.observe(.childAdded, with: { reported.add("+\($0.key)") })
      list.observe(.childRemoved, with: { reported.add("-\($0.key)") })
      list.observe(.childChanged, with: { reported.add("~\($0.key)") })
      list.observe(.value, with: { reported.add("\($0.childrenCount)") })
      await reported.wait(for: 4)
      database.goOffline()
      try await other.updateChildValues(["a": NSNull(), "b": 5, "d": 4])
      database.goOnline()
      await reported.wait(for: 8)
      #expect(reported.values == ["+a", "+b", "+c", "3", "-a", "+d", "~b", "3"])
    }
  }

  @Test func `a write whose reply was lost is applied once`() async throws {
    try await withBackend { backend in
      let database = try await backend.client()
      let count = database.reference(withPath: "count")
      let reported = Received<String>()
      count.observe(.value, with: { reported.add($0.text) })
      await reported.wait(for: 1)
      backend.parts.journal.gate.hold()
      for number in 1...3 {
        count.setValue(CanopyClient.ServerValue.increment(1)) { error, _ in
          reported.add(error.map { "\($0)" } ?? "saved \(number)")
        }
      }
      count.parent?.child("shared").runTransactionBlock(
        { data in
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        },
        andCompletionBlock: { error, isCommitted, snapshot in
          reported.add(error.map { "\($0)" } ?? "\(isCommitted) \(snapshot?.value ?? "")")
        })
      await backend.parts.journal.gate.reached()
      // All requests have arrived before the connection ends; none is answered.
      _ = try? await backend.client { $0.requestMilliseconds = 1 }
      database.goOffline()
      backend.parts.journal.gate.open()
      database.goOnline()
      await reported.wait { $0.contains("saved 3") && $0.contains("true 1") }
      #expect(try backend.node("count") == 3 && backend.node("shared") == 1)
      #expect(
        reported.values.filter { !$0.hasPrefix("saved") && $0 != "true 1" }
          == ["nothing", "1", "2", "3"])
    }
  }

  @Test(arguments: WireKind.allCases) func `a refused write is undone by the opposite events`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try backend.anonymousClient()
      let posts = database.reference(withPath: "posts")
      let reported = Received<String>()
      posts.observe(.childAdded, with: { reported.add("+\($0.key)") })
      posts.observe(.childRemoved, with: { reported.add("-\($0.key)") })
      posts.observe(.value, with: { reported.add("\($0.childrenCount)") })
      await reported.wait(for: 1)
      posts.child("p").setValue(["title": "t"]) { error, _ in
        reported.add("\((error as? DatabaseError)?.code.rawValue ?? "saved")")
      }
      await reported.wait(for: 6)
      #expect(reported.values == ["0", "+p", "1", "-p", "0", "permissionDenied"])
    }
  }

  @Test(arguments: WireKind.allCases) func `the connection and the server's clock can be observed`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let now = backend.parts.clock.now
      let database = try backend.anonymousClient { options in
        options.environment.now = { now - 5_000 }
      }
      let reported = Received<String>()
      database.reference(withPath: ".info/connected").observe(
        .value, with: { reported.add("\($0.value as? Bool ?? false)") })
      await reported.wait { $0.contains("true") }
      database.goOffline()
      await reported.wait { $0.last == "false" && $0.count > 1 }
      database.goOnline()
      await reported.wait { $0.last == "true" }
      let offset = try await database.reference(withPath: "/.info/serverTimeOffset").getData()
      #expect(offset.value as? Int == 5_000)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `known data is readable offline, and unknown data is an error`(_ kind: WireKind) async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "a")
      try await place.setValue(["x": 1])
      place.keepSynced(true)
      _ = try await place.getData()
      database.goOffline()
      #expect(try await place.child("x").getData().value as? Int == 1)
      let error = await #expect(throws: DatabaseError.self) {
        try await database.reference(withPath: "b").getData()
      }
      #expect(error?.code == .disconnected)
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a read that is under way ends with the connection`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      backend.parts.journal.gate.hold()
      database.reference(withPath: "a").setValue(1) { _, _ in }
      await backend.parts.journal.gate.reached()
      let read = Task { try await database.reference(withPath: "b").getData() }
      try await eventually {
        await withCheckedContinuation { done in
          database.repository.use { done.resume(returning: $0.sentRequests.count == 2) }
        }
      }
      database.goOffline()
      let error = await #expect(throws: DatabaseError.self) { try await read.value }
      #expect(error?.code == .disconnected)
      backend.parts.journal.gate.open()
    }
  }

  @Test(arguments: WireKind.allCases) func `outstanding writes can be dropped`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "a")
      let reported = Received<String>()
      place.observe(.value, with: { reported.add($0.text) })
      await reported.wait(for: 1)
      database.goOffline()
      place.setValue("x") { error, _ in
        reported.add((error as? DatabaseError)?.code.rawValue ?? "saved")
      }
      database.purgeOutstandingWrites()
      await reported.wait(for: 4)
      #expect(reported.values == ["nothing", "x", "nothing", "writeCanceled"])
      database.goOnline()
      _ = try await place.getData()
      #expect(backend.root.isAbsent)
    }
  }

  @Test(arguments: WireKind.allCases) func `a dropped write is not sent again`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      backend.parts.journal.gate.hold()
      database.reference(withPath: "a").setValue("x") { _, _ in }
      await backend.parts.journal.gate.reached()
      database.goOffline()
      let counts = Received<Int>()
      database.repository.use { counts.add($0.unanswered.count) }
      database.purgeOutstandingWrites()
      database.repository.use { counts.add($0.unanswered.count) }
      #expect(await counts.wait(for: 2) == [1, 0])
      backend.parts.journal.gate.open()
      database.goOnline()
      try await database.reference(withPath: "b").setValue("y")
      #expect(try backend.node("b") == "y")
    }
  }

  @Test(arguments: WireKind.allCases) func `registered writes are applied when the connection ends`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let watcher = try await backend.client().reference(withPath: "here")
      let reported = Received<String>()
      watcher.observe(.value, with: { reported.add($0.text) })
      await reported.wait(for: 1)
      let database = try await backend.client()
      let here = database.reference(withPath: "here")
      try await here.onDisconnectSetValue("gone")
      try await here.child("x").cancelDisconnectOperations()
      try await here.setValue("there")
      await reported.wait(for: 2)
      database.goOffline()
      #expect(await reported.wait(for: 3) == ["nothing", "there", "gone"])
    }
  }
}
