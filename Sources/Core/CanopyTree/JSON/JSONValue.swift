/// Any JSON value as written, for values that are not tree data, such as options and fixture files.
///
/// Unlike a `Node`, it distinguishes null from absence and an array from an object, and keeps the
/// sequence of members.
public indirect enum JSONValue: Equatable, Sendable {
  /// The value null.
  case null
  /// A bool, number or string.
  case leaf(Node)
  /// An array.
  case array([JSONValue])
  /// An object; the last of duplicate names wins.
  case object([(name: String, value: JSONValue)])

  /// Returns the member of an object with this name.
  public subscript(name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.last { $0.name.hasSameBytes(as: name) }?.value
  }

  /// The text, if this is a string.
  public var string: String? {
    if case .leaf(let node) = self { node.stringValue } else { nil }
  }

  /// The elements, if this is an array.
  public var elements: [JSONValue]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  /// Whether both are equal, with their members in the same sequence.
  public static func == (a: JSONValue, b: JSONValue) -> Bool {
    switch (a, b) {
    case (.null, .null): true
    case (.leaf(let a), .leaf(let b)): a == b
    case (.array(let a), .array(let b)): a == b
    case (.object(let a), .object(let b)):
      a.count == b.count
        && zip(a, b).allSatisfy { $0.name.hasSameBytes(as: $1.name) && $0.value == $1.value }
    default: false
    }
  }

  /// Reads JSON bytes.
  ///
  /// - Throws: `TreeError` with the offset of the byte where the text goes wrong.
  public init(json bytes: UnsafeRawBufferPointer, limits: Limits = Limits()) throws(TreeError) {
    var reader = JSONReader(bytes, limits: limits)
    self = try reader.readValue()
    try reader.readEnd()
  }

  /// Reads JSON text.
  ///
  /// - Throws: `TreeError` with the offset of the byte where the text goes wrong.
  public init(json text: String, limits: Limits = Limits()) throws(TreeError) {
    let result = text.withUTF8Bytes { bytes in
      Result { () throws(TreeError) in try JSONValue(json: bytes, limits: limits) }
    }
    self = try result.get()
  }
}

extension JSONReader {
  /// Reads one value of any kind, up to `Limits.depthMax` levels deep.
  public mutating func readValue(depth: Int = 0) throws(TreeError) -> JSONValue {
    guard depth <= Limits.depthMax else {
      throw error("a value may have at most \(Limits.depthMax) levels")
    }
    switch peekToken() {
    case UInt8(ascii: "\""):
      return .leaf(Node(try readText()))
    case UInt8(ascii: "t"):
      try readLiteral("true")
      return .leaf(true)
    case UInt8(ascii: "f"):
      try readLiteral("false")
      return .leaf(false)
    case UInt8(ascii: "n"):
      try readLiteral("null")
      return .null
    case UInt8(ascii: "["):
      var elements: [JSONValue] = []
      try readMembers(close: UInt8(ascii: "]")) { reader throws(TreeError) in
        elements.append(try reader.readValue(depth: depth + 1))
      }
      return .array(elements)
    case UInt8(ascii: "{"):
      var members: [(name: String, value: JSONValue)] = []
      try readMembers(close: UInt8(ascii: "}")) { reader throws(TreeError) in
        guard reader.peekToken() == UInt8(ascii: "\"") else {
          throw reader.error("expected a key in quotes")
        }
        let name = try reader.readText()
        try reader.expect(UInt8(ascii: ":"), "a colon after the key")
        members.append((name, try reader.readValue(depth: depth + 1)))
      }
      return .object(members)
    case UInt8(ascii: "-"), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
      return .leaf(try readNumber())
    default:
      throw error("expected a JSON value")
    }
  }

  /// Reads the members of an array or an object.
  ///
  /// - Precondition: the next byte is the opening bracket.
  mutating func readMembers(
    close: UInt8, _ readMember: (inout JSONReader) throws(TreeError) -> Void
  ) throws(TreeError) {
    // The code of each closing bracket is that of the opening one and two.
    assert(peek() == close - 2, "no opening bracket comes next")
    advance()
    if peekToken() == close { return advance() }
    while true {
      try readMember(&self)
      switch peekToken() {
      case UInt8(ascii: ","): advance()
      case close: return advance()
      default:
        throw error("expected , or \(Character(Unicode.Scalar(close))) after a value")
      }
    }
  }
}
