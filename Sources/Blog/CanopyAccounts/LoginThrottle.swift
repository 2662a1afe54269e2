/// Slows guessing: after so many failures in a row under one key, the next attempt must wait, and
/// twice as long after each further failure.
///
/// Logins are counted by e-mail address, changes of password by session. So the failures of strangers
/// do not stop the owner from changing the password in a live session, and a borrowed session gets
/// the same few guesses.
///
/// A value-type state machine, driven under a lock. It knows e-mail addresses, not accounts, so it
/// behaves the same whether or not an account exists. An attempt is reserved *before* its password is
/// hashed and counts as a failure until it has succeeded: otherwise fifty guesses sent at once
/// would all be let in before the first had failed.
///
///     idle ─ reserve ─▶ in flight ─ succeeded ─▶ forgotten
///                           ├────── failed ────▶ one more failure, perhaps a wait
///                           └────── released ──▶ as if it had not been (nothing was hashed)
///
/// Each operation is O(1). Memory is bounded by the number of keys; the least recently tried key is
/// forgotten first, and each key that is kept cost its sender a hash.
///
/// Caveat: failures are forgotten by success or by eviction only, so somebody who keeps guessing
/// can keep an address waiting, an hour for each guess at worst. That is the price of not letting
/// them guess.
struct LoginThrottle: Sendable {
  /// The account or session whose password is guessed.
  enum Key: Hashable, Sendable {
    /// Logins to an account, by its normalised e-mail address.
    case email(String)
    /// Changes of password in a session, by the digest of its token.
    case session(TokenDigest)
  }

  private struct Entry: Sendable {
    var failures = 0
    var inFlight = 0
    /// The wait began then …
    var waitSince: Int64 = 0
    /// … and lasts so long.
    var wait: Int64 = 0
  }

  private let failuresMax: Int
  private let waitFirst: Int64
  private let waitMax: Int64
  private var entries: RecencyTable<Key, Entry>

  init(settings: AccountSettings) {
    failuresMax = max(1, settings.loginFailuresMax)
    waitFirst = max(1, settings.loginDelayMillisecondsFirst)
    waitMax = max(1, settings.loginDelayMillisecondsMax)
    entries = RecencyTable(capacity: settings.loginAddressesMax)
  }

  /// Keys remembered.
  var count: Int { entries.count }

  /// Asks for an attempt. Each that is let in must end in ``failed(_:now:)``, ``succeeded(_:)`` or
  /// ``released(_:)``.
  ///
  /// - Returns: nil if the attempt may go on, else the milliseconds to wait. Being refused does
  ///   not lengthen the wait.
  mutating func reserve(_ key: Key, now: Int64) -> Int64? {
    var entry = entries[key] ?? Entry()
    // A clock that was set back must not add to the wait.
    if now < entry.waitSince { entry.waitSince = now }
    let left = entry.wait.subtractingSaturated(now.subtractingSaturated(entry.waitSince))
    let assumed = entry.failures + entry.inFlight
    let isFull = assumed >= failuresMax && entry.inFlight > 0
    guard left <= 0, !isFull else {
      entries.set(entry, for: key)
      return left > 0 ? left : wait(afterFailures: assumed)
    }
    entry.inFlight += 1
    entries.set(entry, for: key)
    return nil
  }

  /// The password was wrong.
  mutating func failed(_ key: Key, now: Int64) {
    var entry = entries[key] ?? Entry()
    entry.inFlight = max(0, entry.inFlight - 1)
    entry.failures += 1
    if entry.failures >= failuresMax {
      entry.waitSince = now
      entry.wait = wait(afterFailures: entry.failures)
    }
    entries.set(entry, for: key)
  }

  /// The password was right: the failures before it are forgotten.
  mutating func succeeded(_ key: Key) {
    guard let entry = entries[key] else { return }
    keep(Entry(inFlight: max(0, entry.inFlight - 1)), for: key)
  }

  /// The attempt ended before anything was learnt from it.
  mutating func released(_ key: Key) {
    guard var entry = entries[key] else { return }
    entry.inFlight = max(0, entry.inFlight - 1)
    keep(entry, for: key)
  }

  /// Forgets a key, for instance because the account has a new password.
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

  private func wait(afterFailures failures: Int) -> Int64 {
    let doublings = max(0, failures - failuresMax)
    guard doublings < Int64.bitWidth - 1 else { return waitMax }
    let (wait, overflow) = waitFirst.multipliedReportingOverflow(by: 1 << Int64(doublings))
    return overflow ? waitMax : min(wait, waitMax)
  }
}
