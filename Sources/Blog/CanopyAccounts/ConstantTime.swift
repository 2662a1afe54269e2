/// Comparison of secrets.
enum ConstantTime {
  /// Whether both are the same bytes, in a time that depends on their lengths only: a comparison
  /// that stops at the first difference tells a patient stranger how much of a guess was right.
  static func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for (one, other) in zip(left, right) { difference |= one ^ other }
    return difference == 0
  }
}
