internal import CanopyAccounts

/// Bounds the lines of the log about one thing that any client may cause: 60 at once, and then one a second.
///
/// For example, anyone may arm writes that the rules will refuse, and disconnect. Without a bound each connection adds
/// lines.
struct LogLineLimit: Sendable {
  /// The maximum of lines at once, and in a minute.
  static let linesMax = 60

  private var lines = RateLimiter<Int>(
    attemptsMax: linesMax, windowMilliseconds: 60_000, keysMax: 1)
  private var omitted = 0

  /// Requests a line.
  ///
  /// - Parameter now: the time in milliseconds since 1970.
  /// - Returns: the number of lines omitted since the last one, or nil if this one is to be omitted.
  mutating func take(now: Int64) -> Int? {
    guard lines.take(0, now: now) == nil else {
      omitted += 1
      return nil
    }
    defer { omitted = 0 }
    return omitted
  }
}
