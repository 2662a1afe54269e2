// CanopyAccounts owns identities: e-mail addresses, passwords and session tokens. It must not know the tree, sockets,
// SQL, posts or profiles. The storage is an `AccountStore`, and a closure that the caller passes to the sign-up creates
// the profile.

import Synchronization

/// Accounts, logins and session tokens.
///
///     let service = AccountService(store: store, hasher: PasswordHasher())
///     let session = try await service.logIn(
///       email: "ada@example.org", password: password, from: RemoteNetwork("192.0.2.1"))
///     let same = try await service.authenticate(session.token)
///
/// Safe to use from any task. Each check of a password costs one hash on the hasher's threads. `authenticate` costs one
/// SHA-256 and one look-up. The requests of strangers are limited. Neither replies nor response times reveal whether an
/// e-mail address has an account. Each error is an ``AccountError``, a `CancellationError` or an error of the store.
public final class AccountService: Sendable {
  let store: any AccountStore
  let hasher: PasswordHasher
  let settings: AccountSettings
  let environment: AccountEnvironment
  /// The failures of logins, if ``AccountStore/loginAttempts`` does not count them.
  let loginThrottle: Mutex<LoginThrottle>
  let knownNetworks: Mutex<KnownNetworks>
  let loginLimiter: Mutex<RateLimiter<RemoteNetwork>>
  /// The limit of password changes, by the bytes of the account's uid. Texts with other bytes may be equal.
  let changeLimiter: Mutex<RateLimiter<[UInt8]>>
  /// The limit of all changes, by the bytes of their kind and of the account's uid.
  let updateLimiter: Mutex<RateLimiter<[UInt8]>>
  /// The limit of all changes, by the network of the caller.
  let networkLimiter: Mutex<RateLimiter<RemoteNetwork>>
  let signUpThrottle: Mutex<SignUpThrottle>
  /// The limit of requests for codes.
  let codeLimiter: Mutex<RateLimiter<CodeRequester>>
  /// The states of accounts, against which identity tokens are checked.
  let states: AccountStates
  let observers = Mutex<[AccountObserver]>([])

  /// A random hash that is checked if the account does not exist, so that the response takes the same time. Its result is
  /// ignored.
  let decoy: PasswordHash?

  /// Creates a service on a store. The throttles are in memory and start empty, except the failures of logins if
  /// ``AccountStore/loginAttempts`` counts them.
  ///
  /// - Parameters:
  ///   - store: the storage of accounts and tokens.
  ///   - hasher: the hasher of passwords. Services of one process should share it.
  ///   - settings: the limits and durations.
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
    self.knownNetworks = Mutex(KnownNetworks(settings: settings))
    self.loginLimiter = Mutex(
      RateLimiter(
        attemptsMax: settings.loginsMax, windowMilliseconds: settings.loginWindowMilliseconds,
        keysMax: settings.remoteNetworksMax))
    self.changeLimiter = Mutex(
      RateLimiter(
        attemptsMax: settings.loginsMax, windowMilliseconds: settings.loginWindowMilliseconds,
        keysMax: settings.loginAddressesMax))
    self.updateLimiter = Mutex(
      RateLimiter(
        attemptsMax: settings.changesMax, windowMilliseconds: settings.changeWindowMilliseconds,
        keysMax: settings.loginAddressesMax))
    self.networkLimiter = Mutex(
      RateLimiter(
        attemptsMax: settings.networkChangesMax,
        windowMilliseconds: settings.changeWindowMilliseconds, keysMax: settings.remoteNetworksMax))
    self.signUpThrottle = Mutex(SignUpThrottle(settings: settings))
    self.codeLimiter = Mutex(
      RateLimiter(
        attemptsMax: settings.codesMax, windowMilliseconds: settings.codeWindowMilliseconds,
        keysMax: settings.loginAddressesMax))
    self.states = AccountStates(capacity: settings.accountStatesMax)
    self.decoy = PasswordHash(
      parameters: settings.hashParameters,
      salt: environment.random(PasswordHash.saltBytes),
      tag: environment.random(PasswordHash.tagBytes)
    )
  }
}

extension AccountService {
  /// Returns the hash of an accepted password, with a new salt and the current parameters.
  ///
  /// - Parameter network: the network of the caller.
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

  /// Runs a step in a task that cancellation does not reach. A store may refuse to work for a cancelled task, which would
  /// leave the operation incomplete.
  func uncancelled<Result: Sendable>(
    _ step: @escaping @Sendable () async throws -> Result
  ) async throws -> Result {
    try await Task { try await step() }.value
  }
}
