internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// A check of the rows of the checkpoint, one by one, in the order of their locations as text.
///
/// No row may be at or below another. In this order, other rows can come between a row and a row below it (`a`, `a!`,
/// `a/b`). So the check remembers all earlier rows whose text is a prefix of the present one.
struct RowCheck {
  private(set) var problems: [String] = []
  private var before: [[UInt8]] = []

  /// Returns the problems of all rows. O(rows).
  static func problems(_ db: Database) throws -> [String] {
    var check = RowCheck()
    var sums = LeafSums()
    let rows = try ByteStatement(db, "SELECT path, value, checksum FROM leaves ORDER BY path")
    defer { rows.end() }
    while try rows.next() {
      let (path, value) = (rows.text(0), rows.text(1))
      sums.add(Checksum(stored: rows.number(2)))
      // The other rows are read only for the sums.
      guard check.problems.count < 100 else { continue }
      do throws(StoreError) { try LeafTable.check(path, value, rows.number(2)) } catch {
        check.problems.append(error.sentence)
        continue
      }
      check.check(
        location: String(decoding: path, as: UTF8.self),
        json: String(decoding: value, as: UTF8.self))
    }
    let expected = try Meta.read(db).leaves
    if sums != expected { check.problems.append(StoreError.missingRows(sums, expected).sentence) }
    return check.problems
  }

  private mutating func check(location text: String, json: String) {
    guard let location = try? Location(text), location.text.hasSameBytes(as: text) else {
      problems.append("a row of the checkpoint has an invalid location: /\(text)")
      return
    }
    checkOverlap(Array(text.utf8), location)
    do {
      // Parsed as a write, which also checks that a priority is valid. The limits are for what clients send: the text of a
      // row may be longer than that of the client, because of its escapes.
      let value = try WriteValue(json: json, limits: .none)
      _ = try Write.set(location, value)
      if value.node.isAbsent || !value.serverValues.isEmpty {
        problems.append("the row /\(text) of the checkpoint has no value")
      }
    } catch {
      problems.append("the row /\(text) of the checkpoint cannot be read: \(error.sentence)")
    }
  }

  private mutating func checkOverlap(_ text: [UInt8], _ location: Location) {
    while let last = before.last, !text.starts(with: last) { before.removeLast() }
    for above in before
    where above.isEmpty || text.count == above.count || text[above.count] == UInt8(ascii: "/") {
      problems.append(
        "a row of the checkpoint is at or below another row: "
          + "/\(String(decoding: above, as: UTF8.self)) and /\(location.text)")
    }
    // The priority of a branch is below the branch. No location is below a priority.
    if !location.isPriority { before.append(text) }
  }
}
