/// How long to wait before each attempt to connect again: longer each time, up to a bound, and by chance
/// between half of that and all of it, so that the clients of a server that comes back do not all come
/// at once.
public struct Backoff: Sendable, Equatable {
  /// Milliseconds before the first attempt after a connection was lost.
  public var first: Int64
  /// The most milliseconds before an attempt.
  public var max: Int64
  private var next: Int64

  /// A series of waits.
  ///
  /// - Parameters:
  ///   - first: milliseconds, from 1 on.
  ///   - max: milliseconds, not below `first`.
  public init(first: Int64 = 200, max: Int64 = 30_000) {
    self.first = Swift.max(1, first)
    self.max = Swift.max(self.first, max)
    next = self.first
  }

  /// The milliseconds before the next attempt; the one after that waits twice as long.
  ///
  /// - Parameter random: a random word.
  public mutating func delay(random: UInt64) -> Int64 {
    // Both bounds can be set to anything.
    let max = Swift.max(1, max)
    let whole = Swift.min(Swift.max(1, next), max)
    next = whole > max / 2 ? max : whole * 2
    let half = whole / 2
    return half + Int64(random % UInt64(whole - half + 1))
  }

  /// Begins anew: a connection was made.
  public mutating func reset() {
    next = first
  }
}
