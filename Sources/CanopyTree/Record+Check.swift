extension Record {
  /// A record of JSON text, if it is exactly what a record's text is; nil if it is not, which may be for no
  /// more than a space. O(bytes), and nothing is allocated but the record (and, for text beyond ASCII, what
  /// validating it takes).
  ///
  /// Most of a checkpoint's rows are such text. To copy them is a fraction of what reading them is.
  init?(json text: UnsafeRawBufferPointer) {
    guard text.count <= Record.bytesMax else { return nil }
    let record = withUnsafeTemporaryAllocation(of: Place.self, capacity: Record.childrenMax) {
      places -> Record? in
      var check = Check(text, places)
      guard let count = check.object(depth: 0), check.index == text.count else { return nil }
      return Record(childCount: count, byteCount: text.count) { table, copy in
        for i in 0..<count { table[i] = places[i] }
        copy.copyMemory(from: text)
      }
    }
    guard let record else { return nil }
    self = record
  }

  /// Whether text is exactly what a record's text is, at a depth below the value that it is part of. False
  /// may be for no more than an escape that is rare. O(bytes).
  static func isText(_ text: UnsafeRawBufferPointer, depth: Int) -> Bool {
    guard text.count <= Record.bytesMax else { return false }
    return withUnsafeTemporaryAllocation(of: Place.self, capacity: Record.childrenMax) { places in
      var check = Check(text, places, depth: depth)
      return check.object(depth: depth) != nil && check.index == text.count
    }
  }

  /// Goes through text that may be anything.
  private struct Check {
    private let text: UnsafeRawBufferPointer
    /// Where the members of the outermost object are found to stand; room for as many as there can be.
    private let places: UnsafeMutableBufferPointer<Place>
    private(set) var index = 0
    /// The depth of the outermost object.
    private let depthOfObject: Int

    init(
      _ text: UnsafeRawBufferPointer, _ places: UnsafeMutableBufferPointer<Place>, depth: Int = 0
    ) {
      self.text = text
      self.places = places
      depthOfObject = depth
    }

    private var next: UInt8? { index < text.count ? text[index] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
      guard next == byte else { return false }
      index += 1
      return true
    }

    /// Goes past an object and returns the number of its children; nil if it is no record.
    mutating func object(depth: Int) -> Int? {
      guard depth < Limits.depthMax, take(UInt8(ascii: "{")) else { return nil }
      var count = 0
      var last: Key?
      repeat {
        let start = index + 1
        guard let key = key(), take(UInt8(ascii: ":")) else { return nil }
        if let last, !(last < key) { return nil }
        last = key
        if depth == depthOfObject {
          guard count < places.count else { return nil }
          places.initializeElement(
            at: count,
            to: Place(
              key: UInt16(truncatingIfNeeded: start), value: UInt16(truncatingIfNeeded: index)))
        }
        guard value(under: key, depth: depth) else { return nil }
        count += 1
      } while take(UInt8(ascii: ","))
      return take(UInt8(ascii: "}")) ? count : nil
    }

    private mutating func key() -> Key? {
      guard take(UInt8(ascii: "\"")) else { return nil }
      let start = index
      index = JSONScan.plainPrefix(text, from: start)
      let bytes = UnsafeRawBufferPointer(rebasing: text[start..<index])
      guard take(UInt8(ascii: "\"")), isUnicode(bytes), let key = try? Key(utf8: bytes),
        key.integer == nil
      else { return nil }
      return key
    }

    private mutating func value(under key: Key, depth: Int) -> Bool {
      switch next {
      case UInt8(ascii: "\""): return string()
      case UInt8(ascii: "t"): return literal("true")
      case UInt8(ascii: "f"): return literal("false")
      case UInt8(ascii: "{"):
        if case .push = key.form { return false }
        return object(depth: depth + 1) != nil
      default: return integer()
      }
    }

    private mutating func literal(_ literal: StaticString) -> Bool {
      let end = index + literal.utf8CodeUnitCount
      guard end <= text.count else { return false }
      let bytes = UnsafeRawBufferPointer(rebasing: text[index..<end])
      index = end
      return bytes.hasSameBytes(
        as: UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// An integer as `Decimal` writes it. Fractions are left to the reader.
    private mutating func integer() -> Bool {
      let start = index
      while let byte = next, byte != UInt8(ascii: ","), byte != UInt8(ascii: "}") { index += 1 }
      return Decimal.integer(UnsafeRawBufferPointer(rebasing: text[start..<index])) != nil
    }

    /// A string with the escapes that `JSONOutput` writes, and no others.
    private mutating func string() -> Bool {
      index += 1
      let start = index
      while true {
        index = JSONScan.plainPrefix(text, from: index)
        switch next {
        case UInt8(ascii: "\""):
          let bytes = UnsafeRawBufferPointer(rebasing: text[start..<index])
          index += 1
          return isUnicode(bytes)
        case UInt8(ascii: "\\"):
          index += 1
          guard escape() else { return false }
        default:
          return false
        }
      }
    }

    private mutating func escape() -> Bool {
      switch next {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "n"), UInt8(ascii: "r"),
        UInt8(ascii: "t"):
        index += 1
        return true
      default:
        // Those of other control characters are rare, and left to the reader.
        return false
      }
    }

    private func isUnicode(_ bytes: UnsafeRawBufferPointer) -> Bool {
      JSONScan.isASCII(bytes) || String(validating: bytes, as: UTF8.self) != nil
    }
  }
}
