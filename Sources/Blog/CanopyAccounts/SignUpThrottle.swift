/// Limits the sign-ups from one remote network: at most so many in any span of the window's
/// length.
///
/// Keeps the times of the sign-ups that still count, so the limit is exact; a remote network costs
/// at most `signUpsMax` numbers, and the least recently seen is forgotten when there are too many.
/// A value-type state machine, driven under a lock; O(`signUpsMax`) for each sign-up.
struct SignUpThrottle: Sendable {
  private let signUpsMax: Int
  private let window: Int64
  private var times: RecencyTable<RemoteNetwork, [Int64]>

  init(settings: AccountSettings) {
    signUpsMax = max(1, settings.signUpsMax)
    window = max(1, settings.signUpWindowMilliseconds)
    times = RecencyTable(capacity: settings.remoteNetworksMax)
  }

  /// Remote networks remembered.
  var count: Int { times.count }

  /// Asks for a sign-up and counts it if it is let in.
  ///
  /// - Returns: nil if it may go on, else the milliseconds until one may.
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
