/// Verification that the text of a commit decodes to the commit.
///
/// Follows the text and the values side by side, with the decoders' reader and rules, and creates
/// no values. That costs a fraction of decoding. True means that decoding gives equal values; false
/// may also mean that the text is not in the codecs' sequence.
extension AssignmentCodec {
  /// Whether `decode` returns these assignments for some bytes.
  ///
  /// - Parameters:
  ///   - assignments: the assignments, ordered by location as `decode` returns them.
  ///   - write: the write that they come from. The texts of its encoded values are only compared.
  /// - Complexity: O(bytes). Each location is compared with few others, whatever the keys and the values are.
  public static func decodes(
    _ bytes: UnsafeRawBufferPointer, as assignments: [Assignment], of write: Write? = nil
  ) -> Bool {
    var reader = JSONReader(bytes, limits: .none)
    return reader.matches(assignments, write?.encodedValues) && reader.peek() == nil
  }

  /// Whether some bytes are the text of a value, with which `decode` gives an equal value. O(bytes)
  static func decodes(_ bytes: UnsafeRawBufferPointer, as node: Node) -> Bool {
    var reader = JSONReader(bytes, limits: .none)
    return reader.matches(node, depth: 0) && reader.peek() == nil
  }
}

extension BeforeImageCodec {
  /// Whether `decode` returns this before-image for some bytes.
  ///
  /// - Complexity: O(bytes).
  public static func decodes(
    _ bytes: UnsafeRawBufferPointer, as image: [Assignment], of assignments: [Assignment]
  ) -> Bool {
    var reader = JSONReader(bytes, limits: .none)
    if reader.skip("{\"of\":") {
      return reader.matches(image) && reader.skip("}") && reader.peek() == nil
    }
    guard image.elementsEqual(assignments, by: { $0.location == $1.location }), reader.skip("[")
    else { return false }
    for (i, assignment) in image.enumerated() {
      guard i == 0 || reader.skip(","), reader.matches(assignment.value, depth: 0) else {
        return false
      }
    }
    return reader.skip("]") && reader.peek() == nil
  }
}

extension JSONReader {
  /// Whether the next text is the encoding of these assignments, in the codec's groups.
  fileprivate mutating func matches(
    _ assignments: [Assignment], _ encoded: EncodedNodes? = nil
  ) -> Bool {
    for i in assignments.indices.dropFirst()
    where !assignments[i - 1].location.precedes(withoutOverlapping: assignments[i].location) {
      return false
    }
    var unread = UnreadIndexes(count: assignments.count)
    // At most `window` groups are open at an assignment, so the codec's text needs no more looks. Other text may need
    // more, and is refused then.
    var looksLeft = (AssignmentCodec.window + 1) * assignments.count
    guard skip("[") else { return false }
    // Groups come in the order of their first assignments, so that is the first unread one.
    while let first = unread.first {
      guard first == 0 || skip(","), skip("[["),
        readLocation(of: assignments, among: &unread, in: first..<first + 1, &looksLeft) != nil
      else { return false }
      let value = assignments[first].value
      var last = first
      while skip(",") {
        let others = last + 1..<assignments.count
        guard let index = readLocation(of: assignments, among: &unread, in: others, &looksLeft)
        else { return false }
        let other = assignments[index].value
        guard other.isIdentical(to: value) || other == value else { return false }
        last = index
      }
      guard skip("],") else { return false }
      let isSame = encoded?.withText(of: value) { skip($0) } ?? matches(value, depth: 0)
      guard isSame, skip("]") else { return false }
    }
    return skip("]")
  }

  /// Reads a location and returns the index of the unread assignment to it.
  ///
  /// The text is decoded once and compared with one assignment after the other. In the codec's text the next location
  /// of a group is near: see `looksLeft`.
  ///
  /// - Parameters:
  ///   - range: the indexes to look at.
  ///   - looksLeft: the number of assignments that decoded text may still be compared with. It is reduced.
  private mutating func readLocation(
    of assignments: [Assignment], among unread: inout UnreadIndexes, in range: Range<Int>,
    _ looksLeft: inout Int
  ) -> Int? {
    guard peek() == UInt8(ascii: "\"") else { return nil }
    // Most locations are among the next and have a text without escapes, which is compared as it stands.
    for index in range.prefix(AssignmentCodec.window)
    where unread.contains(index) && skip(assignments[index].location) {
      unread.remove(index)
      return index
    }
    let found = try? readString { bytes throws(TreeError) -> Int? in
      guard JSONScan.isASCII(bytes) || String(validating: bytes, as: UTF8.self) != nil else {
        return nil
      }
      let pathBytes = Location.pathBytes(ofPriority: bytes)
      for index in range {
        guard looksLeft > 0 else { return nil }
        looksLeft -= 1
        let location = assignments[index].location
        if unread.contains(index), location.isPriority == (pathBytes != nil),
          location.path.isSpelled(by: pathBytes ?? bytes)
        {
          return index
        }
      }
      return nil
    }
    guard let found else { return nil }
    unread.remove(found)
    return found
  }

