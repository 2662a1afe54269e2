internal import CanopyTree
internal import Foundation
internal import GRDB

/// Checks the rows of the checkpoint one by one, in the order of their locations' text.
///
/// No row may be at or below another. Text puts other rows between a row and what is below it (`a`,
/// `a!`, `a/b`), so the rows before whose text the present one begins with are kept.
struct RowCheck {
  private(set) var problems: [String] = []
  private var before: [[UInt8]] = []

  /// Goes through all rows. O(rows).
  static func problems(_ db: Database) throws -> [String] {
    var check = RowCheck()
    var sums = LeafSums()
    let rows = try ByteStatement(db, "SELECT path, value, checksum FROM leaves ORDER BY path")
    defer { rows.end() }
    while try rows.next() {
      let (path, value) = (rows.text(0), rows.text(1))
      sums.add(Checksum(stored: rows.number(2)))
      // The rest is read for the sums alone.
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
      problems.append("a row of the checkpoint has a location that is none: /\(text)")
      return
    }
    checkOverlap(Array(text.utf8), location)
    do {
      var limits = Limits()
      limits.stringBytesMax = .max
      // As a write, so that a priority is held to be what one may be.
      let value = try WriteValue(json: json, limits: limits)
      _ = try Write.set(location, value)
      if value.node.isAbsent || !value.serverValues.isEmpty {
        problems.append("the row /\(text) of the checkpoint holds nothing")
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
        "two rows of the checkpoint stand at and below one place: "
          + "/\(String(decoding: above, as: UTF8.self)) and /\(location.text)")
    }
    // The priority of a branch stands below it, and nothing below the priority.
    if !location.isPriority { before.append(text) }
  }
}
