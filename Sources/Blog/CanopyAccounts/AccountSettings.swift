/// Every number of the module that an operator may want to change, with its default.
///
/// Counts below one are taken as one.
public struct AccountSettings: Sendable, Equatable {
  /// What a new password hash costs. A hash made with other parameters is replaced by one with
  /// these at its owner's next login.
  public var hashParameters = HashParameters.standard

  /// How long a session token is valid, in milliseconds: 30 days.
  public var tokenLifetimeMilliseconds: Int64 = 30 * 24 * 60 * 60 * 1_000

  /// Wrong passwords in a row for one e-mail address before the next attempt must wait.
  public var loginFailuresMax = 5
  /// The first wait after that, in milliseconds; each further failure doubles it.
  public var loginDelayMillisecondsFirst: Int64 = 1_000
  /// The longest wait, in milliseconds: an hour.
  public var loginDelayMillisecondsMax: Int64 = 60 * 60 * 1_000
  /// E-mail addresses, and sessions that change their password, whose failures are remembered; past
  /// that the least recently tried is forgotten.
  public var loginAddressesMax = 100_000

  /// Logins from one remote network: so many at once, and after that so many in each window.
  public var loginsMax = 60
  /// The window, in milliseconds: a minute.
  public var loginWindowMilliseconds: Int64 = 60 * 1_000

  /// Sign-ups from one remote network within the window.
  public var signUpsMax = 60
  /// The window, in milliseconds: a minute.
  public var signUpWindowMilliseconds: Int64 = 60 * 1_000
  /// Remote networks remembered, for logins and for sign-ups; past that the least recently seen is
  /// forgotten.
  public var remoteNetworksMax = 10_000

  /// Expired tokens that one ``AccountService/purgeExpiredTokens()`` removes at most.
  public var purgeBatchMax = 1_000

  /// The defaults.
  public init() {}
}
