internal import CanopyRows
internal import CanopyTree
internal import GRDB

/// The removal of the rows of a checkpoint that cannot be used: altered ones, and those that contradict others.
///
/// If the disk has lost the write of a page, the page has older rows with right checksums. Such a row can be above
/// newer ones, as that of a branch that has become several rows since, or below a newer one. The row above is
/// removed, because it is only one. The row of a priority gives way instead. `CommitRepair` then applies the commits
/// again that have the values of these rows.
struct LeafRepair {
  let db: Database

  private struct Leaf {
    /// The text in UTF-8, or other bytes if it was altered.
    var path: [UInt8]
    var checksum: Checksum

    /// Whether a row is below this one.
    ///
    /// - Parameter path: the path of the row. This one's path is a prefix of its text.
    func isAbove(_ path: [UInt8]) -> Bool {
      self.path.isEmpty || path.dropFirst(self.path.count).first == UInt8(ascii: "/")
    }
  }

  /// Removes the rows, and corrects the sums in `meta`. Returns a description of each loss. O(rows).
  ///
  /// - Parameter isTrusted: whether the sums in `meta` are those that were stored.
  func run(_ meta: inout Meta, isTrusted: Bool) throws -> [String] {
    var sums = LeafSums()
    var altered: [[UInt8]] = []
    var contradicting: [[UInt8]] = []
    // The rows whose text is a prefix of that of the present one: see `RowCheck`.
    var before: [Leaf] = []
    let rows = try ByteStatement(db, "SELECT path, value, checksum FROM leaves ORDER BY path")
    while try rows.next() {
      let row = Leaf(
        path: Array(rows.text(0)), checksum: Checksum.leaf(rows.text(0), rows.text(1)))
      guard row.checksum.stored == rows.number(2),
        let location = try? Location(String(decoding: row.path, as: UTF8.self))
      else {
        altered.append(row.path)
        continue
      }
      sums.add(row.checksum)
      while let last = before.last, !row.path.starts(with: last.path) { before.removeLast() }
      let above = before.filter { $0.isAbove(row.path) }
      let removed = location.isPriority ? above.prefix(1).map { _ in row } : above
      for other in removed {
        contradicting.append(other.path)
        sums.subtract(other.checksum)
      }
      guard !location.isPriority else { continue }
      before.removeAll { $0.isAbove(row.path) }
      before.append(row)
    }
    try delete(altered + contradicting)
    let expected = meta.leaves
    meta.leaves = sums
    var notes: [String] = []
    if !altered.isEmpty {
      notes.append("\(altered.count) altered rows of the checkpoint, \(names(of: altered))")
    }
    if !contradicting.isEmpty {
      notes.append(
        "\(contradicting.count) rows of the checkpoint that contradict others, because some are older, "
          + names(of: contradicting))
    }
    guard notes.isEmpty, isTrusted, sums != expected else { return notes }
    return [
      "rows of the checkpoint that are missing or older, unless their sum is an older one: "
        + "\(sums.count) are there, and the sum is that of \(expected.count)"
    ]
  }

  private func delete(_ paths: [[UInt8]]) throws {
    let delete = try ByteStatement(db, "DELETE FROM leaves WHERE path = ?")
    for path in paths {
      try path.withUnsafeBytes {
        try delete.bind($0, at: 1)
        try delete.run()
      }
    }
  }

  private func names(of paths: [[UInt8]]) -> String {
    "among them "
      + paths.prefix(10).map { "/" + String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
  }
}
