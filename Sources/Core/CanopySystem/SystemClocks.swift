#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A clock that costs a few nanoseconds to read.
public enum RoughTime {
  /// Returns the nanoseconds since a moment in the past, exact to about ten milliseconds. They never go back.
  public static func now() -> Int64 {
    var time = timespec()
    guard clock_gettime(CLOCK_MONOTONIC_COARSE, &time) == 0 else { return 0 }
    return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
  }
}

/// The processor time of threads.
public enum ThreadTime {
  /// Returns the processor time of the calling thread. It does not grow while the thread waits for
  /// a processor, so it measures the same work alike on an idle and on a busy machine.
  public static func used() -> Duration {
    var time = timespec()
    guard clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 else { return .zero }
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
}
