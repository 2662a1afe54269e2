/// Texts that were read last, so that one that is repeated is in memory once.
///
/// The uid and the name of an author stand in each of their posts. A place for each hash, which the
/// last text has: so this stays small whatever is read. Short texts need no memory of their own in
/// Swift and long ones are rarely the same; neither is looked for.
///
/// Used by one reader at a time.
public final class TextTable {
  private static let bytes = 16...64
  private var texts: [String?]

  /// Texts that were found.
  private(set) var found = 0

  /// An empty table.
  ///
  /// - Parameter places: the most texts it holds; at least 1.
  public init(places: Int = 8192) {
    texts = Array(repeating: nil, count: max(1, places))
  }

  /// The text of these bytes; nil if they are not valid UTF-8. O(bytes).
  func text(_ bytes: UnsafeRawBufferPointer) -> String? {
    guard TextTable.bytes ~= bytes.count else { return String(validating: bytes, as: UTF8.self) }
    let place = Int(TextTable.hash(bytes) % UInt64(texts.count))
    if let text = texts[place], text.withUTF8Bytes({ $0.hasSameBytes(as: bytes) }) {
      found += 1
      return text
    }
    let text = String(validating: bytes, as: UTF8.self)
    texts[place] = text
    return text
  }

  /// Eight bytes at a time, the last ones twice. Who makes texts collide only has them forgotten.
  private static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var hash = UInt64(bytes.count)
    func mix(_ word: UInt64) {
      let product = (hash ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
      hash = product.high ^ product.low
    }
    for start in stride(from: 0, to: bytes.count - 8, by: 8) {
      mix(bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
    }
    mix(bytes.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self))
    return hash
  }
}
