extension Record {
  /// Where a member stands in the text: its key without the quotes, and its value. The value ends two bytes
  /// before the next key, or one before the end.
  struct Place {
    var key: UInt16
    var value: UInt16
  }

  /// The places of the members, in order, in memory that is not aligned to more than two bytes.
  struct Table {
    static var stride: Int { 4 }

    private let base: UnsafeMutableRawPointer
    let count: Int

    init(base: UnsafeMutableRawPointer, count: Int) {
      self.base = base
      self.count = count
    }

    subscript(i: Int) -> Place {
      @inline(__always) get { base.loadUnaligned(fromByteOffset: i * Table.stride, as: Place.self) }
      nonmutating set {
        base.storeBytes(of: newValue.key, toByteOffset: i * Table.stride, as: UInt16.self)
        base.storeBytes(of: newValue.value, toByteOffset: i * Table.stride + 2, as: UInt16.self)
      }
    }
  }

  /// The members of a record.
  struct Members {
    let table: Table
    let text: UnsafeRawBufferPointer

    var count: Int { table.count }

    /// The key of a member.
    @inline(__always)
    func key(_ i: Int) -> UnsafeRawBufferPointer {
      let place = table[i]
      return UnsafeRawBufferPointer(rebasing: text[Int(place.key)..<Int(place.value) - 2])
    }

    /// The JSON text of a member's value.
    @inline(__always)
    func value(_ i: Int) -> UnsafeRawBufferPointer {
      UnsafeRawBufferPointer(rebasing: text[Int(table[i].value)..<end(i)])
    }

    /// Where a member's value ends.
    @inline(__always)
    func end(_ i: Int) -> Int {
      i + 1 < count ? Int(table[i + 1].key) - 2 : text.count - 1
    }

    /// The member with a key, or the first that sorts after it. There are no integer keys among them, so
    /// they are in the order of their text. O(log members).
    func search(_ key: UnsafeRawBufferPointer) -> (index: Int, isFound: Bool) {
      if count <= 8 {
        // The order takes longer to find out than that two are the same.
        for i in 0..<count where self.key(i).hasSameBytes(as: key) { return (i, true) }
      }
      let i = partitionPoint(count: count) { TextOrder.compare(self.key($0), key) < 0 }
      return (i, i < count && self.key(i).hasSameBytes(as: key))
    }
  }

  /// Finds the members of a record's text.
  struct Scan {
    private let text: UnsafeRawBufferPointer
    private var index = 1

    init(_ text: UnsafeRawBufferPointer) {
      self.text = text
    }

    /// The value of a member of an object's text.
    static func value(
      of key: UnsafeRawBufferPointer, in text: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
      var scan = Scan(text)
      while let place = scan.next() {
        let (start, end) = (Int(place.key), Int(place.value))
        if UnsafeRawBufferPointer(rebasing: text[start..<end - 2]).hasSameBytes(as: key) {
          return UnsafeRawBufferPointer(rebasing: text[end..<scan.index - 1])
        }
      }
      return nil
    }

    mutating func next() -> Place? {
      // Before a key are the opening brace or a comma, and a quote; after the last value a brace.
      guard index + 1 < text.count else { return nil }
      let key = index + 1
      let value = min(JSONScan.plainPrefix(text, from: key) + 2, text.count)
      index = end(from: value) + 1
      return Place(key: UInt16(truncatingIfNeeded: key), value: UInt16(truncatingIfNeeded: value))
    }

    /// Where the value ends that begins at an index.
    private func end(from start: Int) -> Int {
      var i = start
      var depth = 0
      while i < text.count {
        switch text[i] {
        case UInt8(ascii: "\""):
          i = Scan.stringEnd(in: text, from: i)
          if depth == 0 { return i }
        case UInt8(ascii: "{"):
          depth += 1
          i += 1
        case UInt8(ascii: "}"):
          if depth == 0 { return i }
          depth -= 1
          i += 1
          if depth == 0 { return i }
        case UInt8(ascii: ",") where depth == 0:
          return i
        default:
          i += 1
        }
      }
      return text.count
    }

    /// Where the string ends whose opening quote is at an index.
    static func stringEnd(in text: UnsafeRawBufferPointer, from start: Int) -> Int {
      var i = JSONScan.plainPrefix(text, from: start + 1)
      while i < text.count, text[i] != UInt8(ascii: "\"") {
        // A backslash; of `\u001f` the digits are plain.
        i = JSONScan.plainPrefix(text, from: min(i + 2, text.count))
      }
      return min(i + 1, text.count)
    }
  }

  /// The node whose text, as a record has it, this is.
  static func node(_ text: UnsafeRawBufferPointer) -> Node {
    switch text.first {
    case UInt8(ascii: "t"): return true
    case UInt8(ascii: "f"): return false
    case UInt8(ascii: "{"):
      var scan = Scan(text)
      var count = 0
      while scan.next() != nil { count += 1 }
      return Node(storage: .record(Record(unchecked: text, childCount: count)))
    case UInt8(ascii: "\""):
      let inner = UnsafeRawBufferPointer(rebasing: text.dropFirst().dropLast())
      if JSONScan.plainPrefix(inner, from: 0) == inner.count {
        return Node(String(decoding: inner, as: UTF8.self))
      }
    default:
      if let integer = Decimal.integer(text) { return Node(integer) }
    }
    // Escapes and fractions.
    var reader = JSONReader(text, limits: .none)
    return (try? reader.readNode().node) ?? .absent
  }
}
