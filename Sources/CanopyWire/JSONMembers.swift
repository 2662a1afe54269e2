public import CanopyTree

/// The members of one JSON object, cut apart but not yet read: so that each can be read as what it is,
/// a value of the tree or anything else.
///
/// Takes any object that `JSONOutput` writes. What is no JSON at all is found out when a member is
/// read, or is refused here.
public struct JSONMembers {
  private let bytes: UnsafeRawBufferPointer
  private var ranges: [(name: Range<Int>, value: Range<Int>)] = []

  /// Cuts an object apart. O(bytes). The bytes must outlive this.
  ///
  /// - Throws: `TreeError.invalidJSON` when it is no object.
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
      let nameEnd = try endOfString(index)
      let name = index + 1..<nameEnd - 1
      index = skipSpace(nameEnd)
      guard at(index) == UInt8(ascii: ":") else { throw error("expected a colon", index) }
      index = skipSpace(index + 1)
      let valueEnd = try endOfValue(index)
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

  /// The bytes of a member's value; nil if there is none of this name. O(members).
  public subscript(name: StaticString) -> UnsafeRawBufferPointer? {
    let wanted = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
    for (name, value) in ranges where name.count == wanted.count {
      if bytes[name].elementsEqual(wanted) { return UnsafeRawBufferPointer(rebasing: bytes[value]) }
    }
    return nil
  }

  /// The integer that a member is; nil if there is none or it is something else.
  public func integer(_ name: StaticString) -> Int64? {
    self[name].flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
  }

  /// The text that a member is; nil if there is none or it is something else.
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

  private func endOfString(_ start: Int) throws(TreeError) -> Int {
    var index = start + 1
    while let byte = at(index) {
      switch byte {
      case UInt8(ascii: "\\"): index += 2
      case UInt8(ascii: "\""): return index + 1
      default: index += 1
      }
    }
    throw error("the string has no end", start)
  }

  private func endOfValue(_ start: Int) throws(TreeError) -> Int {
    switch at(start) {
    case nil: throw error("expected a value", start)
    case UInt8(ascii: "\""): return try endOfString(start)
    case UInt8(ascii: "{"), UInt8(ascii: "["): return try endOfBrackets(start)
    default:
      var index = start
      while let byte = at(index), byte != UInt8(ascii: ","), byte != UInt8(ascii: "}") {
        index += 1
      }
      guard index > start else { throw error("expected a value", start) }
      return index
    }
  }

  private func endOfBrackets(_ start: Int) throws(TreeError) -> Int {
    var depth = 0
    var index = start
    while let byte = at(index) {
      switch byte {
      case UInt8(ascii: "\""):
        index = try endOfString(index)
        continue
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        depth -= 1
        if depth == 0 { return index + 1 }
      default: break
      }
      index += 1
    }
    throw error("the value has no end", start)
  }
}
