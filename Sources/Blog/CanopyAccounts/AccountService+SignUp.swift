import Synchronization

/// An error for a claim with an unknown outcome. A `Claim` throws it if it may have created the profile.
public struct UncertainClaim: Error {
  /// The error that the caller receives.
  public let reason: any Error

  /// Creates an error for an unknown outcome.
  public init(_ reason: any Error) {
    self.reason = reason
  }
}

extension AccountService {
  /// Creates the data of an account in other modules, such as a profile with the user name. Throws if that is
  /// impossible, for example because the name is taken.
  public typealias Claim = @Sendable (_ uid: String) async throws -> Void

  /// Creates an account, and returns its first session.
  ///
  /// The profile is in another store, so one transaction cannot create both. First the account is inserted as pending,
  /// which reserves the e-mail address. Then `claim` creates the profile. Then the account is activated. If `claim`
  /// throws, the account is removed. A crash in between, or an ``UncertainClaim``, leaves a pending account, which
  /// ``recoverPending(createdBefore:isClaimed:)`` resolves.
  ///
  /// Costs one hash, even if the address is taken.
  ///
  /// - Parameters:
  ///   - email: the address. Its normalized form must be unique among accounts.
  ///   - password: the password; see ``PasswordRejection`` for the rules.
  ///   - username: the user name, which this method does not check. The caller checks its form, and `claim` whether it
  ///     is free.
  ///   - remote: the network of the caller, for the limit on sign-ups. This machine is exempt.
  ///   - claim: creates the profile of the uid. If the server stops in between, the account may not be activated
  ///     afterwards.
  /// - Throws: ``AccountError/invalidEmail``, ``AccountError/invalidPassword(_:)``,
  ///   ``AccountError/rateLimited(retryAfterMilliseconds:)``, ``AccountError/overloaded``,
  ///   ``AccountError/taken``; the errors of `claim`.
  public func signUp(
    email: String,
    password: String,
    username: String,
    from remote: RemoteNetwork,
    claim: Claim
  ) async throws -> Session {
    let candidate = try candidate(email: email, password: password, username: username)
    try countSignUp(from: remote)
    let account = try await register(candidate, from: remote, claim: claim)
    // Nil if the account was disabled or got another password in this moment.
    guard let session = try await issueSession(for: account) else {
      throw AccountError.credentialsRefused
    }
    return session
  }

  /// Counts a sign-up from a network. Does not count sign-ups from this machine; see `countLogin`.
  ///
  /// - Throws: ``AccountError/rateLimited(retryAfterMilliseconds:)``.
  func countSignUp(from remote: RemoteNetwork) throws {
    guard !remote.isThisMachine else { return }
    let now = environment.now()
    if let wait = signUpThrottle.withLock({ $0.admit(remote, now: now) }) {
      throw AccountError.rateLimited(retryAfterMilliseconds: wait)
    }
  }

  /// Resolves sign-ups that a crash interrupted: activates each pending account whose profile exists, and removes the
  /// others. O(pending).
  ///
  /// Precondition: no sign-up that began before `time` is running, because this cannot distinguish it from an interrupted
  /// one.
  ///
  /// - Parameters:
  ///   - time: the end of the times at which the sign-ups began, in milliseconds since 1970.
  ///   - isClaimed: returns whether the profile of a uid exists.
  public func recoverPending(
    createdBefore time: Int64 = .max,
    isClaimed: @Sendable (_ uid: String) async throws -> Bool
  ) async throws {
    var after: String?
    while true {
      let pending = try await store.pendingAccounts(after: after, limit: 100)
      for account in pending where account.createdAt < time {
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

  /// A sign-up with an acceptable address and password.
  struct Candidate: Sendable {
    let email: EmailAddress
    let password: NormalizedPassword
    let username: String
  }

  /// Checks the address and the password of a sign-up. Costs no hash.
  func candidate(email: String, password: String, username: String) throws -> Candidate {
    guard let email = EmailAddress(email) else { throw AccountError.invalidEmail }
    let password = try PasswordPolicy.accepted(password, email: email, username: username)
    return Candidate(email: email, password: password, username: username)
  }

  /// Creates the account in two phases; see ``signUp(email:password:username:from:claim:)``.
  func register(
    _ candidate: Candidate, from remote: RemoteNetwork, claim: Claim
  ) async throws -> Account {
    // Hashed before the look-up, so that a taken address costs the same time as a free one.
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
      // The account stays: without it, the user name of a created profile would be taken forever.
      throw error.reason
    } catch {
      // If this fails as well, the next start removes the account. The error of the claim is more important.
      _ = try? await uncancelled { [store] in try await store.deletePending(uid: uid) }
      throw error
    }
    // If this throws, the account stays pending with its profile, and the next start activates it.
    guard try await uncancelled({ [store] in try await store.activate(uid: uid) }) else {
      throw AccountError.taken
    }
    account.isPending = false
    return account
  }
}
