internal import Synchronization

/// A clock that moves only when a test advances it.
public final class ManualClock: Sendable {
  private let time: Mutex<Int64>

  /// Creates a clock with a time in milliseconds since 1970.
  public init(_ time: Int64 = 1_700_000_000_000) {
    self.time = Mutex(time)
  }

  /// The time in milliseconds since 1970.
  public var now: Int64 { time.withLock { $0 } }

  /// Moves the clock forward, or back by a negative number.
  public func advance(_ milliseconds: Int64) {
    time.withLock { $0 += milliseconds }
  }
}
