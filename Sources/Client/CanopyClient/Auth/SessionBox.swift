internal import CanopyTree
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
    /// The number of the last call about the session.
    var lastCall = 0
    /// The number of the sign-in or sign-out that began the session.
    var session = 0
    var lastListener = 0
    var listeners: [Int: Listener] = [:]

    mutating func set(_ user: User?, token: String?) -> [ApplicationCall] {
      let isOther = self.user?.identity != user?.identity
      let isOtherToken = isOther || self.token != token
      self.user = user
      self.token = token
      guard isOtherToken else { return [] }
      return listeners.sorted { $0.key < $1.key }.compactMap { _, listener in
        guard isOther || listener.isForToken else { return nil }
        let callback = listener.callback
        return ApplicationCall(isolation: callback.isolation) { callback.body(user) }
      }
    }

    func isSame(as mark: SessionMark) -> Bool {
      session == mark.session && user?.identity == mark.user?.identity
    }
  }

  private let state = Mutex(State())

  var user: User? { state.withLock { $0.user } }
  var token: String? { state.withLock { $0.token } }

  /// Sets the session.
  ///
  /// - Returns: the calls of the listeners that the change concerns.
  func set(_ user: User?, token: String?) -> [ApplicationCall] {
    state.withLock { $0.set(user, token: token) }
  }

  /// Sets the session by the reply to a request.
  ///
  /// - Parameter isNew: whether the reply begins a session.
  /// - Returns: the calls of the listeners; nil if the reply is late, so that nothing changes.
  func set(
    _ user: User, token: String?, by mark: SessionMark, isNew: Bool
  ) -> [ApplicationCall]? {
    state.withLock { state in
      if isNew {
        guard state.session < mark.number else { return nil }
        state.session = mark.number
      } else if !state.isSame(as: mark) {
        return nil
      }
      return state.set(user, token: token)
    }
  }

  /// Ends the session, and makes the replies to all earlier calls late.
  ///
  /// - Returns: the calls of the listeners, and whether there was a session.
  func signOut() -> (calls: [ApplicationCall], wasSignedIn: Bool) {
    state.withLock { state in
      state.lastCall += 1
      state.session = state.lastCall
      let wasSignedIn = state.user != nil
      return (state.set(nil, token: nil), wasSignedIn)
    }
  }

  /// Returns the mark of a new call about the session.
  func mark() -> SessionMark {
    state.withLock { state in
      state.lastCall += 1
      return SessionMark(number: state.lastCall, session: state.session, user: state.user)
    }
  }

  /// Whether a later call has begun or ended a session.
  func hasChanged(after mark: SessionMark) -> Bool {
    state.withLock { $0.session > mark.number }
  }

  /// Whether the session is still that of a call.
  func isSame(as mark: SessionMark) -> Bool {
    state.withLock { $0.isSame(as: mark) }
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
