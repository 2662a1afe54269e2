/// A token bucket for each key: so many attempts at once, and after that as many per window, spread
/// evenly.
///
///     var limiter = RateLimiter<String>(attemptsMax: 60, windowMilliseconds: 60_000, keysMax: 10_000)
///     limiter.take("192.0.2.1", now: 0)   // nil: let in
///
/// A value-type state machine, driven under a lock. O(1) for each attempt. Memory is bounded by
/// `keysMax`; the least recently seen key is forgotten first, which gives it a full bucket again.
public struct RateLimiter<Key: Hashable & Sendable>: Sendable {
  /// An attempt costs `window` units, and each millisecond gives `attemptsMax` units back: so all
  /// arithmetic is of whole numbers.
  private struct Entry: Sendable {
    var spent: Int64
    var at: Int64
  }

  /// Larger settings mean no limit in practice, and must not overflow.
  private static var settingMax: Int64 { 1_000_000_000 }

  private let attemptsMax: Int64
  private let window: Int64
  private var entries: RecencyTable<Key, Entry>

  /// A limiter with full buckets. Counts and times below one are taken as one, those above a billion
  /// as a billion.
  public init(attemptsMax: Int, windowMilliseconds: Int64, keysMax: Int) {
    self.attemptsMax = min(max(1, Int64(attemptsMax)), Self.settingMax)
    window = min(max(1, windowMilliseconds), Self.settingMax)
    entries = RecencyTable(capacity: keysMax)
  }

  /// Keys remembered.
  var count: Int { entries.count }

  /// Asks for an attempt and counts it if it is let in.
  ///
  /// - Parameters:
  ///   - cost: the number of attempts to count it as. One that costs more than the bucket holds is let in
  ///     all the same, and the next one waits until it is paid for.
  ///   - now: milliseconds since 1970.
  /// - Returns: nil if it may go on, else the milliseconds until one may. Being refused does not
  ///   lengthen the wait.
  public mutating func take(_ key: Key, cost: Int = 1, now: Int64) -> Int64? {
    var spent = spent(by: key, now: now)
    let excess = spent + window - attemptsMax * window
    let isAdmitted = excess <= 0
    if isAdmitted { spent += min(max(1, Int64(cost)), Self.settingMax) * window }
    entries.set(Entry(spent: spent, at: now), for: key)
    return isAdmitted ? nil : (excess + attemptsMax - 1) / attemptsMax
  }

  private func spent(by key: Key, now: Int64) -> Int64 {
    guard let entry = entries[key] else { return 0 }
    // A clock that was set back gives nothing back, and must not add to the wait.
    let elapsed = max(0, now.subtractingSaturated(entry.at))
    let (regained, overflow) = elapsed.multipliedReportingOverflow(by: attemptsMax)
    return overflow ? 0 : max(0, entry.spent - regained)
  }
}
