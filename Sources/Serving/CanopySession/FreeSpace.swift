internal import CanopyWire
internal import Synchronization

/// The free space of the disk with the data, as it was measured last. Below a bound the server makes no writes, so that
/// the database does not fail for lack of space in the middle of its work.
///
/// Reads and subscriptions go on, and so do removals by the administrator, on-disconnect writes that were set before, and
/// the server's own work. These use the space below the bound. Writes are accepted again when an eighth more than the bound
/// is free.
///
/// Safe to use from any thread. A check costs one atomic load.
public final class FreeSpace: Sendable {
  /// The wait that an error names, in milliseconds.
  static let wait: Int64 = 5_000

  /// The bound in bytes.
  public let bytesMin: Int64
  private let measured = Atomic<Int64>(-1)
  private let low = Atomic(false)
  private let refusedCount = Atomic(0)

  /// Creates a measurement without a value. Until there is one, the space is not low.
  public init(bytesMin: Int = 0) {
    self.bytesMin = Int64(clamping: max(0, bytesMin))
  }

  /// The last measured value in bytes; nil if there is none.
  public var bytes: Int64? {
    let value = measured.load(ordering: .relaxed)
    return value < 0 ? nil : value
  }

  /// Whether writes are refused.
  public var isLow: Bool { low.load(ordering: .relaxed) }

  /// The number of writes that were refused.
  public var refused: Int { refusedCount.load(ordering: .relaxed) }

  /// Notes a measured value. One caller at a time.
  ///
  /// - Returns: whether writes are refused from now on or accepted again; nil if nothing has changed.
  @discardableResult
  public func note(_ bytes: Int64) -> Bool? {
    measured.store(max(0, bytes), ordering: .relaxed)
    let wasLow = isLow
    let (more, overflow) = bytesMin.addingReportingOverflow(bytesMin / 8)
    let bound = wasLow ? (overflow ? .max : more) : bytesMin
    let isLow = bytes < bound
    guard isLow != wasLow else { return nil }
    low.store(isLow, ordering: .relaxed)
    return isLow
  }

  /// Returns the error of a write that is refused, and counts it.
  func refuse() -> WireError {
    refusedCount.add(1, ordering: .relaxed)
    return WireError(
      .unavailable, retryMilliseconds: FreeSpace.wait,
      "the disk of the server is almost full, so the write was not made; reads go on, try again later, or tell "
        + "the administrator to free space")
  }
}
