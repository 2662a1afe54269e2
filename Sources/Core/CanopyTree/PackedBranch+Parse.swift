extension PackedBranch {
  /// Creates a packed branch from JSON text, if the text is exactly the canonical text of one. A
  /// single additional space makes the result nil.
  ///
  /// Most rows of a checkpoint are such text, and copying it costs a fraction of parsing it.
  ///
  /// - Complexity: O(bytes). Allocates only the packed branch (and, for text beyond ASCII, memory
  ///   to validate it).
  init?(json text: UnsafeRawBufferPointer) {
    guard text.count <= PackedBranch.bytesMax else { return nil }
    let packed = withUnsafeTemporaryAllocation(
      of: MemberOffsets.self, capacity: PackedBranch.childrenMax
    ) {
      offsets -> PackedBranch? in
      var parser = Parser(text, offsets)
      guard let count = parser.object(depth: 0), parser.index == text.count else { return nil }
      return PackedBranch(childCount: count, byteCount: text.count) { table, copy in
        for i in 0..<count { table[i] = offsets[i] }
        copy.copyMemory(from: text)
      }
    }
    guard let packed else { return nil }
    self = packed
  }

  /// Whether the text is exactly the canonical text of a packed branch. May be false for valid text
  /// with a rare escape.
  ///
  /// - Parameter depth: the depth of the branch in the value that it is part of.
  /// - Complexity: O(bytes).
  static func isText(_ text: UnsafeRawBufferPointer, depth: Int) -> Bool {
    guard text.count <= PackedBranch.bytesMax else { return false }
    return withUnsafeTemporaryAllocation(of: MemberOffsets.self, capacity: PackedBranch.childrenMax)
    { offsets in
      var parser = Parser(text, offsets, depth: depth)
      return parser.object(depth: depth) != nil && parser.index == text.count
    }
  }

  /// A parser of untrusted text that accepts only the canonical text of a packed branch.
  private struct Parser {
    private let text: UnsafeRawBufferPointer
    /// Receives the offsets of the members of the outermost object; has room for the largest number
    /// possible.
    private let offsets: UnsafeMutableBufferPointer<MemberOffsets>
    private(set) var index = 0
    /// The depth of the outermost object.
    private let depthOfObject: Int

    init(
      _ text: UnsafeRawBufferPointer, _ offsets: UnsafeMutableBufferPointer<MemberOffsets>,
      depth: Int = 0
    ) {
      self.text = text
      self.offsets = offsets
      depthOfObject = depth
    }

    private var next: UInt8? { index < text.count ? text[index] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
      guard next == byte else { return false }
      index += 1
      return true
    }

    /// Consumes an object and returns the number of its children; nil if it cannot be a packed
    /// branch.
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
          guard count < offsets.count else { return nil }
          offsets.initializeElement(
            at: count,
            to: MemberOffsets(
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
        key.sortingNumber == nil
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

    /// Consumes an integer in the form that `Decimal` writes. Fractions are left to the reader.
    private mutating func integer() -> Bool {
      let start = index
      while let byte = next, byte != UInt8(ascii: ","), byte != UInt8(ascii: "}") { index += 1 }
      return Decimal.integer(UnsafeRawBufferPointer(rebasing: text[start..<index])) != nil
    }

    /// Consumes a string with the escapes that `JSONOutput` writes, and no others.
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
        // Escapes of other control characters are rare, and left to the reader.
        return false
      }
    }

    private func isUnicode(_ bytes: UnsafeRawBufferPointer) -> Bool {
      JSONScan.isASCII(bytes) || String(validating: bytes, as: UTF8.self) != nil
    }
  }
}
