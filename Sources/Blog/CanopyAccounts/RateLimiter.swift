/// A limit of attempts for each key, as a token bucket: `attemptsMax` at once, and after that `attemptsMax` in each window,
/// spread evenly.
///
///     var limiter = RateLimiter<RemoteNetwork>(attemptsMax: 60, windowMilliseconds: 60_000, keysMax: 10_000)
///     limiter.take(RemoteNetwork("192.0.2.1"), now: 0)   // nil: admitted
///
/// It is a value-type state machine under a lock. O(1) for each attempt. The number of keys is bounded by `keysMax`. The
/// least recently seen key is forgotten first, which gives it a full bucket again.
public struct RateLimiter<Key: Hashable & Sendable>: Sendable {
  /// The state of a key. An attempt costs `window` units, and each millisecond restores `attemptsMax` units. So all
  /// arithmetic is in integers.
  private struct Entry: Sendable {
    var spent: Int64
    var at: Int64
  }

  /// The maximum of a setting. Larger settings would overflow, and already mean no limit in practice.
  private static var settingMax: Int64 { 1_000_000_000 }

  private let attemptsMax: Int64
  private let window: Int64
  private var entries: RecencyTable<Key, Entry>

  /// Creates a limiter with full buckets. Counts and times are clamped to 1 to 1,000,000,000.
  public init(attemptsMax: Int, windowMilliseconds: Int64, keysMax: Int) {
    self.attemptsMax = min(max(1, Int64(attemptsMax)), Self.settingMax)
    window = min(max(1, windowMilliseconds), Self.settingMax)
    entries = RecencyTable(capacity: keysMax)
  }

  /// The number of remembered keys.
  var count: Int { entries.count }

  /// Requests an attempt, and counts it if it is admitted.
  ///
  /// - Parameters:
  ///   - cost: the number of attempts to count. An attempt with a cost above the size of the bucket is admitted too, and
  ///     the next one waits until the bucket has recovered.
  ///   - now: the time in milliseconds since 1970.
  /// - Returns: nil if the attempt is admitted; otherwise the milliseconds to wait. A refusal does not extend the wait.
  public mutating func take(_ key: Key, cost: Int = 1, now: Int64) -> Int64? {
    var spent = spent(by: key, now: now)
    let wait = wait(after: spent)
    if wait == nil { spent += min(max(1, Int64(cost)), Self.settingMax) * window }
    entries.set(Entry(spent: spent, at: now), for: key)
    return wait
  }

  /// Returns the milliseconds to wait before an attempt, or nil, without counting one. O(1).
  ///
  /// - Parameter now: the time in milliseconds since 1970.
  public func wait(_ key: Key, now: Int64) -> Int64? {
    wait(after: spent(by: key, now: now))
  }

  private func wait(after spent: Int64) -> Int64? {
    let excess = spent + window - attemptsMax * window
    return excess <= 0 ? nil : (excess + attemptsMax - 1) / attemptsMax
  }

  private func spent(by key: Key, now: Int64) -> Int64 {
    guard let entry = entries[key] else { return 0 }
    // A clock that was set back restores nothing, and must not extend the wait.
    let elapsed = max(0, now.subtractingSaturated(entry.at))
    let (regained, overflow) = elapsed.multipliedReportingOverflow(by: attemptsMax)
    return overflow ? 0 : max(0, entry.spent - regained)
  }
}

/// A limit of sign-ups from one remote network: at most `signUpsMax` in any window.
///
/// It remembers the times of the sign-ups within the window, so the limit is exact. A network needs at most `signUpsMax`
/// numbers. If there are too many networks, the least recently seen one is forgotten. It is a value-type state machine
/// under a lock. O(`signUpsMax`) for each sign-up.
struct SignUpThrottle: Sendable {
  private let signUpsMax: Int
  private let window: Int64
  private var times: RecencyTable<RemoteNetwork, [Int64]>

  init(settings: AccountSettings) {
    signUpsMax = max(1, settings.signUpsMax)
    window = max(1, settings.signUpWindowMilliseconds)
    times = RecencyTable(capacity: settings.remoteNetworksMax)
  }

  /// The number of remembered networks.
  var count: Int { times.count }

  /// Requests a sign-up, and counts it if it is admitted.
  ///
  /// - Returns: nil if it is admitted; otherwise the milliseconds to wait.
  mutating func admit(_ remote: RemoteNetwork, now: Int64) -> Int64? {
    // A clock that was set back must not make old sign-ups count for longer than the window.
    var recent = (times[remote] ?? []).map { min($0, now) }
    recent.removeAll { now.subtractingSaturated($0) >= window }
    guard recent.count < signUpsMax else {
      let oldest = recent.first ?? now
      times.set(recent, for: remote)
      return window.subtractingSaturated(now.subtractingSaturated(oldest))
    }
    recent.append(now)
    times.set(recent, for: remote)
    return nil
  }
}

extension Int64 {
  /// Returns the sum, or the nearest bound if it overflows. So an extreme time in the settings means "never", and does not
  /// stop the process.
  func addingSaturated(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    guard overflow else { return sum }
    return other < 0 ? .min : .max
  }

  /// Returns the product, or the nearest bound if it overflows.
  func multipliedSaturated(by other: Int64) -> Int64 {
    let (product, overflow) = multipliedReportingOverflow(by: other)
    guard overflow else { return product }
    return (self < 0) == (other < 0) ? .max : .min
  }

  /// Returns the difference, or the nearest bound if it overflows.
  func subtractingSaturated(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    guard overflow else { return difference }
    return other < 0 ? .max : .min
  }
}
