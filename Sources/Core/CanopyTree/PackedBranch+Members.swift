extension PackedBranch {
  /// The offsets of a member's key, without its quotes, and of its value. The value ends two bytes
  /// before the next key, or one before the end.
  struct MemberOffsets {
    var key: UInt16
    var value: UInt16
  }

  /// The offsets of the members, in order, in memory that may be aligned to two bytes only.
  struct OffsetTable {
    static var stride: Int { 4 }

    private let base: UnsafeMutableRawPointer
    let count: Int

    init(base: UnsafeMutableRawPointer, count: Int) {
      self.base = base
      self.count = count
    }

    subscript(i: Int) -> MemberOffsets {
      @inline(__always) get {
        base.loadUnaligned(fromByteOffset: i * OffsetTable.stride, as: MemberOffsets.self)
      }
      nonmutating set {
        base.storeBytes(of: newValue.key, toByteOffset: i * OffsetTable.stride, as: UInt16.self)
        base.storeBytes(
          of: newValue.value, toByteOffset: i * OffsetTable.stride + 2, as: UInt16.self)
      }
    }
  }

  /// The members of a packed branch.
  struct Members {
    let table: OffsetTable
    let text: UnsafeRawBufferPointer

    var count: Int { table.count }

    /// Returns the key of a member.
    @inline(__always)
    func key(_ i: Int) -> UnsafeRawBufferPointer {
      let offset = table[i]
      return UnsafeRawBufferPointer(rebasing: text[Int(offset.key)..<Int(offset.value) - 2])
    }

    /// Returns the JSON text of a member's value.
    @inline(__always)
    func value(_ i: Int) -> UnsafeRawBufferPointer {
      UnsafeRawBufferPointer(rebasing: text[Int(table[i].value)..<end(i)])
    }

    /// Returns the end offset of a member's value.
    @inline(__always)
    func end(_ i: Int) -> Int {
      i + 1 < count ? Int(table[i + 1].key) - 2 : text.count - 1
    }

    /// Returns the index of the member with a key, or of the first that sorts after it. There are
    /// no integer keys, so the members are in the order of their text.
    ///
    /// - Complexity: O(log members).
    func search(_ key: UnsafeRawBufferPointer) -> (index: Int, isFound: Bool) {
      if count <= 8 {
        // In a small branch, a linear scan for equality is faster than a binary search.
        for i in 0..<count where self.key(i).hasSameBytes(as: key) { return (i, true) }
      }
      let i = partitionPoint(count: count) { TextOrder.compare(self.key($0), key) < 0 }
      return (i, i < count && self.key(i).hasSameBytes(as: key))
    }
  }

  /// An iterator over the members of a packed branch's text.
  struct MemberIterator {
    private let text: UnsafeRawBufferPointer
    private var index = 1

    /// The end of the value of the last member.
    var lastEnd: Int { index - 1 }

    init(_ text: UnsafeRawBufferPointer) {
      self.text = text
    }

    /// Returns the value of a member of an object's text.
    static func value(
      of key: UnsafeRawBufferPointer, in text: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
      var iterator = MemberIterator(text)
      while let offset = iterator.next() {
        let (start, end) = (Int(offset.key), Int(offset.value))
        if UnsafeRawBufferPointer(rebasing: text[start..<end - 2]).hasSameBytes(as: key) {
          return UnsafeRawBufferPointer(rebasing: text[end..<iterator.index - 1])
        }
      }
      return nil
    }

    mutating func next() -> MemberOffsets? {
      // A key follows the opening brace or a comma, and a quote; a brace follows the last value.
      guard index + 1 < text.count else { return nil }
      let key = index + 1
      let value = min(JSONScan.plainPrefix(text, from: key) + 2, text.count)
      index = (JSONScan.valueEnd(text, from: value) ?? text.count) + 1
      return MemberOffsets(
        key: UInt16(truncatingIfNeeded: key), value: UInt16(truncatingIfNeeded: value))
    }
  }

  /// Returns the node of a value's text in a packed branch.
  static func node(_ text: UnsafeRawBufferPointer) -> Node {
    switch text.first {
    case UInt8(ascii: "t"): return true
    case UInt8(ascii: "f"): return false
    case UInt8(ascii: "{"):
      var iterator = MemberIterator(text)
      var count = 0
      while iterator.next() != nil { count += 1 }
      return Node(storage: .packed(PackedBranch(unchecked: text, childCount: count)))
    case UInt8(ascii: "\""):
      let inner = UnsafeRawBufferPointer(rebasing: text.dropFirst().dropLast())
      if JSONScan.plainPrefix(inner, from: 0) == inner.count {
        return Node(String(decoding: inner, as: UTF8.self))
      }
    default:
      if let integer = Decimal.integer(text) { return Node(integer) }
    }
    // Strings with escapes, and fractions.
    var reader = JSONReader(text, limits: .none)
    return (try? reader.readNode().node) ?? .absent
  }
}
