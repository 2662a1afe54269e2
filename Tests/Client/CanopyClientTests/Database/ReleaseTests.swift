import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Operations of a database that nobody references any more.
@Suite(.timeLimit(.minutes(20))) struct ReleaseTests {
  private static let open = #"{"rules":{".read":true,".write":true}}"#

  /// Calls a function with a database that is released afterwards. Without `async`, so that no operation waits.
  ///
  /// - Returns: whether the repository of the database is still there.
  private func use(
    _ backend: Backend, through port: Int? = nil,
    _ change: (inout DatabaseOptions) -> Void = { _ in }, _ body: (Database) -> Void
  ) throws -> @Sendable () -> Bool {
    let database = try backend.anonymousClient(through: port, change)
    body(database)
    let repository = Weak(database.repository)
    return { repository.object != nil }
  }

  /// A reference that keeps nothing.
  private struct Weak: @unchecked Sendable {
    weak var object: Repository?

    init(_ object: Repository) { self.object = object }
  }

  @Test(arguments: WireKind.allCases)
  func `writes of a released database are made, and then its connection ends`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      try await backend.replaceRules(by: Self.open)
      let isThere = try use(backend) { database in
        let root = database.reference(withPath: "dropped")
        root.child("one").setValue("one")
        root.updateChildValues(["two": 2, "three": 3])
        root.child("two").removeValue()
      }
      let written = json(#"{"one":"one","three":3}"#)
      try await eventually { try backend.node("dropped") == written }
      try await eventually { !isThere() }
    }
  }

  @Test(arguments: WireKind.allCases)
  func `a transaction of a released database is made, with the writes that follow it`(
    _ kind: WireKind
  ) async throws {
    try await withBackend(over: kind) { backend in
      try await backend.replaceRules(by: Self.open)
      let isThere = try use(backend) { database in
        let root = database.reference(withPath: "dropped")
        root.child("sum").runTransactionBlock { data in
          data.value = (data.value as? Int ?? 0) + 1
          return .success(withValue: data)
        }
        root.child("after").setValue(1)
      }
      let written = json(#"{"after":1,"sum":1}"#)
      try await eventually { try backend.node("dropped") == written }
      try await eventually { !isThere() }
    }
  }

  @Test(arguments: WireKind.allCases)
  func
    `an operation for the end of the connection takes effect when the released database closes it`(
      _ kind: WireKind
    ) async throws
  {
    try await withBackend(over: kind) { backend in
      try await backend.replaceRules(by: Self.open)
      let isThere = try use(backend) { database in
        database.reference(withPath: "left").onDisconnectSetValue("gone")
      }
      try await eventually { try backend.node("left") == Node("gone") }
      try await eventually { !isThere() }
    }
  }

  @Test func `a write of a cancelled task whose database goes away is made`() async throws {
    try await withBackend { backend in
      try await backend.replaceRules(by: Self.open)
      let proxy = RewritingProxy(target: backend.port)
      let port = try await proxy.start()
      proxy.hold("")
      let task = Task {
        let database = try backend.anonymousClient(through: port)
        try await database.reference(withPath: "a").setValue(1)
      }
      await proxy.holding.wait(for: 1)
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      try await proxy.release()
      try await eventually { try backend.node("a") == Node(1) }
      try await proxy.stop()
    }
  }

  @Test func `a request about accounts is answered although its database goes away`() async throws {
    try await withBackend { backend in
      let ends = Received<Bool>()
      let isThere = try use(backend) { database in
        Auth.auth(database: database).sendPasswordReset(withEmail: "ada@example.org") { error in
          ends.add(error == nil)
        }
      }
      #expect(await ends.wait(for: 1) == [true])
      try await eventually { !isThere() }
    }
  }

  @Test
  func `a database that is offline is released at once, and the log says that writes are lost`()
    async throws
  {
    try await withBackend { backend in
      let recorder = LineLog()
      let isThere = try use(backend, { $0.logger = recorder.logger }) { database in
        database.goOffline()
        database.reference(withPath: "a").setValue(1)
      }
      try await eventually { !isThere() }
      let line = try #require(recorder.lines.first { $0.contains("was released") })
      #expect(line.contains("\"writes\": 1"))
      // No write is pending, so the log stays empty.
      let other = LineLog()
      let isOtherThere = try use(backend, { $0.logger = other.logger }) { $0.goOnline() }
      try await eventually { !isOtherThere() }
      #expect(other.lines.allSatisfy { !$0.contains("was released") })
    }
  }

  @Test func `a deleted app keeps no database for its pending writes`() async throws {
    FirebaseApp.configure(
      name: "released", options: FirebaseOptions(databaseURL: "canopy://127.0.0.1:1"))
    let app = try #require(FirebaseApp.app(name: "released"))
    let repository = Weak(start(app))
    await app.delete()
    try await eventually { repository.object == nil }
  }

  private func start(_ app: FirebaseApp) -> Repository {
    let database = Database.database(app: app)
    database.reference(withPath: "a").setValue(1)
    return database.repository
  }
}
