/// Texts as bytes: how rules compare and search them.
enum Bytes {
  /// Whether both are the same, eight bytes at a time.
  static func equal(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
    guard a.count == b.count else { return false }
    if a.baseAddress == b.baseAddress { return true }
    var i = 0
    while i &+ 8 <= a.count {
      let x = a.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      let y = b.loadUnaligned(fromByteOffset: i, as: UInt64.self)
      if x != y { return false }
      i &+= 8
    }
    while i < a.count {
      if a[i] != b[i] { return false }
      i &+= 1
    }
    return true
  }

  /// Calls `body` with the offset of each occurrence of `needle`, which is not empty, from the left
  /// and without overlaps, until it returns false.
  ///
  /// O(haystack + needle) whatever is in them (Knuth, Morris and Pratt): both may come from clients.
  static func forEachOccurrence(
    of needle: UnsafeRawBufferPointer, in haystack: UnsafeRawBufferPointer,
    _ body: (Int) -> Bool
  ) {
    guard needle.count > 0, needle.count <= haystack.count else { return }
    // How long a prefix of the needle still stands when the one of this length cannot go on.
    var fallback = [Int](repeating: 0, count: needle.count)
    var length = 0
    for i in 1..<max(1, needle.count) {
      while length > 0, needle[i] != needle[length] { length = fallback[length - 1] }
      if needle[i] == needle[length] { length += 1 }
      fallback[i] = length
    }
    length = 0
    for i in 0..<haystack.count {
      while length > 0, haystack[i] != needle[length] { length = fallback[length - 1] }
      if haystack[i] == needle[length] { length += 1 }
      if length == needle.count {
        guard body(i + 1 - length) else { return }
        length = 0
      }
    }
  }
}

extension String {
  /// Calls `body` with the UTF-8 of the text.
  @inline(__always)
  func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
    if let result = utf8.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) {
      return result
    }
    var copy = self
    return copy.withUTF8 { body(UnsafeRawBufferPointer($0)) }
  }

  /// Whether both texts have the same bytes; `==` would hold canonically equivalent ones equal.
  func hasBytes(of other: String) -> Bool {
    withBytes { a in other.withBytes { Bytes.equal(a, $0) } }
  }

  func containsBytes(_ other: String) -> Bool {
    if other.isEmpty { return true }
    return withBytes { a in
      other.withBytes { b in
        var found = false
        Bytes.forEachOccurrence(of: b, in: a) { _ in
          found = true
          return false
        }
        return found
      }
    }
  }

  /// The text with every occurrence of a part replaced; nil if that has more bytes than allowed.
  func replacingBytes(_ part: String, with other: String, bytesMax: Int) -> String? {
    if part.isEmpty { return self }
    var result: [UInt8] = []
    var isTooLong = false
    withBytes { text in
      part.withBytes { part in
        other.withBytes { other in
          var end = 0
          Bytes.forEachOccurrence(of: part, in: text) { start in
            result.append(contentsOf: text[end..<start])
            result.append(contentsOf: other)
            end = start + part.count
            isTooLong = result.count > bytesMax
            return !isTooLong
          }
          result.append(contentsOf: text[end...])
        }
      }
    }
    return isTooLong || result.count > bytesMax ? nil : String(decoding: result, as: UTF8.self)
  }
}
