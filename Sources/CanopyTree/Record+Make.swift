extension Record {
  /// A record of children that ascend; nil if it would be too large, or if one of them cannot be in one.
  init?(ascending children: some Collection<Child>) {
    // `"k":1,` is the shortest member.
    guard !children.isEmpty, children.count <= Record.bytesMax / 6 else { return nil }
    // The least that it can be: one brace, and for each child a comma or the other brace.
    var bytes = 1
    for child in children {
      bytes += child.key.utf8Count + 4
      guard Record.canHold(child.node, under: child.key, bytes: &bytes) else { return nil }
    }
    var output = JSONOutput(capacity: bytes)
    output.append(UInt8(ascii: "{"))
    for child in children {
      if output.count > 1 { output.append(UInt8(ascii: ",")) }
      output.append(member: child.key, child.node)
    }
    output.append(UInt8(ascii: "}"))
    guard output.count <= Record.bytesMax else { return nil }
    self = output.withBytes { Record(unchecked: $0, childCount: children.count) }
  }

  /// Whether a child may be in a record, and would fit into one.
  ///
  /// - Parameter bytes: those of the record so far, to which the child's are added; escapes may be more.
  private static func canHold(_ node: Node, under key: Key, bytes: inout Int) -> Bool {
    guard isPlain(key) else { return false }
    switch node.storage {
    case .bool: bytes += 4
    case .integer, .double: bytes += 1
    case .string(let text): bytes += text.utf8.count + 2
    case .record(let record):
      if case .push = key.form { return false }
      bytes += record.byteCount
    case .absent, .branch, .indexed, .prioritized: return false
    }
    return bytes <= bytesMax
  }

  /// Whether a key may be in a record.
  private static func isPlain(_ key: Key) -> Bool {
    switch key.form {
    case .integer: false
    case .push: true
    case .short, .long: key.withUTF8 { JSONScan.plainPrefix($0, from: 0) == $0.count }
    }
  }

  /// The branch with another child in this one's place: a record, if it can be one. O(bytes).
  func replacing(_ key: Key, with child: Node) -> Node {
    WorkCounter.touch()
    var bytes = byteCount + key.utf8Count + 4
    // What is there is subtracted at the end only: a record near its bound may become pages early.
    guard child.isAbsent || Record.canHold(child, under: key, bytes: &bytes) else {
      var children = children
      children.modify(key) { $0 = Child(key: key, node: child) }
      return Node(storage: .branch(children))
    }
    return withText { text in
      var members = Members(text)
      // Up to where what is before stays, and from where what is after.
      var before = 1
      var after = text.count - 1
      var isFound = false
      while let member = members.next() {
        let start = member.key.lowerBound - 1
        let other = Key(unchecked: members.text(member.key))
        if other < key {
          before = member.value.upperBound
        } else {
          isFound = other == key
          after = isFound ? min(member.value.upperBound + 1, text.count - 1) : start
          break
        }
      }
      if child.isAbsent, !isFound { return Node(storage: .record(self)) }
      let count = childCount + (child.isAbsent ? 0 : 1) - (isFound ? 1 : 0)
      guard count > 0 else { return .absent }
      var output = JSONOutput(capacity: bytes)
      output.append(UnsafeRawBufferPointer(rebasing: text[..<before]))
      if !child.isAbsent {
        if before > 1 { output.append(UInt8(ascii: ",")) }
        output.append(member: key, child)
      }
      if after < text.count - 1 {
        if output.count > 1 { output.append(UInt8(ascii: ",")) }
        output.append(UnsafeRawBufferPointer(rebasing: text[after..<(text.count - 1)]))
      }
      output.append(UInt8(ascii: "}"))
      guard output.count <= Record.bytesMax else {
        var children = children
        children.modify(key) { $0 = Child(key: key, node: child) }
        return Node(storage: .branch(children))
      }
      return output.withBytes { Node(storage: .record(Record(unchecked: $0, childCount: count))) }
    }
  }
}

extension JSONOutput {
  fileprivate mutating func append(member key: Key, _ node: Node) {
    append(key: key)
    append(UInt8(ascii: ":"))
    append(node, style: .export)
  }
}
