/// The number of rows of `leaves` and the sum of their checksums. A row that is missing or duplicated changes them.
package struct LeafSums: Equatable, Sendable {
  package var count: Int64 = 0
  package var sum: UInt64 = 0

  /// Creates the sums of no rows, or of some.
  package init(count: Int64 = 0, sum: UInt64 = 0) {
    self.count = count
    self.sum = sum
  }

  /// Adds a row.
  package mutating func add(_ checksum: Checksum) {
    count &+= 1
    sum &+= checksum.value
  }

  /// Subtracts a row.
  package mutating func subtract(_ checksum: Checksum) {
    count &-= 1
    sum &-= checksum.value
  }
}
