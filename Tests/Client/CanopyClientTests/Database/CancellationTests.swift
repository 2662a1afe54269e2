import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

/// Tasks that are cancelled while they wait for an operation.
@Suite(.timeLimit(.minutes(20))) struct CancellationTests {
  @Test(arguments: WireKind.allCases)
  func `a cancelled task stops waiting offline, and its writes are made later`(_ kind: WireKind)
    async throws
  {
    try await withBackend(over: kind) { backend in
      let database = try await backend.client()
      database.goOffline()
      let root = database.reference()
      let operations: [@Sendable () async throws -> Void] = [
        { try await root.child("set").setValue(1) },
        { try await root.child("priority").setValue(1, andPriority: 2) },
        { try await root.child("encoded").setValue(from: [1]) },
        { try await root.updateChildValues(["update": 1]) },
        { try await root.child("set").setPriority(3) },
        { try await root.child("removed").removeValue() },
        {
          _ = try await root.child("sum").runTransactionBlock { data in
            data.value = (data.value as? Int ?? 0) + 1
            return .success(withValue: data)
          }
        },
        { try await root.child("set").onDisconnectRemoveValue() },
        { try await root.child("set").cancelDisconnectOperations() },
      ]
      for operation in operations {
        let task = Task { try await operation() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
      }
      let waiting = Task { try await root.child("last").setValue(1) }
      try await eventually {
        await withCheckedContinuation { done in
          database.repository.use { done.resume(returning: $0.writeCompletions.count == 7) }
        }
      }
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      database.goOnline()
      try await root.child("end").setValue(1)
      let tree = #"{"encoded":[1],"end":1,"last":1,"priority":1,"set":1,"sum":1,"update":1}"#
      #expect(backend.root.json() == json(tree).json())
    }
  }

  @Test func `a cancelled task stops waiting for a read`() async throws {
    let database = try Database(url: "canopy://127.0.0.1:1", options: .unbounded)
    let task = Task { try await database.reference(withPath: "a").getData() }
    try await eventually {
      await withCheckedContinuation { done in
        database.repository.use { done.resume(returning: !$0.waitingGets.isEmpty) }
      }
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    database.goOffline()
  }

  @Test(arguments: ["canopy", "http"])
  func `a cancelled task stops waiting for a request about accounts`(_ scheme: String) async throws
  {
    let database = try Database(url: "\(scheme)://127.0.0.1:1", options: .unbounded)
    let auth = Auth.auth(database: database)
    let operations: [@Sendable () async throws -> Void] = [
      { try await auth.signIn(withEmail: "ada@example.org", password: "secret words of ada") },
      { try await auth.createUser(withEmail: "ada@example.org", password: "secret words of ada") },
      { try await auth.signInAnonymously() },
      { try await auth.sendPasswordReset(withEmail: "ada@example.org") },
      { _ = try await auth.verifyPasswordResetCode("code") },
    ]
    for (index, operation) in operations.enumerated() {
      let task = Task { try await operation() }
      try await eventually {
        await withCheckedContinuation { done in
          database.repository.use { done.resume(returning: $0.sessionRequests.count > index) }
        }
      }
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
    database.goOffline()
  }

  @Test func `a result that comes with the cancellation ends the wait once`() async throws {
    for _ in 0..<200 {
      let ends = Received<@Sendable (Result<Int, any Error>) -> Void>()
      let task = Task { try await Waiter<Int>.result { ends.add($0) } }
      await ends.wait(for: 1)
      async let cancellation: Void = task.cancel()
      async let answer: Void = ends.values[0](.success(1))
      _ = await (cancellation, answer)
      switch await task.result {
      case .success(let value): #expect(value == 1)
      case .failure(let error): #expect(error is CancellationError)
      }
      ends.values[0](.success(2))
    }
  }
}

extension DatabaseOptions {
  /// Options with which no request ends by itself.
  static var unbounded: DatabaseOptions {
    var options = DatabaseOptions()
    options.requestMilliseconds = 3_600_000
    return options
  }
}
