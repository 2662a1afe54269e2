internal import Synchronization

/// A login of the administrator that began with a pass, on all of its connections. It ends when it expires or is revoked.
///
/// Safe to use from any thread.
public final class AdministratorLogin: Sendable {
  private struct State {
    var isRevoked = false
    /// The closures to call when it is revoked, by number.
    var observers: [Int: @Sendable () -> Void] = [:]
    var lastNumber = 0
  }

  /// The digest of its token.
  let digest: TokenDigest
  /// The time, in milliseconds since 1970, at which it expires.
  public let expires: Int64
  private let state = Mutex(State())

  init(_ digest: TokenDigest, expires: Int64) {
    self.digest = digest
    self.expires = expires
  }

  /// Whether the login has neither expired nor been revoked.
  ///
  /// - Parameter now: milliseconds since 1970.
  public func isValid(at now: Int64) -> Bool {
    now < expires && !isRevoked
  }

  /// Whether the login has been revoked.
  public var isRevoked: Bool { state.withLock { $0.isRevoked } }

  /// Calls a closure when the login is revoked, on any thread; at once if it was revoked before.
  ///
  /// - Returns: the number for ``removeObserver(_:)``.
  public func observe(_ body: @escaping @Sendable () -> Void) -> Int {
    let (number, isLate) = state.withLock { state in
      state.lastNumber += 1
      if !state.isRevoked { state.observers[state.lastNumber] = body }
      return (state.lastNumber, state.isRevoked)
    }
    if isLate { body() }
    return number
  }

  /// Removes a closure that ``observe(_:)`` has added.
  public func removeObserver(_ number: Int) {
    state.withLock { $0.observers[number] = nil }
  }

  /// Ends the login, and calls the closures of its observers.
  func revoke() {
    let observers = state.withLock { state in
      state.isRevoked = true
      defer { state.observers = [:] }
      return state.observers.values
    }
    for body in observers { body() }
  }
}
