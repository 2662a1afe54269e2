import CanopyAccounts
import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import Testing

@testable import CanopyClient

/// Databases, their settings and their outstanding writes, as in the original client.
@Suite(.timeLimit(.minutes(20))) struct DatabaseBehaviourTests {
  // MARK: Databases and references

  @Test(
    .ported(
      "FIRDatabaseTests.testReferenceFromURLWithEmptyPath",
      "FIRDatabaseTests.testReferenceFromURLWithPath",
      "FIRDatabaseTests.testReferenceFromURLWithWrongURL",
      "FIRDatabaseTests.testReferenceWithPath"),
    arguments: ["canopy://127.0.0.1:1", "http://127.0.0.1:1", "https://foo.example.com"])
  func `a reference belongs to the URL of its database`(_ url: String) async throws {
    let database = try Database(url: url)
    database.goOffline()
    #expect(database.reference(withPath: "foo").url == "\(url)/foo")
    #expect(database.reference(fromURL: "\(url)/foo/bar").url == "\(url)/foo/bar")
    #expect(database.reference(fromURL: url) == database.reference())
    let error = await #expect(throws: DatabaseError.self) {
      try await database.reference(fromURL: "https://foobar.example.com/foo/bar").getData()
    }
    #expect(error?.code == .invalidURL)
  }

  @Test(
    .ported(
      "FIRDatabaseTests.testDatabaseForAppWithInvalidCustomURLs",
      "FIRDatabaseTests.testDatabaseForAppWithInvalidURLs"),
    arguments: ["not-a-url", "", "http://x.example.com/paths/are/bad"])
  func `a database with an invalid URL fails in every operation`(_ url: String) async throws {
    #expect(throws: DatabaseError.self) { try Database(url: url) }
    let database = Database.database(url: url)
    let error = await #expect(throws: DatabaseError.self) {
      try await database.reference(withPath: "foo").setValue(1)
    }
    #expect(error?.code == .invalidURL)
  }

  @Test(
    .ported(
      "FIRDatabaseTests.testDatabaseForAppWithHttpsURL", "FIRDatabaseTests.testDeleteDatabase",
      "FIRDatabaseTests.testDifferentInstanceForAppWithURL",
      "FIRDatabaseTests.testReferenceEqualityForFIRDatabase"))
  func `an app has one database for each server, and a new one after its deletion`() async throws {
    func app(_ name: String) throws -> FirebaseApp {
      FirebaseApp.configure(
        name: name, options: FirebaseOptions(databaseURL: "https://foobar.example.com"))
      return try #require(FirebaseApp.app(name: name))
    }
    let (one, two) = (try app("ported-1"), try app("ported-2"))
    let first = Database.database(app: one, url: "https://foo1.example.com")
    #expect(first.reference(withPath: "a").url == "https://foo1.example.com/a")
    #expect(Database.database(app: one, url: "https://foo1.example.com/") === first)
    #expect(Database.database(app: one, url: "https://foo2.example.com") !== first)
    #expect(Database.database(app: two, url: "https://foo1.example.com") !== first)
    #expect(Database.database(app: one) !== first)
    #expect(first.reference().database === first.reference(withPath: "foo").database)
    #expect(await one.delete())
    #expect(FirebaseApp.app(name: "ported-1") == nil)
    let again = try app("ported-1")
    #expect(Database.database(app: again, url: "https://foo1.example.com") !== first)
    await again.delete()
    await two.delete()
  }

  // MARK: Settings

  @Test(.ported("FIRDatabaseTests.testCallbackQueue"), arguments: WireKind.allCases)
  func `callbacks run on the queue of the database`(_ kind: WireKind) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let queue = DispatchQueue(label: "own")
      let key = DispatchSpecificKey<Int>()
      queue.setSpecific(key: key, value: 7)
      database.callbackQueue = queue
      #expect(database.callbackQueue === queue)
      let values = Received<Int?>()
      database.reference(withPath: "a").observeSingleEvent(
        of: .value, with: { _ in values.add(DispatchQueue.getSpecific(key: key)) })
      #expect(await values.wait(for: 1) == [7])
    }
  }

  @Test(
    .ported(
      "FIRDatabaseTests.testPersistenceCacheSizeBytes", "FIRDatabaseTests.testPersistenceEnabled"),
    arguments: WireKind.allCases)
  func `the cache has a size between bounds, and absent data are kept too`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let folder = try TemporaryFolder()
      let database = try backend.anonymousClient { $0.persistenceFolder = folder.file("data") }
      let mebibyte: UInt = 1024 * 1024
      for allowed in [1, 100, 2] {
        database.persistenceCacheSizeBytes = UInt(allowed) * mebibyte
        #expect(database.persistenceCacheSizeBytes == UInt(allowed) * mebibyte)
      }
      for refused in [0, 1, mebibyte - 1, 100 * mebibyte + 1] {
        database.persistenceCacheSizeBytes = refused
        #expect(database.persistenceCacheSizeBytes == 2 * mebibyte)
      }
      database.isPersistenceEnabled = true
      #expect(database.isPersistenceEnabled)
      database.persistenceCacheSizeBytes = 3 * mebibyte
      #expect(database.persistenceCacheSizeBytes == 2 * mebibyte)
      try await Auth.auth(database: database).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      let place = database.reference(withPath: "t")
      #expect(try await !place.first().exists())
      database.goOffline()
      #expect(try await !place.first().exists())
    }
  }

  // MARK: Purging

  @Test(
    .ported(
      "FIRDatabaseTests.testPurgeWritesAreCanceledInOrder",
      "FIRDatabaseTests.testPurgeWritesPurgesAllWrites"),
    arguments: WireKind.allCases)
  func `purged writes are cancelled in order, and are not restored after a restart`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let folder = try TemporaryFolder()
      let database = try backend.anonymousClient { $0.persistenceFolder = folder.file("first") }
      database.isPersistenceEnabled = true
      database.goOffline()
      let (place, ends) = (database.reference(withPath: "t"), Received<String>())
      for number in 1...4 {
        place.childByAutoId().setValue("test-value-\(number)") { error, _ in
          ends.add("\(number) \(error.map { ($0 as NSError).code } ?? 0)")
        }
      }
      database.purgeOutstandingWrites()
      #expect(await ends.wait(for: 4) == ["1 3", "2 3", "3 3", "4 3"])
      await database.recorded()
      try FileManager.default.copyItem(
        atPath: folder.file("first"), toPath: folder.file("second"))
      let second = try backend.anonymousClient { $0.persistenceFolder = folder.file("second") }
      second.isPersistenceEnabled = true
      try await Auth.auth(database: second).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      #expect(try await !second.reference(withPath: "t").getData().exists())
      #expect(backend.root.isAbsent)
    }
  }

  @Test(.ported("FIRDatabaseTests.testPurgeWritesReraisesEvents"), arguments: WireKind.allCases)
  func `observers are back at the server's data before purged writes report their end`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let place = database.reference(withPath: "t")
      try await place.setValue(["foo": "foo-value", "bar": ["qux": "qux-value"]])
      let log = EventLog()
      for path in ["foo", "bar/quu", "bar/qux"] {
        place.child(path).observe(.value, with: { log.add("\(path) \($0.text)") })
      }
      await log.wait(for: 3)
      database.goOffline()
      place.child("foo").setValue("new-foo-value") { _, _ in log.add("end foo-1") }
      place.child("bar").updateChildValues(["quu": "quu-value", "qux": "new-qux-value"]) { _, _ in
        log.add("end bar")
      }
      place.child("foo").setValue("newest-foo-value") { _, _ in log.add("end foo-2") }
      database.purgeOutstandingWrites()
      let all = await log.wait(for: 13)
      func values(_ path: String) -> [String] {
        all.filter { $0.hasBytePrefix(path + " ") }.map { String($0.split(separator: " ")[1]) }
      }
      #expect(values("foo") == ["foo-value", "new-foo-value", "newest-foo-value", "foo-value"])
      #expect(values("bar/quu") == ["nothing", "quu-value", "nothing"])
      #expect(values("bar/qux") == ["qux-value", "new-qux-value", "qux-value"])
      #expect(all.suffix(3) == ["end foo-1", "end bar", "end foo-2"])
      database.goOnline()
      await place.waitUntilQuiet()
      #expect(log.values.count == 13)
    }
  }

  @Test(
    .ported("FIRDatabaseTests.testPurgeWritesCancelsTransactions"), arguments: WireKind.allCases)
  func `purged transactions are undone, then report their ends, the last one first`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      let (place, log) = (database.reference(withPath: "t"), EventLog())
      place.observe(.value, with: { log.add("value \($0.text)") })
      await log.wait(for: 1)
      database.goOffline()
      for number in 1...2 {
        place.runTransactionBlock(
          { data in
            data.value = "\(number)"
            return .success(withValue: data)
          },
          andCompletionBlock: { error, _, _ in
            log.add("end \(number) \(error.map { ($0 as NSError).code } ?? 0)")
          })
      }
      await log.wait(for: 3)
      database.purgeOutstandingWrites()
      #expect(
        await log.wait(for: 6) == [
          "value nothing", "value 1", "value 2", "value nothing", "end 2 3", "end 1 3",
        ])
    }
  }
}
