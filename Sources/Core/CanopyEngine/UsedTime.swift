/// An amount of time that was used lately. It halves in each second.
///
/// Moments are ticks of the clock, `ticksPerSecond` in a second. With whole seconds, time that is used at the end of a
/// second would count half as much as time that is used a moment later.
///
/// All amounts halve alike, so two of them compare in the same way at any later moment, and a heap can hold them. The
/// amount of a moment is stored as if it had been used at tick 0: `significand × 2^exponent` nanoseconds.
struct UsedTime: Comparable {
  /// The ticks in which an amount halves.
  static let ticksPerSecond = 64

  /// The powers of 2 for parts of a second: element `n` is 2 to the power of `n / ticksPerSecond`.
  private static let partsOfSecond: [Double] = {
    var factor = 2.0
    for _ in 0..<ticksPerSecond.trailingZeroBitCount { factor.formSquareRoot() }
    var parts = [1.0]
    for _ in 1..<ticksPerSecond { parts.append(parts[parts.count - 1] * factor) }
    return parts
  }()

  /// 0, or in `1..<2`.
  private let significand: Double
  private let exponent: Int

  /// No time.
  static let zero = UsedTime(nanoseconds: 0, at: 0)

  /// Creates the amount of a duration that is used at a tick of the clock. A negative duration counts as zero.
  init(_ duration: Duration, at tick: Int) {
    let (seconds, attoseconds) = duration.components
    self.init(nanoseconds: Double(seconds) * 1e9 + Double(attoseconds) / 1e9, at: tick)
  }

  private init(nanoseconds: Double, at tick: Int) {
    guard nanoseconds > 0, nanoseconds.isFinite else {
      (significand, exponent) = (0, 0)
      return
    }
    let (seconds, part) = Self.split(tick)
    let amount = nanoseconds * part
    significand = amount.significand
    exponent = Int(amount.exponent) &+ seconds
  }

  /// Returns the whole seconds of a tick, and 2 to the power of the rest.
  private static func split(_ tick: Int) -> (seconds: Int, part: Double) {
    // An arithmetic shift rounds down, so the rest is never negative.
    let seconds = tick >> ticksPerSecond.trailingZeroBitCount
    return (seconds, partsOfSecond[tick & (ticksPerSecond - 1)])
  }

  /// Returns the nanoseconds that are left at a tick of the clock.
  func nanoseconds(at tick: Int) -> Double {
    let (seconds, part) = Self.split(tick)
    // A double holds no powers of 2 beyond these.
    let power = min(max(exponent &- seconds, -1_100), 1_000)
    return Double(sign: .plus, exponent: power, significand: significand) / part
  }

  /// Returns the amount after a duration was used at a tick of the clock.
  func adding(_ duration: Duration, at tick: Int) -> UsedTime {
    let more = UsedTime(duration, at: tick).nanoseconds(at: tick)
    return UsedTime(nanoseconds: nanoseconds(at: tick) + more, at: tick)
  }

  static func < (left: UsedTime, right: UsedTime) -> Bool {
    if left.significand == 0 || right.significand == 0 {
      return left.significand < right.significand
    }
    return (left.exponent, left.significand) < (right.exponent, right.significand)
  }
}
