/// Which children of a location are wanted, and in which order.
///
/// Made from an order, bounds and a limit; a combination that means nothing is refused with a
/// sentence that says which part is wrong.
public struct Query: Hashable, Sendable {
  /// One end of the range.
  public struct Bound: Hashable, Sendable {
    /// The order value; unused when ordering by key.
    public var value: BoundValue
    /// The key; without one the bound is before or after all children with the value.
    public var key: Key?
    /// Whether a child exactly at the bound is in.
    public var isInclusive: Bool

    /// A bound.
    public init(_ value: BoundValue, key: Key? = nil, isInclusive: Bool = true) {
      self.value = value
      self.key = key
      self.isInclusive = isInclusive
    }
  }

  /// How many children, from which end.
  public enum Limit: Hashable, Sendable {
    /// The first of the range.
    case first(Int)
    /// The last of the range.
    case last(Int)
  }

  /// What the children are ordered by.
  public var order: Order
  /// Where the range begins.
  public var lower: Bound?
  /// Where the range ends.
  public var upper: Bound?
  /// How much of the range is wanted.
  public var limit: Limit?

  /// A query.
  ///
  /// - Throws: `TreeError.invalidQuery` when a limit is not positive, or when a bound does not fit the
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

  /// Whether nothing narrows the children down: the query stands for the location itself.
  public var isUnbounded: Bool { lower == nil && upper == nil && limit == nil }
}

/// The value of a bound: what an `OrderValue` can be, compared and hashed exactly.
public enum BoundValue: Hashable, Sendable {
  /// Missing.
  case absent
  /// A bool.
  case bool(Bool)
  /// A number.
  case integer(Int64)
  /// A number.
  case double(Double)
  /// A string; its bytes count.
  case string([UInt8])

  /// The bound value of a leaf or of what is absent; nil for a branch.
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
