import Synchronization

/// Closures that an ``AccountService`` calls after changes, for the connections that hold logins.
public struct AccountObserver: Sendable {
  let changed: @Sendable (_ uid: String) -> Void
  let sessionsEnded: @Sendable (_ uid: String, _ tokens: Set<TokenDigest>) async -> Void

  /// Creates an observer.
  ///
  /// - Parameters:
  ///   - changed: called on any thread after a change of an account, even if the change has failed: the claims of its
  ///     logins may have changed. It must return at once.
  ///   - sessionsEnded: called after a new session has ended the oldest ones of its account. The login waits for it.
  public init(
    changed: @escaping @Sendable (_ uid: String) -> Void,
    sessionsEnded: @escaping @Sendable (_ uid: String, _ tokens: Set<TokenDigest>) async -> Void
  ) {
    self.changed = changed
    self.sessionsEnded = sessionsEnded
  }
}

extension AccountService {
  /// Adds an observer, which stays as long as the service.
  public func add(_ observer: AccountObserver) {
    observers.withLock { $0.append(observer) }
  }

  /// Forgets the state of an account that may have changed, and notifies the observers.
  func noteChange(of uid: String) {
    states.forget(uid)
    for observer in observers.withLock({ $0 }) { observer.changed(uid) }
  }

  /// Notifies the observers of sessions that a new one has ended.
  func noteEnd(of tokens: [TokenDigest], of uid: String) async {
    guard !tokens.isEmpty else { return }
    for observer in observers.withLock({ $0 }) { await observer.sessionsEnded(uid, Set(tokens)) }
  }
}

/// An error for a change of an account that may have been made: the store has failed while it made the change, or a
/// later step has failed.
public struct UncertainChange: Error, CustomStringConvertible {
  /// The account. Its logins may have ended.
  public let uid: String
  /// The error, for the log.
  public let reason: any Error

  /// Creates an error for an account.
  public init(uid: String, reason: any Error) {
    self.uid = uid
    self.reason = reason
  }

  /// One sentence that says what to do.
  public var sentence: String {
    "the server failed, and the change may have been made or not: log in again to find out before you repeat it"
  }

  /// The same for an administrator, who cannot log in to the account.
  public var administratorSentence: String {
    "the server failed, and the change may have been made or not: look at the account with canopy user list or USER "
      + "before you repeat it"
  }

  /// The sentence and the reason.
  public var description: String { "\(sentence) (\(reason))" }
}
