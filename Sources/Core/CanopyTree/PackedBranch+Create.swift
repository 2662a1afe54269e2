extension PackedBranch {
  /// Creates a packed branch of children; nil if it would be too large, or if it cannot hold one of
  /// them.
  ///
  /// - Precondition: the keys ascend strictly.
  init?(ascending children: some Collection<Child>) {
    guard !children.isEmpty, children.count <= PackedBranch.childrenMax else { return nil }
    assert(zip(children, children.dropFirst()).allSatisfy { $0.key < $1.key }, "not sorted")
    // A lower bound: one brace, and for each child a comma or the other brace.
    var bytes = 1
    for child in children {
      bytes += child.key.utf8Count + 4
      guard PackedBranch.canHold(child.node, under: child.key, bytes: &bytes) else { return nil }
    }
    var output = JSONOutput(capacity: bytes)
    output.append(UInt8(ascii: "{"))
    for child in children {
      if output.count > 1 { output.append(UInt8(ascii: ",")) }
      output.append(key: child.key)
      output.append(UInt8(ascii: ":"))
      output.append(child.node, style: .export)
    }
    output.append(UInt8(ascii: "}"))
    guard output.count <= PackedBranch.bytesMax else { return nil }
    self = output.withBytes { PackedBranch(unchecked: $0, childCount: children.count) }
  }

  /// Whether a packed branch may hold a child and would have room for it.
  ///
  /// - Parameter bytes: a lower bound on the size of the branch, to which the child's size is
  ///   added; escapes may need more.
  private static func canHold(_ node: Node, under key: Key, bytes: inout Int) -> Bool {
    guard isPlain(key) else { return false }
    switch node.storage {
    case .bool: bytes += 4
    case .integer, .double: bytes += 1
    case .string(let text): bytes += text.utf8.count + 2
    case .packed(let packed):
      if case .push = key.form { return false }
      bytes += packed.byteCount
    case .absent, .branch, .indexed, .prioritized: return false
    }
    return bytes <= bytesMax
  }

  /// Whether no packed branch may hold the child, because of the levels below it.
  static func isTooDeep(_ child: Child) -> Bool {
    switch child.node.storage {
    case .branch, .indexed, .prioritized: return true
    case .packed: if case .push = child.key.form { return true } else { return false }
    case .absent, .bool, .integer, .double, .string: return false
    }
  }

  /// Whether a packed branch may have this key.
  static func isPlain(_ key: Key) -> Bool {
    switch key.form {
    case .integer, .padded: false
    case .push: true
    case .short, .long: key.withUTF8 { JSONScan.plainPrefix($0, from: 0) == $0.count }
    }
  }

  /// Returns the branch with another child at `key`: a packed one if possible.
  ///
  /// - Complexity: O(bytes).
  func replacing(_ key: Key, with child: Node) -> Node {
    WorkCounter.touch()
    if child.isAbsent { return key.withUTF8(removing) }
    var bytes = 0
    if PackedBranch.canHold(child, under: key, bytes: &bytes) {
      var output = JSONOutput(capacity: 64)
      output.append(child, style: .export)
      let packed = output.withBytes { value in key.withUTF8 { replacing($0, with: value) } }
      if let packed { return Node(storage: .packed(packed)) }
    }
    var children = children
    children.modify(key) { $0 = Child(key: key, node: child) }
    return Node(storage: .branch(children))
  }

  private func removing(_ key: UnsafeRawBufferPointer) -> Node {
    withMembers { members in
      let (i, isFound) = members.search(key)
      guard isFound else { return Node(storage: .packed(self)) }
      guard members.count > 1 else { return .absent }
      return Node(storage: .packed(splicing(members, i..<i + 1, key: nil, value: nil)))
    }
  }

  private func replacing(
    _ key: UnsafeRawBufferPointer, with value: UnsafeRawBufferPointer
  ) -> PackedBranch? {
    withMembers { members in
      let (i, isFound) = members.search(key)
      let old = isFound ? members.value(i) : nil
      let replaced = old?.count ?? -(key.count + 4)
      guard byteCount - replaced + value.count <= PackedBranch.bytesMax,
        PackedBranch.mayReplace(old, with: value, in: byteCount)
      else { return nil }
      return splicing(members, i..<(isFound ? i + 1 : i), key: key, value: value)
    }
  }

  /// Whether the branch may stay packed when the value of a member is replaced: always if the value gets smaller, so
  /// that removals make no pages. Otherwise the old value counts too. So a branch with much below one child becomes
  /// pages, which cost less to search and to change.
  ///
  /// - Parameters:
  ///   - old: the text of the value; nil if there is none.
  ///   - bytes: the bytes of the branch with the old value.
  static func mayReplace(
    _ old: UnsafeRawBufferPointer?, with new: UnsafeRawBufferPointer, in bytes: Int
  ) -> Bool {
    if bytes + new.count <= PackedBranch.bytesMax { return true }
    guard let old else { return false }
    return new.count < old.count || new.hasSameBytes(as: old)
  }

  /// Returns a copy in which the members in `removed` are replaced by `key` and `value`, or removed
  /// if both are nil.
  ///
  /// - Precondition: the result is not empty.
  private func splicing(
    _ members: Members, _ removed: Range<Int>, key: UnsafeRawBufferPointer?,
    value: UnsafeRawBufferPointer?
  ) -> PackedBranch {
    let text = members.text
    // The text before the removed members, and the text from the quote of the next key.
    let head = removed.lowerBound > 0 ? members.end(removed.lowerBound - 1) : 1
    let hasTail = removed.upperBound < members.count
    let tail = hasTail ? Int(members.table[removed.upperBound].key) - 1 : text.count - 1
    var parts = head + (text.count - tail)
    if let key, let value { parts += key.count + value.count + 3 + (head > 1 ? 1 : 0) }
    let hasComma = hasTail && (key != nil || head > 1)
    let count = members.count - removed.count + (key == nil ? 0 : 1)
    assert(count > 0, "a branch is not empty")
    return PackedBranch(childCount: count, byteCount: parts + (hasComma ? 1 : 0)) { table, copy in
      var writer = ByteWriter(copy)
      writer.write(text[..<head])
      for i in 0..<removed.lowerBound { table[i] = members.table[i] }
      var next = removed.lowerBound
      if let key, let value {
        if head > 1 { writer.write(UInt8(ascii: ",")) }
        writer.write(UInt8(ascii: "\""))
        let keyStart = writer.count
        writer.write(key[...])
        writer.write(UInt8(ascii: "\""))
        writer.write(UInt8(ascii: ":"))
        table[next] = MemberOffsets(
          key: UInt16(truncatingIfNeeded: keyStart),
          value: UInt16(truncatingIfNeeded: writer.count))
        writer.write(value[...])
        next += 1
      }
      if hasComma { writer.write(UInt8(ascii: ",")) }
      let shift = writer.count - tail
      for i in removed.upperBound..<members.count {
        let offset = members.table[i]
        table[next] = MemberOffsets(
          key: UInt16(truncatingIfNeeded: Int(offset.key) + shift),
          value: UInt16(truncatingIfNeeded: Int(offset.value) + shift))
        next += 1
      }
      writer.write(text[tail...])
    }
  }

  /// Appends bytes to memory of sufficient size.
  private struct ByteWriter {
    private let bytes: UnsafeMutableRawBufferPointer
    private(set) var count = 0

    init(_ bytes: UnsafeMutableRawBufferPointer) {
      self.bytes = bytes
    }

    mutating func write(_ byte: UInt8) {
      bytes[count] = byte
      count += 1
    }

    mutating func write(_ more: Slice<UnsafeRawBufferPointer>) {
      UnsafeMutableRawBufferPointer(rebasing: bytes[count...])
        .copyMemory(from: UnsafeRawBufferPointer(rebasing: more))
      count += more.count
    }
  }
}
