/// The sizes of the commits that a process has appended, to bound the bytes of those that are kept.
///
/// Commits are counted in parts of about a mebibyte, so a million small commits take no more memory than a few large ones.
struct AppendedBytes {
  /// The bytes from which on a part takes no further commit.
  static let partBytesMin: Int64 = 1024 * 1024

  private struct Part {
    /// The number of its last commit.
    var last: Int64
    var bytes: Int64
  }

  private var parts: [Part] = []

  /// Counts a commit. O(1)
  mutating func note(_ sequence: Int64, bytes: Int) {
    if let last = parts.last, last.bytes < AppendedBytes.partBytesMin {
      parts[parts.count - 1] = Part(last: sequence, bytes: last.bytes + Int64(bytes))
    } else {
      parts.append(Part(last: sequence, bytes: Int64(bytes)))
    }
  }

  /// Returns the first of the latest commits that have at most so many bytes, as far as parts tell. O(parts)
  ///
  /// - Returns: the number of that commit; the least number if all commits have at most so many bytes. If the last part
  ///   has more, the number after the last commit.
  func firstSequence(bytesMax: Int64) -> Int64 {
    var left = bytesMax
    for part in parts.reversed() {
      guard part.bytes <= left else { return part.last + 1 }
      left -= part.bytes
    }
    return .min
  }

  /// Forgets the parts whose commits all come before a number. O(parts)
  mutating func forget(before sequence: Int64) {
    parts.removeFirst(parts.prefix { $0.last < sequence }.count)
  }
}
