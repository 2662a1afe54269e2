internal import Synchronization

/// The current session, which any thread may read, and its listeners.
final class SessionBox: Sendable {
  private struct Listener {
    var callback: Callback<User?>
    /// Whether it is called whenever the token changes, not only the user.
    var isForToken: Bool
  }

  private struct State {
    var user: User?
    var token: String?
    var lastListener = 0
    var listeners: [Int: Listener] = [:]
  }

  private let state = Mutex(State())

  var user: User? { state.withLock { $0.user } }
  var token: String? { state.withLock { $0.token } }

  /// Sets the session.
  ///
  /// - Returns: the calls of the listeners that the change concerns.
  func set(_ user: User?, token: String?) -> [ApplicationCall] {
    state.withLock { state in
      let isOther = state.user?.uid != user?.uid
      let isOtherToken = isOther || state.token != token
      state.user = user
      state.token = token
      guard isOtherToken else { return [] }
      return state.listeners.sorted { $0.key < $1.key }.compactMap { _, listener in
        guard isOther || listener.isForToken else { return nil }
        let callback = listener.callback
        return ApplicationCall(isolation: callback.isolation) { callback.body(user) }
      }
    }
  }

  /// Returns the calls of the token listeners for a new identity token of the same session.
  func tokenChanged() -> [ApplicationCall] {
    state.withLock { state in
      let user = state.user
      return state.listeners.sorted { $0.key < $1.key }.compactMap { _, listener in
        guard listener.isForToken else { return nil }
        let callback = listener.callback
        return ApplicationCall(isolation: callback.isolation) { callback.body(user) }
      }
    }
  }

  /// Adds a listener.
  ///
  /// - Parameter forToken: whether to call it whenever the token changes, not only the user.
  func add(_ callback: Callback<User?>, forToken: Bool = false) -> Int {
    state.withLock { state in
      state.lastListener += 1
      state.listeners[state.lastListener] = Listener(callback: callback, isForToken: forToken)
      return state.lastListener
    }
  }

  func remove(_ listener: Int) {
    state.withLock { $0.listeners[listener] = nil }
  }
}
