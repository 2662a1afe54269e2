/// The limits and durations of the module, with their defaults.
///
/// A count below one is treated as one.
public struct AccountSettings: Sendable, Equatable {
  /// The cost of a new password hash. A hash with other parameters is replaced at the user's next login.
  public var hashParameters = HashParameters.standard

  /// The lifetime of a session token, in milliseconds: 30 days.
  public var tokenLifetimeMilliseconds: Int64 = 30 * 24 * 60 * 60 * 1_000
  /// The time for which an expired token stays in the store, in milliseconds: 30 days. It is refused from its end on. But
  /// if the clock was only ahead, it is valid again when the clock is right.
  public var expiredTokenMilliseconds: Int64 = 30 * 24 * 60 * 60 * 1_000

  /// The number of consecutive wrong passwords for one e-mail address from one network, or in one session, after which
  /// the next attempt must wait.
  public var loginFailuresMax = 5
  /// The number of consecutive wrong passwords for one e-mail address from all networks together after which the next
  /// attempt must wait, except from networks from which the account has logged in lately.
  public var addressFailuresMax = 100
  /// The first wait, in milliseconds. Each further failure doubles it.
  public var loginDelayMillisecondsFirst: Int64 = 1_000
  /// The longest wait, in milliseconds: an hour.
  public var loginDelayMillisecondsMax: Int64 = 60 * 60 * 1_000
  /// The maximum number of e-mail addresses, of networks for each of them and of sessions whose failures are remembered,
  /// all together, and of accounts whose changes are. Beyond it, the least recently used one is forgotten.
  public var loginAddressesMax = 100_000
  /// The maximum number of accounts of which the networks of their logins are remembered. Beyond it, the least recently
  /// used one is forgotten.
  public var knownAccountsMax = 50_000
  /// The maximum number of networks that are remembered for one account. Beyond it, that of the earliest login is
  /// forgotten.
  public var knownNetworksMax = 8
  /// The time for which the network of a login is remembered, in milliseconds: 30 days.
  public var knownNetworkMilliseconds: Int64 = 30 * 24 * 60 * 60 * 1_000

  /// The maximum number of logins from one remote network at once, and the number per window after that. This machine
  /// is exempt. A change of the password counts as two. One account has as many logins for its changes, from all networks
  /// together.
  public var loginsMax = 60
  /// The length of the window, in milliseconds: a minute.
  public var loginWindowMilliseconds: Int64 = 60 * 1_000

  /// The maximum number of sign-ups from one remote network within the window. This machine is exempt.
  public var signUpsMax = 60
  /// The length of the window, in milliseconds: a minute.
  public var signUpWindowMilliseconds: Int64 = 60 * 1_000
  /// The maximum number of changes and custom logins of one account at once, and the number per window after that.
  public var changesMax = 60
  /// The maximum number of changes from one remote network at once, and the number per window after that. This machine
  /// is exempt.
  public var networkChangesMax = 600
  /// The length of the window of changes, in milliseconds: a minute.
  public var changeWindowMilliseconds: Int64 = 60 * 1_000

  /// The maximum number of sessions of one account. A new one ends the oldest.
  public var sessionsPerAccountMax = 100

  /// The maximum number of remote networks that are remembered for logins, for changes and for sign-ups. Beyond it, the
  /// least recently seen one is forgotten.
  public var remoteNetworksMax = 10_000

  /// The maximum number of tokens that one ``AccountService/purgeExpiredTokens()`` removes.
  public var purgeBatchMax = 1_000

  /// The lifetime of a code of an e-mail, in milliseconds: an hour.
  public var codeLifetimeMilliseconds: Int64 = 60 * 60 * 1_000
  /// The maximum number of valid codes of one account for each purpose. While it has as many, no further one is made. So
  /// requests of strangers do not end the codes that the user has.
  public var codesPerAccountMax = 5
  /// The maximum number of requests of one remote network for codes for one e-mail address at once, and the number per
  /// window after that. This machine is exempt.
  public var codesMax = 10
  /// The length of the window, in milliseconds: an hour.
  public var codeWindowMilliseconds: Int64 = 60 * 60 * 1_000

  /// The maximum number of accounts whose state is in memory for the check of identity tokens. The state of another
  /// account is read from the store.
  public var accountStatesMax = 100_000

  /// Creates the default settings.
  public init() {}
}
