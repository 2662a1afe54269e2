extension JSONOutput {
  /// Appends a JSON object whose members `body` appends.
  public mutating func object(_ body: (inout JSONOutput) -> Void) {
    append(UInt8(ascii: "{"))
    body(&self)
    append(UInt8(ascii: "}"))
  }

  /// Appends a JSON array. `body` appends each element.
  public mutating func array<Element>(
    _ elements: some Sequence<Element>, _ body: (inout JSONOutput, Element) -> Void
  ) {
    append(UInt8(ascii: "["))
    var isFirst = true
    for element in elements {
      if !isFirst { append(UInt8(ascii: ",")) }
      isFirst = false
      body(&self, element)
    }
    append(UInt8(ascii: "]"))
  }

  /// Appends the name of a member of an object. Append its value next.
  ///
  /// - Precondition: the output has no drain, as the last byte decides whether a comma is needed.
  /// - Parameter name: a name that needs no escape.
  public mutating func member(_ name: StaticString) {
    if last != UInt8(ascii: "{") { append(UInt8(ascii: ",")) }
    append(UInt8(ascii: "\""))
    append(name)
    append("\":")
  }

  /// Appends a member with a text.
  public mutating func member(_ name: StaticString, _ value: String) {
    member(name)
    append(string: value)
  }

  /// Appends a member with a key.
  public mutating func member(_ name: StaticString, _ value: Key) {
    member(name)
    append(key: value)
  }

  /// Appends a member with a number.
  public mutating func member(_ name: StaticString, _ value: Int64) {
    member(name)
    append(value)
  }

  /// Appends a member with a bool.
  public mutating func member(_ name: StaticString, _ value: Bool) {
    member(name)
    append(value ? "true" : "false")
  }

  /// Appends a member with a node.
  public mutating func member(_ name: StaticString, _ value: Node, style: JSONStyle = .plain) {
    member(name)
    append(value, style: style)
  }
}
