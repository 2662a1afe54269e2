/// A text that identifies something: compared, hashed and ordered by the bytes of its UTF-8.
///
///     let clients: [ByteString: Client] = [:]
///
/// Swift's `String` treats canonically equivalent texts as equal: `é` in one and in two code points. As uids, names
/// and addresses of clients they differ. Use a `Key` where the text is the name of a child, and this type where it may be
/// another text.
public struct ByteString: Hashable, Sendable {
  /// The text.
  public let text: String

  /// Creates the identity of a text. O(1).
  public init(_ text: String) {
    self.text = text
  }

  /// Whether both texts have the same bytes.
  public static func == (a: ByteString, b: ByteString) -> Bool {
    a.text.hasSameBytes(as: b.text)
  }

  /// Hashes the bytes of the text.
  public func hash(into hasher: inout Hasher) {
    text.withUTF8Bytes { hasher.combine(bytes: $0) }
    // No text contains this byte, so it ends the text.
    hasher.combine(UInt8.max)
  }
}

extension ByteString: Comparable {
  /// Whether the bytes of `a` sort before those of `b`.
  public static func < (a: ByteString, b: ByteString) -> Bool {
    a.text.utf8.lexicographicallyPrecedes(b.text.utf8)
  }
}

extension ByteString: ExpressibleByStringInterpolation, CustomStringConvertible {
  /// Creates the identity of a literal.
  public init(stringLiteral text: String) {
    self.init(text)
  }

  /// The text.
  public var description: String { text }
}
