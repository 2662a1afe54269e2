/// A limit on guessing passwords. After a number of consecutive failures for a key, the next attempt must wait. Each
/// further failure doubles the wait.
///
/// Logins are counted by e-mail address and network, and with a larger bound by e-mail address alone. So one stranger who
/// guesses all the time does not keep the user waiting on another network. Many strangers do, but not on a network from
/// which the user has logged in lately: see ``KnownNetworks``. Changes of a password are counted by session. So failures
/// of strangers do not prevent the user from changing the password in a session, and a stolen session permits only as
/// many guesses as a login.
///
/// It is a value-type state machine under a lock. It knows e-mail addresses and not accounts, so its behaviour does not
/// reveal whether an account exists. An attempt is reserved *before* its password is hashed, and counts as a failure until
/// it has succeeded. Otherwise fifty guesses at once would all be admitted before the first one fails.
///
///     idle ─ reserve ─▶ in flight ─ succeeded ─▶ count reset
///                           ├────── failed ────▶ one more failure, perhaps a wait
///                           └────── released ──▶ the previous state (nothing was hashed)
///
/// Each operation but ``forgetLogins(to:)`` is O(1). The number of keys is bounded; the least recently used key is
/// forgotten first. Each remembered key has cost its sender a hash.
///
/// Caveat: only success or eviction resets the count. So an attacker with many networks can keep an address waiting on new
/// networks, up to an hour for each guess. Any limit on guesses has this effect.
struct LoginThrottle: Sendable {
  /// The account or the session for which passwords are tried.
  enum Key: Hashable, Sendable {
    /// Logins from all networks, by the bytes of the normalized e-mail address. Texts with other bytes may be equal.
    case address([UInt8])
    /// Logins from one network.
    case login([UInt8], from: RemoteNetwork)
    /// Changes of the password, by the digest of the session's token.
    case session(TokenDigest)

    /// The key as bytes, which differ for each two keys.
    var bytes: [UInt8] {
      switch self {
      case .address(let address): [0] + address
      case .login(let address, let network): Key.prefix(ofLoginsTo: address) + network.bytes
      case .session(let digest): [1] + digest.bytes
      }
    }

    /// Returns the bytes with which the keys of logins to an address from one network begin. UTF-8 does not have the
    /// byte 255.
    static func prefix(ofLoginsTo address: [UInt8]) -> [UInt8] { [2] + address + [255] }

    /// Whether the key is that of logins to an address, from one network or from all.
    fileprivate func isLogin(to other: [UInt8]) -> Bool {
      switch self {
      case .address(let address), .login(let address, _): address == other
      case .session: false
      }
    }
  }

  private struct Entry: Sendable {
    var failures = 0
    var inFlight = 0
    /// The time at which the wait began.
    var waitSince: Int64 = 0
    /// The duration of the wait.
    var wait: Int64 = 0
  }

  private let settings: AccountSettings
  private var entries: RecencyTable<Key, Entry>

  init(settings: AccountSettings) {
    self.settings = settings
    entries = RecencyTable(capacity: settings.loginAddressesMax)
  }

  /// The number of remembered keys.
  var count: Int { entries.count }

  /// Reserves an attempt. Each admitted attempt must end with ``failed(_:now:)``, ``succeeded(_:)`` or ``released(_:)``.
  ///
  /// - Returns: nil if the attempt is admitted; otherwise the milliseconds to wait. A refusal does not extend the wait.
  mutating func reserve(_ key: Key, now: Int64) -> Int64? {
    var entry = entries[key] ?? Entry()
    // A clock that was set back must not extend the wait.
    if now < entry.waitSince { entry.waitSince = now }
    let left = entry.wait.subtractingSaturated(now.subtractingSaturated(entry.waitSince))
    let assumed = entry.failures + entry.inFlight
    let waits = settings.waits(for: key)
    let isFull = assumed >= waits.failuresMax && entry.inFlight > 0
    guard left <= 0, !isFull else {
      entries.set(entry, for: key)
      return left > 0 ? left : waits.wait(afterFailures: assumed)
    }
    entry.inFlight += 1
    entries.set(entry, for: key)
    return nil
  }

  /// Records that the password was wrong.
  mutating func failed(_ key: Key, now: Int64) {
    var entry = entries[key] ?? Entry()
    entry.inFlight = max(0, entry.inFlight - 1)
    entry.failures += 1
    let waits = settings.waits(for: key)
    if entry.failures >= waits.failuresMax {
      entry.waitSince = now
      entry.wait = waits.wait(afterFailures: entry.failures)
    }
    entries.set(entry, for: key)
  }

  /// Records that the password was right, and resets the count of failures.
  mutating func succeeded(_ key: Key) {
    guard let entry = entries[key] else { return }
    keep(Entry(inFlight: max(0, entry.inFlight - 1)), for: key)
  }

  /// Records that the attempt ended before the password was checked.
  mutating func released(_ key: Key) {
    guard var entry = entries[key] else { return }
    entry.inFlight = max(0, entry.inFlight - 1)
    keep(entry, for: key)
  }

  /// Forgets all logins to an address, because the account has a new password. O(remembered keys).
  mutating func forgetLogins(to address: [UInt8]) {
    entries.removeAll { $0.isLogin(to: address) }
  }

  private mutating func keep(_ entry: Entry, for key: Key) {
    if entry.failures == 0, entry.inFlight == 0 {
      entries.remove(key)
    } else {
      entries.set(entry, for: key)
    }
  }
}

extension AccountSettings {
  /// Returns the waits after failures of a key.
  func waits(for key: LoginThrottle.Key) -> LoginWaits {
    switch key {
    case .address:
      LoginWaits(
        failuresMax: addressFailuresMax, first: loginDelayMillisecondsFirst,
        max: loginDelayMillisecondsMax)
    case .login, .session:
      LoginWaits(
        failuresMax: loginFailuresMax, first: loginDelayMillisecondsFirst,
        max: loginDelayMillisecondsMax)
    }
  }
}
