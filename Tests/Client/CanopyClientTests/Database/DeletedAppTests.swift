import CanopyAccounts
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// The operations of a database whose app is deleted.
@Suite(.timeLimit(.minutes(20))) struct DeletedAppTests {
  /// Creates an app, and runs a body with its database.
  private func withApp(
    _ name: String, url: String, _ body: (FirebaseApp, Database) async throws -> Void
  ) async throws {
    let options = FirebaseOptions(databaseURL: url)
    options.databaseOptions = .unbounded
    FirebaseApp.configure(name: name, options: options)
    let app = try #require(FirebaseApp.app(name: name))
    let database = Database.database(app: app)
    #expect(
      database.repository.options.requestMilliseconds
        == DatabaseOptions.unbounded.requestMilliseconds)
    database.callbackQueue = DispatchQueue(label: "callbacks")
    try await body(app, database)
    await app.delete()
  }

  /// Begins each kind of operation, with `await` and with callbacks.
  ///
  /// - Parameter ends: receives the name of each operation with the code of its error.
  private func beginAll(_ database: Database, _ ends: Received<String>) {
    let place = database.reference(withPath: "a")
    let end: @Sendable (String, (any Error)?) -> Void = { name, error in
      let code = (error as? DatabaseError)?.code.rawValue
      ends.add("\(name) \(code ?? error.map { "\(type(of: $0))" } ?? "ok")")
    }
    func wait(_ name: String, _ body: @escaping @Sendable () async throws -> Void) {
      Task {
        do {
          try await body()
          end(name, nil)
        } catch { end(name, error) }
      }
    }
    wait("write") { try await place.setValue(1) }
    wait("update") { try await place.updateChildValues(["b": 1]) }
    wait("read") { _ = try await place.getData() }
    wait("event") { _ = try await place.observeSingleEventAndPreviousSiblingKey(of: .childRemoved) }
    wait("values") { for try await _ in place.child("c").values {} }
    wait("connection") {
      for try await _ in database.reference(withPath: ".info/connected").values {}
    }
    wait("transaction") { _ = try await place.runTransactionBlock { .success(withValue: $0) } }
    wait("on disconnect") { try await place.onDisconnectSetValue(1) }
    wait("sign-in") { try await Auth.auth(database: database).signInAnonymously() }
    place.setValue(2) { error, _ in end("write back", error) }
    place.getData { error, _ in end("read back", error) }
    place.observe(.childRemoved, with: { _ in }) { end("observer back", $0) }
    place.runTransactionBlock(
      { .success(withValue: $0) },
      andCompletionBlock: { error, _, _ in end("transaction back", error) })
    place.onDisconnectSetValue(2) { error, _ in end("on disconnect back", error) }
  }

  private static let allEnds = [
    "connection appDeleted", "event appDeleted", "observer back appDeleted",
    "on disconnect appDeleted", "on disconnect back appDeleted", "read appDeleted",
    "read back appDeleted", "sign-in AuthError", "transaction appDeleted",
    "transaction back appDeleted", "update appDeleted", "values appDeleted", "write appDeleted",
    "write back appDeleted",
  ]

  @Test(arguments: WireKind.allCases)
  func `operations that wait for a connection fail with the deletion, and later ones at once`(
    _ kind: WireKind
  ) async throws {
    let url = kind == .line ? "canopy://127.0.0.1:1" : "http://127.0.0.1:1"
    try await withApp("deleted-1-\(kind)", url: url) { app, database in
      let ends = Received<String>()
      beginAll(database, ends)
      let count = Self.allEnds.count
      try await eventually { await pendingOperations(of: database) == count }
      #expect(ends.values.isEmpty)
      #expect(await app.delete())
      #expect(await ends.wait(for: count).sorted() == Self.allEnds)
      database.goOnline()
      beginAll(database, ends)
      #expect(await ends.wait(for: 2 * count).suffix(count).sorted() == Self.allEnds)
      #expect(ends.values.count == 2 * count)
      #expect(database.app == nil)
    }
  }

  /// Returns the number of operations that the state knows.
  private func pendingOperations(of database: Database) async -> Int {
    await withCheckedContinuation { done in
      database.repository.use { state in
        done.resume(
          returning: state.writeCompletions.count + state.transactions.count
            + state.waitingGets.count + state.registrations.count + state.infos.count
            + state.disconnectRequests.count + state.sessionRequests.count)
      }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `operations that the server has not answered fail with the deletion`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await withApp("deleted-2-\(kind)", url: backend.url()) { app, database in
        try await Auth.auth(database: database).signIn(
          withAdministratorToken: backend.parts.administratorToken.text)
        backend.parts.journal.gate.hold()
        let ends = Received<String>()
        let place = database.reference(withPath: "a")
        place.setValue(1) { error, _ in ends.add(Self.text(error)) }
        await backend.parts.journal.gate.reached()
        place.parent?.child("b").runTransactionBlock(
          { .success(withValue: $0) },
          andCompletionBlock: { error, _, _ in ends.add(Self.text(error)) })
        let read = Task { try await place.parent?.child("c").getData() }
        try await eventually { await sentRequests(of: database) == 3 }
        await app.delete()
        #expect(await ends.wait(for: 2).allSatisfy { $0.hasPrefix("appDeleted: ") })
        await #expect(throws: DatabaseError.self) { try await read.value }
        backend.parts.journal.gate.open()
      }
    }
  }

  private static func text(_ error: (any Error)?) -> String { error.map { "\($0)" } ?? "ok" }

  private func sentRequests(of database: Database) async -> Int {
    await withCheckedContinuation { done in
      database.repository.use { done.resume(returning: $0.sentRequests.count) }
    }
  }

  @Test func `a deleted app has no database`() async throws {
    try await withApp("deleted-3", url: "canopy://127.0.0.1:1") { app, database in
      #expect(await app.delete())
      #expect(await app.delete() == false)
      let other = Database.database(app: app)
      #expect(other !== database)
      let error = await #expect(throws: DatabaseError.self) {
        try await other.reference(withPath: "a").setValue(1)
      }
      #expect(error?.code == .appDeleted)
    }
  }

  @Test func `pending writes stay recorded, and another database sends them`() async throws {
    try await withBackend { backend in
      let temporaryFolder = try TemporaryFolder()
      let folder = temporaryFolder.file("client")
      func open() throws -> Database {
        let database = try backend.anonymousClient { $0.persistenceFolder = folder }
        database.isPersistenceEnabled = true
        #expect(database.isPersistenceEnabled)
        return database
      }
      let first = try open()
      try await Auth.auth(database: first).signIn(
        withAdministratorToken: backend.parts.administratorToken.text)
      first.goOffline()
      let write = Task { try await first.reference(withPath: "a").setValue("kept") }
      try await eventually { await pendingOperations(of: first) == 1 }
      await first.end(DatabaseError(.appDeleted, "the end"))
      await #expect(throws: DatabaseError(.appDeleted, "the end")) { try await write.value }
      first.isPersistenceEnabled = true
      let second = try open()
      try await second.reference(withPath: "b").setValue("new")
      #expect(try backend.node("a") == "kept")
    }
  }
}
