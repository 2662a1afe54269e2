public import CanopyTree

/// The members of a JSON object, split but not yet decoded, so that each can be decoded as its own
/// type.
///
/// Accepts any object that `JSONOutput` writes. Invalid JSON is detected here or when a member is
/// decoded.
public struct JSONMembers {
  private let bytes: UnsafeRawBufferPointer
  private var ranges: [(name: Range<Int>, value: Range<Int>)] = []

  /// Splits an object. The bytes must outlive this value.
  ///
  /// - Throws: `TreeError.invalidJSON` if the bytes are not an object.
  /// - Complexity: O(bytes).
  public init(_ bytes: UnsafeRawBufferPointer) throws(TreeError) {
    self.bytes = bytes
    var index = skipSpace(0)
    guard at(index) == UInt8(ascii: "{") else { throw error("expected an object", index) }
    index = skipSpace(index + 1)
    if at(index) == UInt8(ascii: "}") {
      try end(index)
      return
    }
    while true {
      guard at(index) == UInt8(ascii: "\"") else { throw error("expected a name", index) }
      let nameEnd = try valueEnd(index)
      let name = index + 1..<nameEnd - 1
      index = skipSpace(nameEnd)
      guard at(index) == UInt8(ascii: ":") else { throw error("expected a colon", index) }
      index = skipSpace(index + 1)
      let valueEnd = try valueEnd(index)
      ranges.append((name, index..<valueEnd))
      index = skipSpace(valueEnd)
      switch at(index) {
      case UInt8(ascii: ","): index = skipSpace(index + 1)
      case UInt8(ascii: "}"):
        try end(index)
        return
      default: throw error("expected , or }", index)
      }
    }
  }

  /// Returns the bytes of a member's value; nil if the member is missing.
  ///
  /// - Complexity: O(members).
  public subscript(name: StaticString) -> UnsafeRawBufferPointer? {
    let wanted = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
    for (name, value) in ranges where name.count == wanted.count {
      if bytes[name].elementsEqual(wanted) { return UnsafeRawBufferPointer(rebasing: bytes[value]) }
    }
    return nil
  }

  /// Returns the value of an integer member; nil if it is missing or of another type.
  public func integer(_ name: StaticString) -> Int64? {
    self[name].flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
  }

  /// Returns the value of a string member; nil if it is missing or of another type.
  public func text(_ name: StaticString) -> String? {
    guard let bytes = self[name], case .leaf(let node)? = try? JSONValue(json: bytes) else {
      return nil
    }
    return node.stringValue
  }

  private func at(_ index: Int) -> UInt8? {
    index < bytes.count ? bytes[index] : nil
  }

  private func error(_ text: String, _ offset: Int) -> TreeError {
    .invalidJSON(text, offset: offset)
  }

  private func skipSpace(_ start: Int) -> Int {
    var index = start
    while let byte = at(index), byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D {
      index += 1
    }
    return index
  }

  private func end(_ index: Int) throws(TreeError) {
    let rest = skipSpace(index + 1)
    guard rest == bytes.count else { throw error("expected nothing after the object", rest) }
  }

  private func valueEnd(_ start: Int) throws(TreeError) -> Int {
    guard start < bytes.count else { throw error("expected a value", start) }
    guard let end = JSONScan.valueEnd(bytes, from: start) else {
      throw error("the value has no end", start)
    }
    return end
  }
}
