internal import CanopyTree
internal import Synchronization

/// A function of the application that hears of changes of the session.
final class SessionListener: Sendable {
  let number: Int
  /// Whether it is called whenever the token changes, not only the user.
  let isForToken: Bool
  private let callback: Callback<User?>
  private let isOver = Atomic(false)

  init(_ number: Int, _ callback: Callback<User?>, isForToken: Bool) {
    self.number = number
    self.callback = callback
    self.isForToken = isForToken
  }

  /// Ends the listener: calls on their way are dropped.
  func end() { isOver.store(true, ordering: .releasing) }

  /// Returns a call of the function, which does nothing if the listener has ended by then.
  func call(_ user: User?) -> ApplicationCall {
    ApplicationCall(isolation: callback.isolation) { [self] in
      if !isOver.load(ordering: .acquiring) { callback.body(user) }
    }
  }
}

/// The current session, which any thread may read, and its listeners.
final class SessionBox: Sendable {
  private struct State {
    var user: User?
    var token: String?
    /// The number of the last call about the session.
    var lastCall = 0
    /// The number of the sign-in or sign-out that began the session.
    var session = 0
    var lastListener = 0
    var listeners: [Int: SessionListener] = [:]

    mutating func set(_ user: User?, token: String?) -> [ApplicationCall] {
      let isOther = self.user?.identity != user?.identity
      let isOtherToken = isOther || self.token != token
      self.user = user
      self.token = token
      guard isOtherToken else { return [] }
      return listeners.sorted { $0.key < $1.key }.compactMap { _, listener in
        isOther || listener.isForToken ? listener.call(user) : nil
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
        listener.isForToken ? listener.call(user) : nil
      }
    }
  }

  /// Adds a listener.
  ///
  /// - Parameter forToken: whether to call it whenever the token changes, not only the user.
  func add(_ callback: Callback<User?>, forToken: Bool = false) -> SessionListener {
    state.withLock { state in
      state.lastListener += 1
      let listener = SessionListener(state.lastListener, callback, isForToken: forToken)
      state.listeners[listener.number] = listener
      return listener
    }
  }

  /// Removes a listener, which is not called any more once this returns.
  func remove(_ number: Int) {
    state.withLock { $0.listeners.removeValue(forKey: number) }?.end()
  }
}
