/// An amount of time that was used lately. It halves in each second.
///
/// All amounts halve alike, so two of them compare in the same way at any later moment, and a heap can hold them. The
/// amount of a moment is stored as if it had been used at second 0: `significand × 2^exponent` nanoseconds.
struct UsedTime: Comparable {
  /// 0, or in `1..<2`.
  private let significand: Double
  private let exponent: Int

  /// No time.
  static let zero = UsedTime(nanoseconds: 0, at: 0)

  /// Creates the amount of a duration that is used in a second of the clock; a negative one counts as none.
  init(_ duration: Duration, at second: Int) {
    let (seconds, attoseconds) = duration.components
    self.init(nanoseconds: Double(seconds) * 1e9 + Double(attoseconds) / 1e9, at: second)
  }

  private init(nanoseconds: Double, at second: Int) {
    guard nanoseconds > 0, nanoseconds.isFinite else {
      (significand, exponent) = (0, 0)
      return
    }
    significand = nanoseconds.significand
    exponent = Int(nanoseconds.exponent) &+ second
  }

  /// Returns the nanoseconds that are left in a second of the clock.
  func nanoseconds(at second: Int) -> Double {
    // A double holds no powers of 2 beyond these.
    let power = min(max(exponent &- second, -1_100), 1_000)
    return Double(sign: .plus, exponent: power, significand: significand)
  }

  /// Returns the amount after a duration was used in a second of the clock.
  func adding(_ duration: Duration, at second: Int) -> UsedTime {
    let more = UsedTime(duration, at: second).nanoseconds(at: second)
    return UsedTime(nanoseconds: nanoseconds(at: second) + more, at: second)
  }

  static func < (left: UsedTime, right: UsedTime) -> Bool {
    if left.significand == 0 || right.significand == 0 {
      return left.significand < right.significand
    }
    return (left.exponent, left.significand) < (right.exponent, right.significand)
  }
}
