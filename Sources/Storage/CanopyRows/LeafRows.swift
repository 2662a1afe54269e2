package import CanopyTree

/// The rows of a checkpoint that a transaction reads and changes: one for each leaf and each small branch.
///
/// No row is at or below another. A branch that is spread over rows has its priority in a row of its own.
package protocol LeafRows {
  /// Receives the locations that a fold writes next, in order, so that a store can read their rows together.
  mutating func prepare(_ locations: ArraySlice<Location>) throws
  /// Inserts a row. Returns its size in bytes. Precondition: no row exists at the location.
  mutating func insert(_ location: Location, _ node: Node) throws -> Int
  /// Inserts or replaces the row at a location, or removes it if the node is absent. Returns the size of the new row in
  /// bytes.
  mutating func put(_ location: Location, _ node: Node) throws -> Int
  /// Whether a row exists at a location.
  mutating func contains(_ location: Location) throws -> Bool
  /// Returns the value of the row at a path; absent if there is no row.
  mutating func node(_ path: Path) throws -> Node
  /// Returns the location of the first row at or after a text in the order of their bytes; nil if there is none.
  mutating func firstRow(from text: String) throws -> [UInt8]?
  /// Whether no row exists below a path.
  mutating func isEmpty(_ rows: RowsBelow) throws -> Bool
  /// Removes rows in order until the budget is spent. Returns whether all rows are removed.
  mutating func clear(_ rows: RowsBelow, _ budget: inout StepBudget) throws -> Bool
}

extension LeafRows {
  /// Reads nothing ahead.
  package mutating func prepare(_ locations: ArraySlice<Location>) throws {}

  /// Removes the row at a location, if there is one.
  package mutating func remove(_ location: Location) throws {
    _ = try put(location, .absent)
  }
}

/// The rows below a path: those whose location begins with `path/`. In the order of the texts they come before
/// `path0`, because `0` is the character after `/`.
package struct RowsBelow: Sendable {
  /// The least text of a location, inclusive.
  package let from: String
  /// The bound of the texts, exclusive; nil for the root, whose rows have no bound.
  package let to: String?

  /// Creates the range of the rows below a path.
  package init(_ path: Path) {
    from = path.isRoot ? "" : path.text + "/"
    to = path.isRoot ? nil : path.text + "0"
  }
}

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
