import Synchronization

/// A claim whose outcome is not known: thrown by a `Claim` that may have made the profile.
public struct UncertainClaim: Error {
  /// The error to tell the caller.
  public let reason: any Error

  /// An error.
  public init(_ reason: any Error) {
    self.reason = reason
  }
}

extension AccountService {
  /// Makes what belongs to an account elsewhere, such as a profile with its user name; throws if
  /// it cannot be had.
  public typealias Claim = @Sendable (_ uid: String) async throws -> Void

  /// A new account and its first session.
  ///
  /// The profile lives elsewhere, in another store, so no one transaction makes both. The account
  /// is inserted as pending, which holds the e-mail address; then `claim` makes the profile; then
  /// the account becomes a full one. If `claim` throws, the account is removed again. A crash in
  /// between leaves a pending account, which ``recoverPending(isClaimed:)`` resolves, and so does an
  /// ``UncertainClaim``.
  ///
  /// One hash, also if the address turns out to be taken.
  ///
  /// - Parameters:
  ///   - email: the address, unique among accounts in its normalised form.
  ///   - password: see ``PasswordRejection`` for what it must not be.
  ///   - username: opaque here; whether it is well formed is for the caller, whether it is free
  ///     for `claim`.
  ///   - remote: the network that the request comes from, to limit sign-ups.
  ///   - claim: makes the profile of the uid. May be called for a uid whose account is then not
  ///     activated, if the server stops in between.
  /// - Throws: ``AccountError/invalidEmail``, ``AccountError/invalidPassword(_:)``,
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)``, ``AccountError/overloaded``,
  ///   ``AccountError/taken``; what `claim` throws.
  public func signUp(
    email: String,
    password: String,
    username: String,
    from remote: RemoteNetwork,
    claim: Claim
  ) async throws -> Session {
    let candidate = try candidate(email: email, password: password, username: username)
    let now = environment.now()
    if let wait = signUpThrottle.withLock({ $0.admit(remote, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
    let account = try await register(candidate, from: remote, claim: claim)
    // Nil if it was disabled or given another password within this moment.
    guard let session = try await issueSession(for: account) else {
      throw AccountError.credentialsRefused
    }
    return session
  }

  /// Resolves the sign-ups that a crash cut in two: each pending account is activated if
  /// its profile was made, and removed if not.
  ///
  /// To be run at start, before any sign-up: it cannot tell one that is under way. O(pending).
  ///
  /// - Parameter isClaimed: whether the profile of a uid is there.
  public func recoverPending(
    isClaimed: @Sendable (_ uid: String) async throws -> Bool
  ) async throws {
    var after: String?
    while true {
      let pending = try await store.pendingAccounts(after: after, limit: 100)
      for account in pending {
        if try await isClaimed(account.uid) {
          _ = try await store.activate(uid: account.uid)
        } else {
          _ = try await store.deletePending(uid: account.uid)
        }
      }
      guard let last = pending.last else { return }
      after = last.uid
    }
  }

  /// A sign-up whose form is right.
  struct Candidate: Sendable {
    let email: EmailAddress
    let password: NormalizedPassword
    let username: String
  }

  /// The sign-up, if the address and the password are acceptable. Costs no hash.
  func candidate(email: String, password: String, username: String) throws -> Candidate {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    let password = try PasswordPolicy.accepted(password, email: email, username: username)
    return Candidate(email: email, password: password, username: username)
  }

  /// Makes the account in two phases; see ``signUp(email:password:username:from:claim:)``.
  func register(
    _ candidate: Candidate, from remote: RemoteNetwork, claim: Claim
  ) async throws -> Account {
    // Before the store is asked, so that a taken address takes as long as a free one.
    let hash = try await hash(candidate.password, for: remote)
    var account = Account(
      uid: AccountIdentifier.make(random: environment.random),
      email: candidate.email.given,
      emailNormalized: candidate.email.normalized,
      username: candidate.username,
      passwordHash: hash.encoded,
      createdAt: environment.now(),
      isPending: true
    )
    let uid = account.uid
    guard try await store.insert(account) else { throw AccountError.taken }
    do {
      try await claim(uid)
    } catch let error as UncertainClaim {
      // Were the account removed, nobody could ever have the user name of a profile that was made.
      throw error.reason
    } catch {
      // If this fails as well, the claim's error is still the one to know about, and the next
      // start removes the account.
      _ = try? await uncancelled { [store] in try await store.deletePending(uid: uid) }
      throw error
    }
    // Should this throw, the account stays pending, with its profile: the next start activates it.
    guard try await uncancelled({ [store] in try await store.activate(uid: uid) }) else {
      throw AccountError.taken
    }
    account.isPending = false
    return account
  }
}
