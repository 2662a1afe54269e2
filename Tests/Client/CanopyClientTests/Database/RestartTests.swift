import CanopyAccounts
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Returns the state that survives the end of a process: a second database opens a copy of the first one's
/// folder, as after a crash.
@Suite(.timeLimit(.minutes(20))) struct RestartTests {
  private func open(_ backend: Backend, _ folder: String) throws -> Database {
    let database = try backend.anonymousClient { $0.persistenceFolder = folder }
    database.isPersistenceEnabled = true
    #expect(database.isPersistenceEnabled)
    return database
  }

  private let temporaryFolder: TemporaryFolder

  init() throws {
    temporaryFolder = try TemporaryFolder()
  }

  /// Returns the path of a folder that does not exist yet.
  private func newFolder() -> String { temporaryFolder.file(UUID().uuidString) }

  /// Returns a copy of the folder after all changes are recorded, and takes the database offline.
  private func crash(_ database: Database, _ folder: String) async throws -> String {
    database.goOffline()
    await database.recorded()
    let copy = newFolder()
    try FileManager.default.copyItem(atPath: folder, toPath: copy)
    try FileManager.default.removeItem(atPath: folder)
    return copy
  }

  @Test func `the session, the data and pending writes survive, and each write is applied once`()
    async throws
  {
    try await withBackend { backend in
      var folder = newFolder()
      let database = try open(backend, folder)
      try await Auth.auth(database: database).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      let root = database.reference()
      try await root.child("count").setValue(CanopyClient.ServerValue.increment(1))
      _ = try await root.observeSingleEventAndPreviousSiblingKey(of: .value)
      backend.parts.journal.gate.hold()
      root.child("count").setValue(CanopyClient.ServerValue.increment(1)) { _, _ in }
      await backend.parts.journal.gate.reached()
      database.goOffline()
      root.child("offline").setValue("written") { _, _ in }
      folder = try await crash(database, folder)
      backend.parts.journal.gate.open()
      for turn in 1...2 {
        let database = try open(backend, folder)
        #expect(Auth.auth(database: database).currentUser?.isAdministrator == true)
        let root = database.reference()
        // A new process reuses write numbers; its writes are different ones nevertheless.
        try await root.child("again").setValue(CanopyClient.ServerValue.increment(1))
        let data = try await root.getData()
        #expect(data.childSnapshot(forPath: "count").value as? Int == 2)
        #expect(data.childSnapshot(forPath: "offline").value as? String == "written")
        #expect(data.childSnapshot(forPath: "again").value as? Int == turn)
        folder = try await crash(database, folder)
      }
      try FileManager.default.removeItem(atPath: folder)
    }
  }

  @Test func `changes while the disk is busy share one transaction`() async throws {
    try await withBackend { backend in
      let folder = newFolder()
      let database = try open(backend, folder)
      database.goOffline()
      await database.recorded()
      let persistence = try #require(
        await withCheckedContinuation { done in
          database.repository.use { done.resume(returning: $0.persistence) }
        })
      let before = persistence.takeCount
      persistence.queue.suspend()
      for number in 0..<200 { database.reference().child("\(number)").setValue(number) { _, _ in } }
      await withCheckedContinuation { done in database.repository.use { _ in done.resume() } }
      persistence.queue.resume()
      await database.recorded()
      #expect(persistence.takeCount == before + 1)
      let saved = try persistence.store.load()
      #expect(saved.writes.count == 200)
      try FileManager.default.removeItem(atPath: folder)
    }
  }

  /// Makes increments below `made` on several threads at once.
  private func write(_ database: Database, threads: Int, each count: Int) {
    DispatchQueue.concurrentPerform(iterations: threads) { thread in
      for number in 0..<count {
        database.reference(withPath: "made/n\(thread)-\(number)")
          .setValue(CanopyClient.ServerValue.increment(1)) { _, _ in }
      }
    }
  }

  @Test func `writes of several threads survive before the store has recorded any`() async throws {
    try await withBackend { backend in
      let folder = newFolder()
      let first = try open(backend, folder)
      try await Auth.auth(database: first).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      first.goOffline()
      await first.recorded()
      let persistence = try #require(
        await withCheckedContinuation { done in
          first.repository.use { done.resume(returning: $0.persistence) }
        })
      persistence.queue.suspend()
      write(first, threads: 8, each: 50)
      let copy = newFolder()
      try FileManager.default.copyItem(atPath: folder, toPath: copy)
      persistence.queue.resume()
      await first.recorded()
      // The store has recorded them, and the journal has forgotten them.
      #expect(try persistence.store.load().writes.count == 400)
      #expect(persistence.journal.read().writes.isEmpty)
      let second = try open(backend, copy)
      try await second.reference(withPath: "last").setValue(true)
      let made = try backend.node("made")
      #expect(made.childCount == 400)
      made.forEachChild { key, node in
        #expect(node == 1, "\(key)")
        return true
      }
    }
  }

  @Test(arguments: [true, false])
  func `withdrawn writes are not sent by the next process, before the store has recorded it`(
    _ areRecorded: Bool
  ) async throws {
    try await withBackend { backend in
      let folder = newFolder()
      let first = try open(backend, folder)
      try await Auth.auth(database: first).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      first.goOffline()
      if areRecorded {
        first.reference(withPath: "gone").setValue(1) { _, _ in }
        await first.recorded()
      }
      let persistence = try #require(
        await withCheckedContinuation { done in
          first.repository.use { done.resume(returning: $0.persistence) }
        })
      persistence.queue.suspend()
      first.reference(withPath: "gone").setValue(2) { _, _ in }
      first.purgeOutstandingWrites()
      first.reference(withPath: "kept").setValue(3) { _, _ in }
      let copy = newFolder()
      try FileManager.default.copyItem(atPath: folder, toPath: copy)
      persistence.queue.resume()
      await first.recorded()
      let second = try open(backend, copy)
      try await second.reference(withPath: "last").setValue(true)
      #expect(backend.root == (try Node(json: #"{"kept":3,"last":true}"#)))
    }
  }

  @Test func `a write does not wait for a transaction's function, which may wait for the write`()
    async throws
  {
    try await withBackend { backend in
      let database = try open(backend, newFolder())
      database.goOffline()
      let root = database.reference()
      let ended = Received<String>()
      root.child("sum").runTransactionBlock(
        { data in
          root.child("inside").setValue(1) { _, _ in }
          let isWritten = DispatchSemaphore(value: 0)
          DispatchQueue(label: "other").async {
            root.child("outside").setValue(1) { _, _ in }
            isWritten.signal()
          }
          isWritten.wait()
          data.value = 1
          return .success(withValue: data)
        }, andCompletionBlock: { _, _, _ in })
      root.observe(.childAdded, with: { ended.add($0.key) })
      let keys = await ended.wait(for: 3)
      #expect(keys.sorted() == ["inside", "outside", "sum"])
    }
  }

  @Test func `more pending writes than the server remembers are applied once each`()
    async throws
  {
    try await withBackend { backend in
      var folder = newFolder()
      let first = try open(backend, folder)
      try await Auth.auth(database: first).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      first.goOffline()
      let count = Limits.clientWritesMax + 1
      for number in 1...count {
        first.reference(withPath: "made/n\(number)")
          .setValue(CanopyClient.ServerValue.increment(1)) { _, _ in }
      }
      folder = try await crash(first, folder)
      let second = try open(backend, folder)
      try await second.reference(withPath: "last").setValue(true)
      let made = try backend.node("made")
      #expect(made.childCount == count)
      var sum: Int64 = 0
      made.forEachChild { _, node in
        sum += node.integerValue ?? 0
        return true
      }
      #expect(sum == Int64(count))
      try FileManager.default.removeItem(atPath: folder)
    }
  }

  @Test func `observed data is available before there is a connection`() async throws {
    try await withBackend { backend in
      var folder = newFolder()
      let first = try open(backend, folder)
      try await Auth.auth(database: first).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      let place = first.reference(withPath: "a")
      place.keepSynced(true)
      try await place.setValue(["x": 1])
      _ = try await place.observeSingleEventAndPreviousSiblingKey(of: .value)
      folder = try await crash(first, folder)
      let second = try open(backend, folder)
      second.goOffline()
      let (snapshot, _) = try await second.reference(withPath: "a")
        .observeSingleEventAndPreviousSiblingKey(of: .value)
      #expect(snapshot.childSnapshot(forPath: "x").value as? Int == 1)
      try FileManager.default.removeItem(atPath: folder)
    }
  }
}
