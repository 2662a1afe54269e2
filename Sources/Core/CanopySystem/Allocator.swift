#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The memory allocator of the process.
public enum Allocator {
  /// The bytes from which on an allocation has pages of its own, which return to the system when it is freed.
  private static let ownPagesMin: Int32 = 512 * 1024
  /// The free bytes at the end of a heap from which on they return to the system.
  private static let freeBytesMax: Int32 = 1024 * 1024
  /// The names of these parameters for `mallopt`, as `malloc.h` has them.
  private static let (trimThreshold, mmapThreshold) = (Int32(-1), Int32(-3))

  /// Bounds the free memory that the allocator keeps, from now on.
  ///
  /// By default, glibc raises both thresholds to up to 64 MiB as soon as a large buffer is freed, and then keeps the
  /// memory of all large buffers. Has no effect on a system whose library lacks these thresholds.
  public static func boundFreeMemory() {
    typealias SetParameter = @convention(c) (Int32, Int32) -> Int32
    guard let symbol = dlsym(nil, "mallopt") else { return }
    let setParameter = unsafeBitCast(symbol, to: SetParameter.self)
    _ = setParameter(mmapThreshold, ownPagesMin)
    _ = setParameter(trimThreshold, freeBytesMax)
  }

  /// Returns free memory to the system, also pages between others that are in use. Takes some milliseconds for each 100
  /// MiB. Has no effect on a system whose library does not offer it.
  public static func returnFreeMemory() {
    typealias Trim = @convention(c) (Int) -> Int32
    guard let symbol = dlsym(nil, "malloc_trim") else { return }
    _ = unsafeBitCast(symbol, to: Trim.self)(0)
  }
}
