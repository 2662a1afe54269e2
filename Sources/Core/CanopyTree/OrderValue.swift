/// The value that orders a child: a leaf's value, reduced to the parts that matter for order.
///
/// Ascending: absent, false, true, numbers, strings (by UTF-16 code units of the first 1,025 bytes), objects.
public enum OrderValue: Sendable {
  /// An absent value.
  case absent
  /// A bool.
  case bool(Bool)
  /// A number that is a 64-bit integer.
  case integer(Int64)
  /// Any other number.
  case double(Double)
  /// A string.
  case string(String)
  /// A branch; all branches are equal in order.
  case object

  /// Creates the order value of a node.
  public init(_ node: Node) {
    switch node.value {
    case .absent: self = .absent
    case .bool(let value): self = .bool(value)
    case .integer(let value): self = .integer(value)
    case .double(let value): self = .double(value)
    case .string(let value): self = .string(value)
    case .branch: self = .object
    }
  }

  private var rank: Int {
    switch self {
    case .absent: 0
    case .bool: 1
    case .integer, .double: 2
    case .string: 3
    case .object: 4
    }
  }

  /// Whether a copy counts no reference.
  var isPlain: Bool { if case .string = self { false } else { true } }

  /// The bytes of a string that decide its place. Longer strings that begin with the same bytes are equal in order, and
  /// their keys decide. It is one more than a query can name, so the bounds of queries have the same results as if all
  /// bytes decided. Without it, the writer would compare megabytes for each view and each index.
  static let comparedBytesMax = Limits.boundBytesMax + 1

  /// The value without the bytes of a string that are not compared. An index keeps it, so that it does not keep the
  /// rest of a long string after the child has another value. A shorter string is not copied.
  var compared: OrderValue {
    guard case .string(let text) = self, text.utf8.count > OrderValue.comparedBytesMax else {
      return self
    }
    // Up to the end of the character that has the last compared byte.
    let bytes = text.utf8
    var end = bytes.index(bytes.startIndex, offsetBy: OrderValue.comparedBytesMax)
    while end < bytes.endIndex, bytes[end] & 0xC0 == 0x80 { bytes.formIndex(after: &end) }
    return .string(String(decoding: bytes[..<end], as: UTF8.self))
  }

  /// The bytes of the text that an index keeps besides those of the children.
  ///
  /// - Parameter order: the order of the index. One by a child of the children creates texts of its own; another one
  ///   shares the texts that are not cut.
  func indexedTextBytes(in order: Order) -> Int {
    guard case .string(let text) = self else { return 0 }
    if case .child = order { return NodeMemory.bytes(of: text) }
    return text.utf8.count < OrderValue.comparedBytesMax ? 0 : NodeMemory.bytes(of: text)
  }

  /// Returns a negative number, zero or a positive number if `a` sorts before, with or after `b`.
  static func compare(_ a: OrderValue, _ b: OrderValue) -> Int {
    switch (a, b) {
    case (.integer(let a), .integer(let b)): a < b ? -1 : a == b ? 0 : 1
    case (.double(let a), .double(let b)): a < b ? -1 : a == b ? 0 : 1
    case (.integer(let a), .double(let b)): -compare(b, a)
    case (.double(let a), .integer(let b)): compare(a, b)
    case (.string(let a), .string(let b)): TextOrder.compare(a, b, bytesMax: comparedBytesMax)
    case (.bool(let a), .bool(let b)): a == b ? 0 : a ? 1 : -1
    default: a.rank - b.rank
    }
  }

  /// Compares exactly, without rounding the integer to a double.
  private static func compare(_ a: Double, _ b: Int64) -> Int {
    if a >= 0x1p63 { return 1 }
    if a < -0x1p63 { return -1 }
    let whole = Int64(a.rounded(.down))
    return whole != b ? (whole < b ? -1 : 1) : a > Double(whole) ? 1 : 0
  }
}

extension OrderValue: Comparable {
  /// Whether `a` sorts before `b`.
  public static func < (a: OrderValue, b: OrderValue) -> Bool { compare(a, b) < 0 }
  /// Whether both sort equally.
  public static func == (a: OrderValue, b: OrderValue) -> Bool { compare(a, b) == 0 }
}

/// The order of the children of a location. Ties are broken by key.
public enum Order: Hashable, Sendable {
  /// Key order.
  case key
  /// The order of the values.
  case value
  /// The order of the priorities. The default of a query.
  case priority
  /// The order of the nodes at a path below each child.
  case child(Path)

  /// Returns the order value of a child. In key order all are equal, so only the keys decide.
  public func value(of node: Node) -> OrderValue {
    switch self {
    case .key: .absent
    case .value: OrderValue(node)
    case .priority: OrderValue(node.priority)
    // Most orders have one key, which needs no walk along a path.
    case .child(let path) where path.keys.count == 1: OrderValue(node.child(path.keys[0]))
    case .child(let path): OrderValue(node.at(path))
    }
  }
}

/// A position in an order: the order value, then the key.
struct Position: Comparable, SortedElement {
  var value: OrderValue
  var key: Key

  var sortKey: Position { self }
  var isPlain: Bool { value.isPlain && key.isPlain }
  /// Positions rarely hold references, so copying a large page is cheap.
  static var leafMax: Int { 32 }

  static func < (a: Position, b: Position) -> Bool {
    let values = OrderValue.compare(a.value, b.value)
    return values != 0 ? values < 0 : a.key < b.key
  }

  static func == (a: Position, b: Position) -> Bool { a.key == b.key && a.value == b.value }
}
