public import CanopyTree

/// The JSON of a small reply, the same for every front end. An operation returns it as a literal:
///
///     Reply.json(["starred": .bool(true), "starCount": .number(8)])
///
/// Values of the tree are not of this type: they may be large, and their JSON is copied as bytes.
public enum ReplyJSON: Sendable, ExpressibleByDictionaryLiteral {
  /// JSON that never changes, such as `null`.
  case constant(StaticString)
  /// A Boolean value.
  case bool(Bool)
  /// An integer.
  case number(Int64)
  /// A number; null if it is not finite, which JSON cannot write.
  case double(Double)
  /// A text.
  case text(String)
  /// A key, as a text.
  case key(CanopyTree.Key)
  /// An array.
  case array([ReplyJSON])
  /// An object with its members in this order.
  case object([(String, ReplyJSON)])

  /// The value null.
  public static var null: ReplyJSON { .constant("null") }

  /// Creates an object.
  public init(dictionaryLiteral members: (String, ReplyJSON)...) {
    self = .object(members)
  }

  /// Appends the JSON text to an output. O(bytes).
  public func append(to output: inout JSONOutput) {
    switch self {
    case .constant(let json): output.append(json)
    case .bool(let value): output.append(value ? "true" : "false")
    case .number(let value): output.append(value)
    case .double(let value):
      if value.isFinite { output.append(value) } else { output.append("null") }
    case .text(let value): output.append(string: value)
    case .key(let value): output.append(key: value)
    case .array(let elements): output.array(elements) { $1.append(to: &$0) }
    case .object(let members):
      output.append(UInt8(ascii: "{"))
      var isFirst = true
      for (name, value) in members {
        if !isFirst { output.append(UInt8(ascii: ",")) }
        isFirst = false
        output.append(string: name)
        output.append(UInt8(ascii: ":"))
        value.append(to: &output)
      }
      output.append(UInt8(ascii: "}"))
    }
  }
}
