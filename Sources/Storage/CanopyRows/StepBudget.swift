/// The bounds of one background step: rows, bytes and time.
///
/// A step ends when it reaches the first of them. It may exceed the bytes and the time by one row, because a row is
/// written as a whole.
package struct StepBudget {
  /// The bounds of a step.
  package struct Limits: Sendable {
    /// The number of rows.
    package var rows: Int
    /// The number of bytes.
    package var bytes: Int
    /// The time in seconds.
    package var seconds: Double
    /// Returns the seconds since some fixed moment. It never goes back.
    package var uptime: @Sendable () -> Double

    /// Creates bounds.
    package init(
      rows: Int, bytes: Int, seconds: Double, uptime: @escaping @Sendable () -> Double
    ) {
      self.rows = rows
      self.bytes = bytes
      self.seconds = seconds
      self.uptime = uptime
    }
  }

  /// The bytes that one row or one look-up costs in addition to the value.
  private static let rowBytes = 64

  private var isBegun = false
  private var rows: Int
  private var bytes: Int
  private let end: Double
  private let uptime: @Sendable () -> Double

  /// Creates the budget of a step that begins now.
  package init(_ limits: Limits) {
    rows = max(1, limits.rows)
    bytes = max(1, limits.bytes)
    uptime = limits.uptime
    end = uptime() + limits.seconds
  }

  /// Whether the step must end. False until the step has done something, so that each step makes progress.
  package var isSpent: Bool { isBegun && (rows <= 0 || bytes <= 0 || uptime() >= end) }

  /// Subtracts completed work.
  package mutating func spend(rows: Int = 1, bytes: Int = 0) {
    isBegun = true
    self.rows -= rows
    self.bytes -= bytes + rows * StepBudget.rowBytes
  }
}
