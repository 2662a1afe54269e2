/// A limit on guessing passwords. After a number of consecutive failures for a key, the next attempt must wait. Each
/// further failure doubles the wait.
///
/// Logins are counted by e-mail address, and changes of a password by session. So failures of strangers do not prevent
/// the user from changing the password in a session, and a stolen session permits only as many guesses as a login.
///
/// It is a value-type state machine under a lock. It knows e-mail addresses and not accounts, so its behaviour does not
/// reveal whether an account exists. An attempt is reserved *before* its password is hashed, and counts as a failure until
/// it has succeeded. Otherwise fifty guesses at once would all be admitted before the first one fails.
///
///     idle ─ reserve ─▶ in flight ─ succeeded ─▶ count reset
///                           ├────── failed ────▶ one more failure, perhaps a wait
///                           └────── released ──▶ the previous state (nothing was hashed)
///
/// Each operation is O(1). The number of keys is bounded; the least recently used key is forgotten first. Each
/// remembered key has cost its sender a hash.
///
/// Caveat: only success or eviction resets the count. So an attacker who keeps guessing can keep an address waiting, up to
/// an hour for each guess. Any limit on guesses has this effect.
struct LoginThrottle: Sendable {
  /// The account or the session for which passwords are tried.
  enum Key: Hashable, Sendable {
    /// Logins, by the bytes of the normalized e-mail address. Texts with other bytes may be equal.
    case address([UInt8])
    /// Changes of the password, by the digest of the session's token.
    case session(TokenDigest)

    /// Returns the key of logins to a normalized e-mail address.
    static func email(_ address: String) -> Key { .address(Array(address.utf8)) }

    /// The key as bytes, which differ for an address and a session.
    var bytes: [UInt8] {
      switch self {
      case .address(let address): [0] + address
      case .session(let digest): [1] + digest.bytes
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

  private let waits: LoginWaits
  private var entries: RecencyTable<Key, Entry>

  init(settings: AccountSettings) {
    waits = settings.loginWaits
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

  /// Forgets a key, for example because the account has a new password.
  mutating func forget(_ key: Key) {
    entries.remove(key)
  }

  private mutating func keep(_ entry: Entry, for key: Key) {
    if entry.failures == 0, entry.inFlight == 0 {
      entries.remove(key)
    } else {
      entries.set(entry, for: key)
    }
  }
}
