/// A selection of the children of a location, in an order.
///
/// Consists of an order, bounds and a limit. A contradictory combination is refused with a sentence
/// that says which part is wrong.
public struct Query: Hashable, Sendable {
  /// One end of the range.
  public struct Bound: Hashable, Sendable {
    /// The order value; unused in key order.
    public var value: BoundValue
    /// The key. Without one, the bound is before or after all children with the value.
    public var key: Key?
    /// Whether the range includes a child exactly at the bound.
    public var isInclusive: Bool

    /// Creates a bound.
    public init(_ value: BoundValue, key: Key? = nil, isInclusive: Bool = true) {
      self.value = value
      self.key = key
      self.isInclusive = isInclusive
    }
  }

  /// The number of children, and the end from which they are counted.
  public enum Limit: Hashable, Sendable {
    /// The first children of the range.
    case first(Int)
    /// The last children of the range.
    case last(Int)
  }

  /// The order of the children.
  public var order: Order
  /// The start of the range.
  public var lower: Bound?
  /// The end of the range.
  public var upper: Bound?
  /// The most children to select.
  public var limit: Limit?

  /// Creates a query.
  ///
  /// - Throws: `TreeError.invalidQuery` if the limit is not positive, or if a bound does not fit the
  ///   order or is longer than `Limits.boundBytesMax`.
  public init(
    order: Order = .priority, lower: Bound? = nil, upper: Bound? = nil, limit: Limit? = nil
  ) throws(TreeError) {
    self.order = order
    self.lower = lower
    self.upper = upper
    self.limit = limit
    switch limit {
    case .first(let n), .last(let n):
      guard n > 0 else { throw .invalidQuery("a limit must be a positive integer") }
    case nil: break
    }
    for case let bound? in [lower, upper] {
      if order == .key, bound.key == nil {
        throw .invalidQuery("by key, a bound must be a string that is a key")
      }
      if case .string(let bytes) = bound.value, bytes.count > Limits.boundBytesMax {
        throw .invalidQuery(
          "the string of a bound may have at most \(Limits.boundBytesMax) bytes of UTF-8; compare with "
            + "its beginning")
      }
    }
  }

  private init() {
    order = .priority
  }

  /// All children, in the default order.
  public static let all = Query()

  /// Whether the query selects all children, so that it stands for the location itself.
  public var isUnbounded: Bool { lower == nil && upper == nil && limit == nil }

  /// Whether a child with a key may be in the range, whatever its value is. O(1).
  ///
  /// Only key order can decide this from the key. In the other orders the result is true.
  public func mayShow(_ key: Key) -> Bool {
    guard order == .key else { return true }
    if let bound = lower?.key, key < bound || (key == bound && lower?.isInclusive == false) {
      return false
    }
    if let bound = upper?.key, bound < key || (key == bound && upper?.isInclusive == false) {
      return false
    }
    return true
  }
}

/// The value of a bound: an `OrderValue` that is compared and hashed exactly.
public enum BoundValue: Hashable, Sendable {
  /// An absent value.
  case absent
  /// A bool.
  case bool(Bool)
  /// A number that is a 64-bit integer.
  case integer(Int64)
  /// Any other number.
  case double(Double)
  /// The bytes of a string.
  case string([UInt8])

  /// Creates the bound value of a leaf or of an absent node; nil for a branch.
  public init?(_ node: Node) {
    switch node.value {
    case .absent: self = .absent
    case .bool(let value): self = .bool(value)
    case .integer(let value): self = .integer(value)
    case .double(let value): self = .double(value)
    case .string(let value): self = .string(Array(value.utf8))
    case .branch: return nil
    }
  }

  var orderValue: OrderValue {
    switch self {
    case .absent: .absent
    case .bool(let value): .bool(value)
    case .integer(let value): .integer(value)
    case .double(let value): .double(value)
    case .string(let bytes): .string(String(decoding: bytes, as: UTF8.self))
    }
  }
}