  /// Consumes the text of a location if it comes next, in ASCII and without escapes. Then it decodes to the location.
  private mutating func skip(_ location: borrowing Location) -> Bool {
    WorkCounter.compareLocation()
    let count = location.path.keys.count
    guard !location.isPriority, count <= Limits.depthMax else { return false }
    return skipText { text in
      var end = 1
      for i in 0..<count {
        if i > 0 {
          guard end < text.count, text[end] == UInt8(ascii: "/") else { return nil }
          end += 1
        }
        guard let length = location.path.keys[i].plainLength(in: text, at: end) else { return nil }
        end += length
      }
      return end < text.count && text[end] == UInt8(ascii: "\"") ? end + 1 : nil
    }
  }

  /// Consumes the text of an integer if it comes next, and no digit or fraction follows it.
  private mutating func skip(_ number: Int64) -> Bool {
    skipText { text in
      withUnsafeTemporaryAllocation(byteCount: Decimal.bytesMax, alignment: 1) { digits in
        let count = Decimal.write(number, into: digits)
        guard count < text.count,
          UnsafeRawBufferPointer(rebasing: text[..<count])
            .hasSameBytes(as: UnsafeRawBufferPointer(rebasing: digits[..<count]))
        else { return nil }
        switch text[count] {
        case UInt8(ascii: ","), UInt8(ascii: "]"), UInt8(ascii: "}"): return count
        default: return nil
        }
      }
    }
  }

  /// Whether the next text is the encoding of a node.
  ///
  /// - Parameter depth: the number of levels above the node in the value that is read.
  fileprivate mutating func matches(_ node: Node, depth: Int) -> Bool {
    switch node.storage {
    case .absent: return skip("null")
    case .bool(true): return skip("true")
    case .bool(false): return skip("false")
    case .integer(let number) where skip(number): return true
    case .integer, .double:
      guard let byte = peek(), byte == UInt8(ascii: "-") || 0x30...0x39 ~= byte else {
        return false
      }
      return (try? readNumber()) == node
    case .string(let text): return matches(text)
    case .packed(let packed): return matches(packed, depth: depth)
    case .branch(let children): return skip("{") && matches(children, isFirst: true, depth: depth)
    case .indexed(let box):
      return skip("{") && matches(box.children, isFirst: true, depth: depth)
    case .prioritized(let box):
      switch box.priority.storage {
      case .integer, .double, .string: break
      default: return false
      }
      if let children = box.node.children {
        return skip("{\".priority\":") && matches(box.priority, depth: depth)
          && matches(children, isFirst: false, depth: depth)
      }
      return skip("{\".value\":") && matches(box.node, depth: depth)
        && skip(",\".priority\":") && matches(box.priority, depth: depth) && skip("}")
    }
  }

  private mutating func matches(_ text: String) -> Bool {
    guard peek() == UInt8(ascii: "\"") else { return false }
    let isSame = try? readString { bytes throws(TreeError) in
      text.withUTF8Bytes { $0.hasSameBytes(as: bytes) }
    }
    return isSame == true
  }

  /// Whether the next text is that of a packed branch, and is the only text for its contents.
  private mutating func matches(_ packed: PackedBranch, depth: Int) -> Bool {
    packed.withText { text in
      if PackedBranch.isText(text, depth: depth) { return skip(text) }
      guard let node = try? WriteValue(json: text, limits: .none), node.serverValues.isEmpty,
        node.node == Node(storage: .packed(packed)), depth + node.node.height <= Limits.depthMax
      else { return false }
      return skip(text)
    }
  }

  /// Whether the next text is the members and the closing brace.
  private mutating func matches(_ children: Children, isFirst: Bool, depth: Int) -> Bool {
    // An empty branch would decode as absent.
    guard !children.isEmpty, depth < Limits.depthMax else { return false }
    var isFirst = isFirst
    let isSame = children.forEach { child in
      guard !child.node.isAbsent, isFirst || skip(",") else { return false }
      isFirst = false
      return matches(child.key) && skip(":") && matches(child.node, depth: depth + 1)
    }
    return isSame && skip("}")
  }

  private mutating func matches(_ key: Key) -> Bool {
    guard peek() == UInt8(ascii: "\"") else { return false }
    let isSame = try? readString { bytes throws(TreeError) in key.isSpelled(by: bytes) }
    return isSame == true
  }
}

