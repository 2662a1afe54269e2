import CanopyAccounts
import CanopyClient
import CanopyEngine
import CanopyLineServer
import CanopyTesting
import CanopyTree
import Dispatch
import Foundation
import Logging
import Synchronization
import Testing

/// A server on a socket for client tests, with all external inputs under the test's control.
final class Backend: Sendable {
  let parts: LineParts
  let port: Int

  fileprivate init(_ parts: LineParts, port: Int) {
    self.parts = parts
    self.port = port
  }

  /// The root of the server's tree.
  var root: Node { parts.engine.root }

  /// Returns the node at a path of the server's tree.
  func node(_ path: String) throws -> Node { root.at(try Path(path)) }

  /// Returns a new client that is signed in as the administrator.
  func client(
    _ change: (inout DatabaseOptions) -> Void = { _ in }
  ) async throws -> Database {
    let database = try anonymousClient(change)
    try await Auth.auth(database: database).signIn(
      withAdministratorToken: parts.administratorToken.text)
    return database
  }

  /// Returns a new anonymous client.
  func anonymousClient(
    through port: Int? = nil, _ change: (inout DatabaseOptions) -> Void = { _ in }
  ) throws -> Database {
    var options = DatabaseOptions()
    options.backoff = Backoff(first: 1, max: 50)
    options.logger = Logger(label: "client") { _ in SwiftLogNoOpLogHandler() }
    change(&options)
    let database = try Database(url: "canopy://127.0.0.1:\(port ?? self.port)", options: options)
    database.callbackQueue = DispatchQueue(label: "callbacks")
    return database
  }
}

/// Runs a test's body with a server.
func withBackend(
  limits: Limits = Limits(), _ configure: (inout LineServer.Configuration) -> Void = { _ in },
  _ body: (Backend) async throws -> Void
) async throws {
  try await withLineServer(limits: limits, configure) { try await body(Backend($0, port: $1)) }
}

/// Values from callbacks, in order, for which a test can wait.
final class Received<Value: Sendable>: Sendable {
  private struct State {
    var values: [Value] = []
    var waiting: (isEnough: @Sendable ([Value]) -> Bool, CheckedContinuation<Void, Never>)?
  }

  private let state = Mutex(State())

  var values: [Value] { state.withLock { $0.values } }

  func add(_ value: Value) {
    let ready = state.withLock { state -> CheckedContinuation<Void, Never>? in
      state.values.append(value)
      guard let (isEnough, continuation) = state.waiting, isEnough(state.values) else { return nil }
      state.waiting = nil
      return continuation
    }
    ready?.resume()
  }

  /// Waits until the received values satisfy a condition.
  @discardableResult
  func wait(until isEnough: @escaping @Sendable ([Value]) -> Bool) async -> [Value] {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        if isEnough(state.values) { return true }
        state.waiting = (isEnough, continuation)
        return false
      }
      if isReady { continuation.resume() }
    }
    return values
  }

  /// Waits for a number of values.
  @discardableResult
  func wait(for count: Int) async -> [Value] {
    await wait { $0.count >= count }
  }
}

/// Returns a node from its JSON; for invalid text, a string with the error.
func json(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}

extension DataSnapshot {
  /// The value as text; `nothing` for absent data.
  var text: String { exists() ? "\(value ?? "nil")" : "nothing" }
}
