internal import CanopyTree

/// Byte-wise search of texts in rules.
enum ByteSearch {
  /// Calls `body` with the offset of each occurrence of `needle`, from the left and without
  /// overlaps, until it returns false. An empty needle has none.
  ///
  /// - Complexity: O(haystack + needle) for any contents (Knuth, Morris and Pratt); both may come
  ///   from clients.
  static func forEachOccurrence(
    of needle: UnsafeRawBufferPointer, in haystack: UnsafeRawBufferPointer,
    _ body: (Int) -> Bool
  ) {
    guard needle.count > 0, needle.count <= haystack.count else { return }
    // For each length, the longest shorter prefix of the needle that is also a suffix of that
    // prefix.
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
  /// Whether the text contains the bytes of another.
  func containsBytes(_ other: String) -> Bool {
    if other.isEmpty { return true }
    return withUTF8Bytes { a in
      other.withUTF8Bytes { b in
        var found = false
        ByteSearch.forEachOccurrence(of: b, in: a) { _ in
          found = true
          return false
        }
        return found
      }
    }
  }

  /// Returns the text with every occurrence of a part replaced; nil if the result exceeds
  /// `bytesMax`.
  func replacingBytes(_ part: String, with other: String, bytesMax: Int) -> String? {
    if part.isEmpty { return self }
    var result: [UInt8] = []
    var isTooLong = false
    withUTF8Bytes { text in
      part.withUTF8Bytes { part in
        other.withUTF8Bytes { other in
          var end = 0
          ByteSearch.forEachOccurrence(of: part, in: text) { start in
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
