/// The delays before attempts to reconnect. Each is twice the previous one, up to a bound, minus a
/// random part of up to half, so that the clients of a restarted server do not all reconnect at
/// once.
public struct Backoff: Sendable, Equatable {
  /// The delay before the first attempt after a connection was lost, in milliseconds.
  public var first: Int64
  /// The longest delay, in milliseconds.
  public var max: Int64
  private var next: Int64

  /// Creates a series of delays.
  ///
  /// - Parameters:
  ///   - first: milliseconds, at least 1.
  ///   - max: milliseconds, at least `first`.
  public init(first: Int64 = 200, max: Int64 = 30_000) {
    self.first = Swift.max(1, first)
    self.max = Swift.max(self.first, max)
    next = self.first
  }

  /// Returns the milliseconds before the next attempt, and doubles the delay for the one after it.
  ///
  /// - Parameter random: a random word.
  public mutating func delay(random: UInt64) -> Int64 {
    // Callers can set both bounds to any value.
    let max = Swift.max(1, max)
    let whole = Swift.min(Swift.max(1, next), max)
    next = whole > max / 2 ? max : whole * 2
    let half = whole / 2
    return half + Int64(random % UInt64(whole - half + 1))
  }

  /// Restarts the series after a successful connection.
  public mutating func reset() {
    next = first
  }
}
