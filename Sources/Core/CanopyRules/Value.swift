internal import CanopyTree

/// The value of an expression.
///
/// Numbers are IEEE doubles; a 64-bit integer is kept as one, as in the tree. Unlike there, a
/// double may be NaN (from division by zero). A key stands for its text: most wildcards are only
/// compared, and creating their text would allocate.
enum Value: Sendable {
  case null
  case bool(Bool)
  case integer(Int64)
  case double(Double)
  case string(String)
  case key(Key)
  /// A node with children, of the tree or of the token. Equal to nothing.
  case branch(Node)

  init(_ node: Node) {
    switch node.value {
    case .absent: self = .null
    case .bool(let value): self = .bool(value)
    case .integer(let value): self = .integer(value)
    case .double(let value): self = .double(value)
    case .string(let value): self = .string(value)
    case .branch: self = .branch(node)
    }
  }

  /// Creates a number; an integer if possible.
  init(_ number: Double) {
    if let integer = Int64(exactly: number) {
      self = .integer(integer)
    } else {
      self = .double(number)
    }
  }

  init(_ value: BoundValue?) {
    switch value {
    case nil, .absent: self = .null
    case .bool(let value): self = .bool(value)
    case .integer(let value): self = .integer(value)
    case .double(let value): self = .double(value)
    case .string(let bytes): self = .string(String(decoding: bytes, as: UTF8.self))
    }
  }

  /// The text, if the value is a string.
  var text: String? {
    switch self {
    case .string(let text): text
    case .key(let key): key.text
    default: nil
    }
  }

  /// The number, if the value is one.
  var number: Double? {
    switch self {
    case .integer(let value): Double(value)
    case .double(let value): value
    default: nil
    }
  }

  /// The kind of value, for errors.
  var kind: String {
    switch self {
    case .null: "null"
    case .bool: "a bool"
    case .integer, .double: "a number"
    case .string, .key: "a string"
    case .branch: "an object"
    }
  }

  /// The value in the notation of rules, shortened.
  var description: String {
    switch self {
    case .null: "null"
    case .bool(let value): value ? "true" : "false"
    case .integer(let value): String(value)
    case .double(let value): Value.text(of: value)
    case .string(let text): Value.quoted(text)
    case .key(let key): Value.quoted(key.text)
    case .branch(let node): "{\(node.childCount) children}"
    }
  }

  /// Returns a number as text, in JavaScript's form except for very large and small numbers.
  static func text(of number: Double) -> String {
    if number.isNaN { return "NaN" }
    if number.isInfinite { return number < 0 ? "-Infinity" : "Infinity" }
    var text = number.description
    if text.hasByteSuffix(".0") { text.removeLast(2) }
    return text
  }

  private static func quoted(_ text: String) -> String {
    var output = JSONOutput()
    // Shorten by scalars: a character may have any number of bytes.
    let scalars = text.unicodeScalars
    output.append(string: String(scalars.prefix(80)))
    return output.text + (scalars.dropFirst(80).isEmpty ? "" : "…")
  }

  /// Returns the result of `==`. Values of different types are not equal; NaN and objects equal
  /// nothing.
  static func equal(_ a: Value, _ b: Value) -> Bool {
    switch (a, b) {
    case (.string(let a), .string(let b)): return a.hasSameBytes(as: b)
    case (.string(let text), .key(let key)), (.key(let key), .string(let text)):
      return key.withUTF8 { key in text.withUTF8Bytes { $0.hasSameBytes(as: key) } }
    case (.key(let a), .key(let b)): return a == b
    case (.null, .null): return true
    case (.bool(let a), .bool(let b)): return a == b
    case (.integer(let a), .integer(let b)): return a == b
    // A double never equals an integer value here, except for a few beyond 64 bits.
    case (.double(let a), .double(let b)): return a == b
    default: return false
    }
  }
}
