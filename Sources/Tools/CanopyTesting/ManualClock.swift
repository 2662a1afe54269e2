internal import Synchronization

/// A clock that moves only when it is told to.
public final class ManualClock: Sendable {
  private let time: Mutex<Int64>

  /// A clock that stands at a time, in milliseconds since 1970.
  public init(_ time: Int64 = 1_700_000_000_000) {
    self.time = Mutex(time)
  }

  /// Milliseconds since 1970.
  public var now: Int64 { time.withLock { $0 } }

  /// Moves the clock; back, if negative.
  public func advance(_ milliseconds: Int64) {
    time.withLock { $0 += milliseconds }
  }
}
