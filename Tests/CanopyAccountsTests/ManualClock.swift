import Synchronization

/// A clock that moves only when it is told to.
final class ManualClock: Sendable {
  private let time: Mutex<Int64>

  init(_ time: Int64 = 1_700_000_000_000) {
    self.time = Mutex(time)
  }

  var now: Int64 { time.withLock { $0 } }

  func advance(_ milliseconds: Int64) {
    time.withLock { $0 += milliseconds }
  }
}
