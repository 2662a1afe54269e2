import CanopyTree

/// A leaf of the naive model.
enum NaiveLeaf: Hashable {
  case bool(Bool)
  case integer(Int64)
  /// A number that is not a 64-bit integer.
  case double(Double)
  case string([UInt8])

  init(_ text: String) {
    self = .string(Array(text.utf8))
  }

  /// Creates a number in its only form.
  init(_ number: Double) {
    self = Int64(exactly: number).map(NaiveLeaf.integer) ?? .double(number)
  }

  /// Creates the leaf of a node, without its priority; nil for an absent node and for a branch.
  init?(_ node: Node) {
    if let bool = node.boolValue {
      self = .bool(bool)
    } else if let integer = node.integerValue {
      self = .integer(integer)
    } else if let double = node.doubleValue {
      self = .double(double)
    } else if let text = node.stringValue {
      self.init(text)
    } else {
      return nil
    }
  }

  var number: Double? {
    switch self {
    case .integer(let number): Double(number)
    case .double(let number): number
    default: nil
    }
  }

  private var integer: Int64? {
    switch self {
    case .integer(let number): number
    case .double(let number): Int64(exactly: number)
    default: nil
    }
  }

  /// The leaf as a node of the tree.
  var node: Node {
    switch self {
    case .bool(let value): Node(value)
    case .integer(let value): Node(value)
    case .double(let value): Node(value) ?? .absent
    case .string(let bytes): Node(String(decoding: bytes, as: UTF8.self))
    }
  }

  /// The leaf as JSON, with as many escapes as possible.
  var json: String {
    switch self {
    case .bool(let value): "\(value)"
    case .integer(let value): "\(value)"
    case .double(let value): "\(value)"
    case .string(let bytes): NaiveLeaf.quoted(String(decoding: bytes, as: UTF8.self))
    }
  }

  static func quoted(_ text: String) -> String {
    var result = "\""
    for unit in text.utf16 {
      let isPlain = (0x20..<0x7F).contains(unit) && unit != 0x22 && unit != 0x5C
      let hex = String(unit, radix: 16)
      result +=
        isPlain
        ? String(decoding: [unit], as: UTF16.self)
        : "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
    }
    return result + "\""
  }

  /// Returns a negative number, zero or a positive number if `a` sorts before, with or after `b`.
  static func compare(_ a: NaiveLeaf, _ b: NaiveLeaf) -> Int {
    if let x = a.number, let y = b.number {
      if x != y { return x < y ? -1 : 1 }
      // Both round to the same double: compare them as integers. Only 2^63 is not one.
      let (i, j) = (a.integer, b.integer)
      return i == j ? 0 : (i ?? .max) < (j ?? .max) || j == nil ? -1 : 1
    }
    switch (a, b) {
    case (.bool(let a), .bool(let b)): return (a ? 1 : 0) - (b ? 1 : 0)
    case (.string(let a), .string(let b)):
      let x = Array(String(decoding: a, as: UTF8.self).utf16)
      let y = Array(String(decoding: b, as: UTF8.self).utf16)
      return x == y ? 0 : x.lexicographicallyPrecedes(y) ? -1 : 1
    default: return a.rank - b.rank
    }
  }

  private var rank: Int {
    switch self {
    case .bool: 1
    case .integer, .double: 2
    case .string: 3
    }
  }
}
