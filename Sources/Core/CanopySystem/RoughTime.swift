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
