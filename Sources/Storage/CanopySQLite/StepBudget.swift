/// The bound of one background step, which holds the writer: rows, bytes and time, whichever ends first.
///
/// A step may exceed it by one row, however large that is.
struct StepBudget {
  /// The bounds of a step.
  struct Limits: Sendable {
    var rows: Int
    var bytes: Int
    var seconds: Double
    /// Seconds since some moment, never going back.
    var uptime: @Sendable () -> Double
  }

  /// The bytes of one row and of one look-up that are not in its value.
  private static let rowBytes = 64

  private var isBegun = false
  private var rows: Int
  private var bytes: Int
  private let end: Double
  private let uptime: @Sendable () -> Double

  /// Creates the budget of a step that begins now.
  init(_ limits: Limits) {
    rows = max(1, limits.rows)
    bytes = max(1, limits.bytes)
    uptime = limits.uptime
    end = uptime() + limits.seconds
  }

  /// Whether the step is to end. It has done something then, so that a row of steps comes to an end.
  var isSpent: Bool { isBegun && (rows <= 0 || bytes <= 0 || uptime() >= end) }

  /// Counts work that was done.
  mutating func spend(rows: Int = 1, bytes: Int = 0) {
    isBegun = true
    self.rows -= rows
    self.bytes -= bytes + rows * StepBudget.rowBytes
  }
}
