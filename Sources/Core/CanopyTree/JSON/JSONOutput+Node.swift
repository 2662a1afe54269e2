/// The style in which nodes are written as JSON.
public enum JSONStyle: Sendable {
  /// Plain values, without priorities. A branch whose keys are mostly 0, 1, 2, … becomes an array.
  case plain
  /// With priorities (`.value`, `.priority`) and without arrays: reading the text gives the same
  /// node.
  case export
}

extension JSONOutput {
  /// Appends a node.
  ///
  /// - Complexity: O(size); recursive up to the depth of the tree.
  public mutating func append(_ node: Node, style: JSONStyle = .plain) {
    WorkCounter.touch()
    switch node.storage {
    case .absent: append("null")
    case .bool(true): append("true")
    case .bool(false): append("false")
    case .integer(let value): append(value)
    case .double(let value): append(value)
    case .string(let value):
      if bytesEnd != .max, value.utf8.count > bytesEnd - count { return bytesEnd = -1 }
      append(string: value)
    case .branch(let children): append(children, style: style)
    case .packed(let packed): packed.withText { append($0) }
    case .indexed(let box): append(box.children, style: style)
    case .prioritized(let box):
      guard case .export = style else { return append(box.node, style: style) }
      if let children = box.node.children {
        append("{\".priority\":")
        append(box.priority)
        appendMembers(children, style: style, isFirst: false)
        append(UInt8(ascii: "}"))
      } else {
        append("{\".value\":")
        append(box.node)
        append(",\".priority\":")
        append(box.priority)
        append(UInt8(ascii: "}"))
      }
    }
  }

  /// Appends the members of a branch in `plain` style, each after a comma.
  ///
  /// - Complexity: O(size).
  public mutating func append(membersOf node: Node) {
    if let packed = node.packed {
      WorkCounter.touch()
      append(UInt8(ascii: ","))
      return packed.withText { append(UnsafeRawBufferPointer(rebasing: $0.dropFirst().dropLast())) }
    }
    guard let children = node.children else { return }
    appendMembers(children, style: .plain, isFirst: false)
  }

  /// Appends the members of a branch in `plain` style, each after a comma, unless they are long.
  ///
  /// O(`bytesMax`).
  ///
  /// - Returns: whether all were appended; if not, the output ends anywhere.
  public mutating func append(membersOf node: Node, upTo bytesMax: Int) -> Bool {
    upTo(bytesMax) { $0.append(membersOf: node) }
  }

  /// Appends a node, unless its text is long.
  ///
  /// O(`bytesMax`).
  ///
  /// - Returns: whether all of it was appended; if not, the output ends anywhere.
  public mutating func append(_ node: Node, style: JSONStyle, upTo bytesMax: Int) -> Bool {
    upTo(bytesMax) { $0.append(node, style: style) }
  }

  /// Calls `body`, which stops after a number of bytes.
  ///
  /// - Returns: whether `body` has appended no more than these.
  private mutating func upTo(_ bytesMax: Int, _ body: (inout JSONOutput) -> Void) -> Bool {
    let end = bytesEnd
    bytesEnd = min(end, max(0, bytesMax) > Int.max - count ? .max : count + max(0, bytesMax))
    defer { bytesEnd = end }
    body(&self)
    return count <= bytesEnd
  }

  private mutating func append(_ children: Children, style: JSONStyle) {
    if case .plain = style, let last = JSONOutput.arrayEnd(children) {
      return append(array: children, last: last)
    }
    append(UInt8(ascii: "{"))
    appendMembers(children, style: style, isFirst: true)
    append(UInt8(ascii: "}"))
  }

  private mutating func appendMembers(_ children: Children, style: JSONStyle, isFirst: Bool) {
    var isFirst = isFirst
    children.forEach { child in
      if !isFirst { append(UInt8(ascii: ",")) }
      isFirst = false
      append(key: child.key)
      append(UInt8(ascii: ":"))
      append(child.node, style: style)
      return count <= bytesEnd
    }
  }

  /// Returns the largest index if the children are written as an array: all keys are integers from
  /// 0 up, and the largest is smaller than twice their number.
  ///
  /// - Complexity: O(log n) if some keys are not integers; these sort last. Else O(n).
  static func arrayEnd(_ children: Children) -> Int32? {
    guard let first = children.first?.key.integer, first >= 0,
      let last = children.last?.key.integer, Int(last) < 2 * children.count
    else { return nil }
    // A key such as `03` sorts among the integers.
    return children.forEach { $0.key.integer != nil } ? last : nil
  }

  private mutating func append(array children: Children, last: Int32) {
    append(UInt8(ascii: "["))
    var next: Int32 = 0
    children.forEach { child in
      guard let index = child.key.integer else { return false }
      while next < index {
        append("null,")
        next += 1
      }
      append(child.node)
      if next < last { append(UInt8(ascii: ",")) }
      next = index &+ 1
      return count <= bytesEnd
    }
    append(UInt8(ascii: "]"))
  }
}

extension Node {
  /// Returns the node as JSON text.
  public func json(_ style: JSONStyle = .plain) -> String {
    var output = JSONOutput()
    output.append(self, style: style)
    return output.text
  }
}
