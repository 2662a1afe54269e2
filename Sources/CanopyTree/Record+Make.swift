extension Record {
  /// A record of children that ascend; nil if it would be too large, or if one of them cannot be in one.
  init?(ascending children: some Collection<Child>) {
    guard !children.isEmpty, children.count <= Record.childrenMax else { return nil }
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
      output.append(key: child.key)
      output.append(UInt8(ascii: ":"))
      output.append(child.node, style: .export)
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
    if child.isAbsent { return key.withUTF8(removing) }
    // What it replaces does not count: so a record near its bound may become pages early.
    var bytes = byteCount
    if Record.canHold(child, under: key, bytes: &bytes) {
      var output = JSONOutput(capacity: 64)
      output.append(child, style: .export)
      let record = output.withBytes { value in key.withUTF8 { replacing($0, with: value) } }
      if let record { return Node(storage: .record(record)) }
    }
    var children = children
    children.modify(key) { $0 = Child(key: key, node: child) }
    return Node(storage: .branch(children))
  }

  private func removing(_ key: UnsafeRawBufferPointer) -> Node {
    withMembers { members in
      let (i, isFound) = members.search(key)
      guard isFound else { return Node(storage: .record(self)) }
      guard members.count > 1 else { return .absent }
      return Node(storage: .record(splicing(members, i..<i + 1, key: nil, value: nil)))
    }
  }

  private func replacing(
    _ key: UnsafeRawBufferPointer, with value: UnsafeRawBufferPointer
  ) -> Record? {
    withMembers { members in
      let (i, isFound) = members.search(key)
      let old = isFound ? members.end(i) - Int(members.table[i].value) : -(key.count + 4)
      guard byteCount - old + value.count <= Record.bytesMax else { return nil }
      return splicing(members, i..<(isFound ? i + 1 : i), key: key, value: value)
    }
  }

  /// The record with a member in place of some, or with none; something must be left.
  private func splicing(
    _ members: Members, _ gone: Range<Int>, key: UnsafeRawBufferPointer?,
    value: UnsafeRawBufferPointer?
  ) -> Record {
    let text = members.text
    // Up to the end of what stays before, and from the quote of what stays after.
    let head = gone.lowerBound > 0 ? members.end(gone.lowerBound - 1) : 1
    let hasTail = gone.upperBound < members.count
    let tail = hasTail ? Int(members.table[gone.upperBound].key) - 1 : text.count - 1
    var parts = head + (text.count - tail)
    if let key, let value { parts += key.count + value.count + 3 + (head > 1 ? 1 : 0) }
    let hasComma = hasTail && (key != nil || head > 1)
    let count = members.count - gone.count + (key == nil ? 0 : 1)
    return Record(childCount: count, byteCount: parts + (hasComma ? 1 : 0)) { table, copy in
      var writer = Writer(copy)
      writer.write(text[..<head])
      for i in 0..<gone.lowerBound { table[i] = members.table[i] }
      var next = gone.lowerBound
      if let key, let value {
        if head > 1 { writer.write(UInt8(ascii: ",")) }
        writer.write(UInt8(ascii: "\""))
        let keyStart = writer.count
        writer.write(key[...])
        writer.write(UInt8(ascii: "\""))
        writer.write(UInt8(ascii: ":"))
        table[next] = Place(
          key: UInt16(truncatingIfNeeded: keyStart),
          value: UInt16(truncatingIfNeeded: writer.count))
        writer.write(value[...])
        next += 1
      }
      if hasComma { writer.write(UInt8(ascii: ",")) }
      let shift = writer.count - tail
      for i in gone.upperBound..<members.count {
        let place = members.table[i]
        table[next] = Place(
          key: UInt16(truncatingIfNeeded: Int(place.key) + shift),
          value: UInt16(truncatingIfNeeded: Int(place.value) + shift))
        next += 1
      }
      writer.write(text[tail...])
    }
  }

  /// Writes bytes one after the other into memory of the right size.
  private struct Writer {
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
