/// The rows of `client_writes` that are kept when there are more than a start may read.
///
/// Each owner keeps its newest rows. The owners that have the most rows lose their oldest ones, so that a client with
/// many names displaces only its own writes. The server then no longer knows such a client, or such a write of it, after
/// its next start: if the client sends the write again, it is made again.
///
/// - Complexity: O(owners) memory.
package struct ClientWriteBound: Sendable {
  /// The last key of the rows before the next ones: a client and a number.
  package typealias RowKey = (client: String, number: Int64)

  /// An owner of rows.
  package struct Owner: Sendable {
    /// The part of the stored client that names the owner.
    package let name: [UInt8]
    /// The number of its rows.
    package var count = 0
    /// The sequence number of its newest row.
    package var last = Int64.min

    /// Creates an owner.
    package init(name: [UInt8], count: Int = 0, last: Int64 = .min) {
      self.name = name
      self.count = count
      self.last = last
    }
  }

  /// For each owner that has too many rows, the sequence number of its first row that is kept.
  package private(set) var firstKept: [[UInt8]: Int64] = [:]

  /// Whether all rows are kept.
  package var keepsAll: Bool { firstKept.isEmpty }

  /// Keeps all rows.
  package init() {}

  /// Selects the rows to keep.
  ///
  /// - Parameters:
  ///   - owners: all owners of rows.
  ///   - rowsMax: the number of rows to keep, at least 1.
  ///   - sequence: returns the sequence number of an owner's row with a number in the order from the newest; 1 is the
  ///     newest.
  package init(
    _ owners: [Owner], rowsMax: Int, sequence: (_ owner: [UInt8], _ number: Int) throws -> Int64
  ) rethrows {
    let share = ClientWriteBound.share(of: owners.map(\.count), rowsMax: rowsMax)
    var oldest = Int64.min
    if owners.count > rowsMax {
      // There are more owners than rows to keep: the owners that wrote last keep one row each.
      oldest = owners.map(\.last).sorted(by: >)[max(1, rowsMax) - 1]
    }
    for owner in owners {
      if owner.last < oldest {
        firstKept[owner.name] = .max
      } else if owner.count > share {
        firstKept[owner.name] = try sequence(owner.name, share)
      }
    }
  }

  /// Whether a row is one too many.
  package func excludes(_ owner: some Collection<UInt8>, _ sequence: Int64) -> Bool {
    guard !keepsAll, let first = firstKept[Array(owner)] else { return false }
    return sequence < first
  }

  /// Returns the largest number of rows that each owner may keep so that all have at most `rowsMax`; at least 1.
  package static func share(of counts: [Int], rowsMax: Int) -> Int {
    var left = rowsMax
    for (index, count) in counts.sorted().enumerated() {
      let share = left / (counts.count - index)
      guard count <= share else { return max(1, share) }
      left -= count
    }
    return .max
  }

  /// Returns the part of a stored client that names the owner: `owner/`, or the whole name in rows of earlier versions.
  package static func owner(of client: UnsafeRawBufferPointer) -> Slice<UnsafeRawBufferPointer> {
    client.firstIndex(of: UInt8(ascii: "/")).map { client[...$0] } ?? client[...]
  }

  /// Returns the first text after all clients of an owner.
  ///
  /// Names have only letters, digits, - and _, which sort after ! and, in a prefix with a slash, before the next
  /// owner, whose prefix sorts after a slash.
  package static func end(of owner: [UInt8]) -> [UInt8] {
    let hasSlash = owner.last == UInt8(ascii: "/")
    return hasSlash ? owner.dropLast() + [UInt8(ascii: "0")] : owner + [UInt8(ascii: "!")]
  }
}
