/// Byte-wise operations on texts.
///
/// Swift's own operations work on characters: canonically equivalent texts are equal, and a
/// character may combine with the one before it (`"/\u{600}"` ends with `/` in bytes, but not in
/// characters). Data is bytes: keys, paths, names and addresses are compared with these methods.
/// Each is O(bytes of the shorter text), without allocation for native strings.
extension String {
  /// Calls `body` with the UTF-8 of the text. Copies only strings that are not native; the tree
  /// creates none.
  @inlinable
  public func withUTF8Bytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
    if let result = utf8.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) {
      return result
    }
    var copy = self
    return copy.withUTF8 { body(UnsafeRawBufferPointer($0)) }
  }

  /// Whether both texts have the same bytes.
  public func hasSameBytes(as other: String) -> Bool {
    withUTF8Bytes { a in other.withUTF8Bytes { b in a.hasSameBytes(as: b) } }
  }

  /// Whether the text begins with the bytes of another.
  public func hasBytePrefix(_ other: String) -> Bool {
    withUTF8Bytes { a in
      other.withUTF8Bytes { b in
        UnsafeRawBufferPointer(rebasing: a.prefix(b.count)).hasSameBytes(as: b)
      }
    }
  }

  /// Whether the text ends with the bytes of another.
  public func hasByteSuffix(_ other: String) -> Bool {
    withUTF8Bytes { a in
      other.withUTF8Bytes { b in
        UnsafeRawBufferPointer(rebasing: a.suffix(b.count)).hasSameBytes(as: b)
      }
    }
  }

  /// Returns the text without its first `count` bytes.
  ///
  /// - Precondition: the first `count` bytes are whole scalars, as after a match with
  ///   `hasBytePrefix`.
  public func droppingBytes(_ count: Int) -> String {
    let rest = utf8.dropFirst(count)
    assert(rest.first.map { $0 & 0xC0 != 0x80 } ?? true, "a scalar would be cut")
    return String(decoding: rest, as: UTF8.self)
  }

  /// The text with the letters A to Z in lower case and all other characters unchanged.
  public var asciiLowercased: String {
    String(
      decoding: utf8.lazy.map { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 ? $0 | 0x20 : $0 },
      as: UTF8.self)
  }

  /// The text with the letters a to z in upper case and all other characters unchanged.
  public var asciiUppercased: String {
    String(
      decoding: utf8.lazy.map { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 ? $0 & 0xDF : $0 },
      as: UTF8.self)
  }
}

extension Node {
  /// Whether the node is a string with the bytes of a key.
  ///
  /// - Complexity: O(bytes of the key).
  public func hasText(of key: Key) -> Bool {
    guard case .string(let text) = value else { return false }
    return key.withUTF8 { key in text.withUTF8Bytes { $0.hasSameBytes(as: key) } }
  }

  /// Returns the number of bytes of a child's text; nil if the child is absent or not a string.
  ///
  /// In a packed branch it creates no string, unless the text has escapes.
  /// - Complexity: O(log n), and O(bytes of the text) in a packed branch.
  public func textByteCount(of key: Key) -> Int? {
    packed?.withPlainText(of: key) { $0.count } ?? child(key).stringValue?.utf8.count
  }

  /// Whether a child is a string with the bytes of a key.
  ///
  /// In a packed branch it creates no string, unless the text has escapes.
  /// - Complexity: O(log n), and O(bytes of the text) in a packed branch.
  public func hasText(of key: Key, at child: Key) -> Bool {
    key.withUTF8 { key in packed?.withPlainText(of: child) { $0.hasSameBytes(as: key) } }
      ?? self.child(child).hasText(of: key)
  }

  /// Returns the key that the text of a child spells; nil if the child is absent or not a string, or if its text is not
  /// a valid key.
  ///
  /// In a packed branch it creates no string, unless the text has escapes.
  /// - Complexity: O(log n), and O(bytes of the text) in a packed branch.
  public func textAsKey(at child: Key) -> Key? {
    packed?.withPlainText(of: child) { try? Key(utf8: $0) }
      ?? self.child(child).stringValue.flatMap { try? Key($0) }
  }

  /// Returns the number of children of a child, and whether one of them has a key.
  ///
  /// - Complexity: O(log n), and O(bytes of the child) in a packed branch.
  public func childCount(at child: Key, with key: Key) -> (count: Int, hasKey: Bool) {
    if let packed { return packed.childCount(at: child, with: key) }
    let node = self.child(child)
    return (node.childCount, !node.child(key).isAbsent)
  }
}