extension Location {
  /// Whether the location sorts before another, and neither is at or below the other.
  fileprivate func precedes(withoutOverlapping next: Location) -> Bool {
    let (keys, others) = (path.keys, next.path.keys)
    var i = 0
    while i < keys.count, i < others.count, keys[i] == others[i] { i += 1 }
    if i < keys.count, i < others.count { return keys[i] < others[i] }
    // The nodes below a path sort after its priority and do not overlap it.
    return isPriority && keys.count < others.count
  }
}

extension Key {
  /// Whether the bytes spell this key.
  fileprivate func isSpelled(by bytes: UnsafeRawBufferPointer) -> Bool {
    matchLength(in: bytes, at: 0) == bytes.count
      && (JSONScan.isASCII(bytes) || String(validating: bytes, as: UTF8.self) != nil)
  }

  /// Returns the length of the key if its bytes stand at an offset and are a valid key; else nil.
  @inline(__always)
  fileprivate func matchLength(
    in bytes: UnsafeRawBufferPointer, at start: Int
  ) -> Int? {
    withUTF8 { key in
      guard 1...Limits.keyBytesMax ~= key.count, key.count <= bytes.count - start,
        UnsafeRawBufferPointer(rebasing: bytes[start..<start + key.count]).hasSameBytes(as: key)
      else { return nil }
      switch form {
      case .integer, .padded, .push: return key.count
      case .short, .long: return Key.hasForbidden(key) ? nil : key.count
      }
    }
  }

  /// Returns the length of the key if its bytes stand at an offset, are a valid key, and are ASCII that JSON does not
  /// escape; else nil. It may be nil for other keys with these properties.
  @inline(__always)
  fileprivate func plainLength(in bytes: UnsafeRawBufferPointer, at start: Int) -> Int? {
    switch form {
    case .push(let high, let low):
      guard bytes.count - start >= PushID.length,
        let found = PushID.pack(
          UnsafeRawBufferPointer(rebasing: bytes[start..<start + PushID.length])),
        found == (high, low)
      else { return nil }
      return PushID.length
    case .short(let high, let low):
      // Near the end of the text there are not two words.
      guard bytes.count - start >= 16, Key.isValidText(high, low) else { return nil }
      let count = Key.shortCount(high, low)
      func word(_ offset: Int, _ count: Int) -> UInt64 {
        UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
          & ~(UInt64.max >> UInt64(8 * count))
      }
      guard word(start, min(count, 8)) == high, word(start + 8, max(count - 8, 0)) == low else {
        return nil
      }
      return count
    default: return nil
    }
  }

  /// Whether any of the bytes is forbidden: as `isForbidden`, for many bytes.
  private static func hasForbidden(_ bytes: UnsafeRawBufferPointer) -> Bool {
    // One bit for each of `# $ . / [ ]` and U+007F, and for all bytes before the space.
    let low: UInt64 = 0x0000_C018_FFFF_FFFF
    let high: UInt64 = 0x8000_0000_2800_0000
    for byte in bytes where byte < 0x80 {
      if (byte < 64 ? low : high) >> UInt64(byte & 63) & 1 == 1 { return true }
    }
    return false
  }
}

extension Path {
  /// Whether the bytes spell this path.
  ///
  /// - Precondition: the bytes are valid UTF-8.
  fileprivate func isSpelled(by bytes: UnsafeRawBufferPointer) -> Bool {
    WorkCounter.compareLocation()
    guard keys.count <= Limits.depthMax else { return false }
    var start = 0
    for key in keys {
      if start > 0 {
        guard start < bytes.count, bytes[start] == UInt8(ascii: "/") else { return false }
        start += 1
      }
      guard let count = key.matchLength(in: bytes, at: start) else { return false }
      start += count
    }
    return start == bytes.count || (start + 1 == bytes.count && bytes[start] == UInt8(ascii: "/"))
  }
}

/// The unread indexes up to a count. Needs no allocation for up to 64.
private struct UnreadIndexes {
  private let count: Int
  private var words: [UInt64]
  private var word: UInt64
  /// The start of the search for `first`: all indexes before it have been read.
  private var start = 0

  init(count: Int) {
    self.count = count
    word = .max
    words = count > 64 ? [UInt64](repeating: .max, count: (count + 63) / 64) : []
  }

  func contains(_ index: Int) -> Bool {
    let word = words.isEmpty ? word : words[index / 64]
    return word >> UInt64(index % 64) & 1 == 1
  }

  mutating func remove(_ index: Int) {
    let bit = UInt64(1) << UInt64(index % 64)
    if words.isEmpty { word &= ~bit } else { words[index / 64] &= ~bit }
  }

  /// The first unread index; nil if all have been read.
  ///
  /// - Complexity: O(1) amortised.
  var first: Int? {
    mutating get {
      while start < count, !contains(start) { start += 1 }
      return start < count ? start : nil
    }
  }
}
