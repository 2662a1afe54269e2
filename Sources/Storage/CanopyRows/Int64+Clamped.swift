extension Int64 {
  /// Returns the difference, or the nearest number that an `Int64` can hold.
  package func minusClamped(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }
}
