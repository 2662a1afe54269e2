internal import CanopyTree

/// Members of a JSON object, in their sequence.
typealias JSONMembers = [(name: String, value: JSONValue)]

extension JSONValue {
  /// Creates a string.
  static func text(_ text: String) -> JSONValue { .leaf(Node(text)) }

  /// Creates a number.
  static func number(_ number: Int64) -> JSONValue { .leaf(Node(number)) }

  /// Creates a Bool.
  static func flag(_ flag: Bool) -> JSONValue { .leaf(Node(flag)) }

  /// The members, if this is an object.
  var members: JSONMembers? {
    if case .object(let members) = self { members } else { nil }
  }

  /// The integer, if this is one.
  var integerNumber: Int64? {
    if case .leaf(let node) = self { node.integerValue } else { nil }
  }

  /// Reads JSON; nil if the bytes are not JSON. Bounded in depth, never traps. O(bytes).
  init?(bytes: [UInt8]) {
    let value = bytes.withUnsafeBytes { try? JSONValue(json: $0) }
    guard let value else { return nil }
    self = value
  }

  /// The value as JSON text.
  var jsonBytes: [UInt8] {
    var output = JSONOutput()
    output.append(self)
    return output.bytes
  }

  /// The value as a tree node. A member whose name is not a valid key is left out, because rules cannot name it.
  var node: Node {
    switch self {
    case .null: return .absent
    case .leaf(let node): return node
    case .array(let elements):
      return Node(
        children: zip(Int32(0)..., elements).map { (Key(index: $0), $1.node) })
    case .object(let members):
      return Node(
        children: members.compactMap { member in
          (try? Key(member.name)).map { ($0, member.value.node) }
        })
    }
  }
}

extension JSONOutput {
  /// Appends a JSON value. Its depth is bounded by the reader, so the recursion is too.
  mutating func append(_ value: JSONValue) {
    switch value {
    case .null: append("null" as StaticString)
    case .leaf(let node): append(node)
    case .array(let elements):
      append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        if index > 0 { append(UInt8(ascii: ",")) }
        append(element)
      }
      append(UInt8(ascii: "]"))
    case .object(let members):
      append(UInt8(ascii: "{"))
      for (index, member) in members.enumerated() {
        if index > 0 { append(UInt8(ascii: ",")) }
        append(string: member.name)
        append(UInt8(ascii: ":"))
        append(member.value)
      }
      append(UInt8(ascii: "}"))
    }
  }
}
