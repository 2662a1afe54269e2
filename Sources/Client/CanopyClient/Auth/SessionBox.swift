internal import Synchronization

/// The current session, which any thread may read, and its listeners.
final class SessionBox: Sendable {
  private struct State {
    var user: User?
    var token: String?
    var lastListener = 0
    var listeners: [Int: Callback<User?>] = [:]
  }

  private let state = Mutex(State())

  var user: User? { state.withLock { $0.user } }
  var token: String? { state.withLock { $0.token } }

  /// Sets the session.
  ///
  /// - Returns: the calls of all listeners if the user changed.
  func set(_ user: User?, token: String?) -> [ApplicationCall] {
    state.withLock { state in
      let isOther = state.user?.uid != user?.uid
      state.user = user
      state.token = token
      guard isOther else { return [] }
      return state.listeners.sorted { $0.key < $1.key }.map { _, listener in
        ApplicationCall(isolation: listener.isolation) { listener.body(user) }
      }
    }
  }

  /// Adds a listener.
  func add(_ listener: Callback<User?>) -> Int {
    state.withLock { state in
      state.lastListener += 1
      state.listeners[state.lastListener] = listener
      return state.lastListener
    }
  }

  func remove(_ listener: Int) {
    state.withLock { $0.listeners[listener] = nil }
  }
}
