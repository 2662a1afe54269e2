// CanopyAccounts owns identity: who has which e-mail address, whether a password is theirs, and
// which token stands for it. It must not know the tree, sockets, SQL, posts or profiles: storage
// comes in as an `AccountStore`, and a profile is made by a closure that sign-up is given.

import Synchronization

/// Accounts, logins and session tokens.
///
///     let service = AccountService(store: store, hasher: PasswordHasher())
///     let session = try await service.logIn(
///       email: "ada@example.org", password: password, from: RemoteNetwork("192.0.2.1"))
///     let same = try await service.authenticate(session.token)
///
/// Safe to use from any task. Every check of a password costs one hash, made by the hasher's own
/// threads; `authenticate` costs one SHA-256 and one look-up. What a stranger can ask is limited,
/// and neither the answers nor the time that they take say whether an e-mail address has an
/// account. Every error is an ``AccountError``, a `CancellationError`, or what the store threw.
public final class AccountService: Sendable {
  let store: any AccountStore
  let hasher: PasswordHasher
  let settings: AccountSettings
  let environment: AccountEnvironment
  let loginThrottle: Mutex<LoginThrottle>
  let loginLimiter: Mutex<RateLimiter<RemoteNetwork>>
  let signUpThrottle: Mutex<SignUpThrottle>

  /// Stands in for the hash of an account that does not exist: checking it takes as long. Its tag
  /// is random, and a match would not be believed anyway.
  let decoy: PasswordHash?

  /// A service over a store. Throttles are kept in memory and begin empty.
  ///
  /// - Parameters:
  ///   - store: where accounts last.
  ///   - hasher: bounds the hashing; to be shared if there are several services.
  ///   - settings: every number.
  ///   - environment: the clock and the random source.
  public init(
    store: any AccountStore,
    hasher: PasswordHasher,
    settings: AccountSettings = AccountSettings(),
    environment: AccountEnvironment = .live
  ) {
    self.store = store
    self.hasher = hasher
    self.settings = settings
    self.environment = environment
    self.loginThrottle = Mutex(LoginThrottle(settings: settings))
    self.loginLimiter = Mutex(
      RateLimiter(
        attemptsMax: settings.loginsMax, windowMilliseconds: settings.loginWindowMilliseconds,
        keysMax: settings.remoteNetworksMax))
    self.signUpThrottle = Mutex(SignUpThrottle(settings: settings))
    self.decoy = PasswordHash(
      parameters: settings.hashParameters,
      salt: environment.random(PasswordHash.saltBytes),
      tag: environment.random(PasswordHash.tagBytes)
    )
  }
}

extension AccountService {
  /// The hash of a password that was accepted, with a new salt and the current parameters.
  ///
  /// - Parameter network: the remote network that asks for it.
  func hash(
    _ password: NormalizedPassword, for network: RemoteNetwork
  ) async throws -> PasswordHash {
    try await hasher.hash(
      password.bytes,
      salt: environment.random(PasswordHash.saltBytes),
      parameters: settings.hashParameters,
      for: network
    )
  }

  /// Does a step that must not be left half done because its caller went away: a store may refuse
  /// to work for a cancelled task.
  func uncancelled<Result: Sendable>(
    _ step: @escaping @Sendable () async throws -> Result
  ) async throws -> Result {
    try await Task { try await step() }.value
  }
}
