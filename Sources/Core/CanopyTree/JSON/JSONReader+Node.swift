extension JSONReader {
  /// Reads one value as a node.
  ///
  /// Null, `{}` and `[]` are absent; arrays become children keyed `0`, `1`, …; `.value`,
  /// `.priority` and `.sv` have their special meaning. The last of duplicate keys wins, but an
  /// object that contains a server value may not repeat a key. At most `Limits.depthMax` levels.
  public mutating func readNode() throws(TreeError) -> WriteValue {
    entries.removeAll(keepingCapacity: true)
    keys.removeAll(keepingCapacity: true)
    serverValues = []
    let node = try readNode(depth: 0)
    return WriteValue(node, serverValues: serverValues)
  }

  private mutating func readNode(depth: Int) throws(TreeError) -> Node {
    guard let byte = peekToken() else { throw error("expected a JSON value") }
    switch byte {
    case UInt8(ascii: "\""):
      return Node(try readText())
    case UInt8(ascii: "{"):
      return try readObject(depth: depth)
    case UInt8(ascii: "["):
      return try readArray(depth: depth)
    case UInt8(ascii: "t"):
      try readLiteral("true")
      return true
    case UInt8(ascii: "f"):
      try readLiteral("false")
      return false
    case UInt8(ascii: "n"):
      try readLiteral("null")
      return .absent
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      return try readNumber()
    default:
      throw error("expected a JSON value")
    }
  }

  mutating func readText() throws(TreeError) -> String {
    let start = offset
    // Validate the bytes in place; the reader itself cannot be used meanwhile.
    let text: String? = try readString { bytes throws(TreeError) in
      String(validating: bytes, as: UTF8.self)
    }
    guard let text else { throw .invalidJSON("the text is not valid UTF-8", offset: start) }
    return text
  }

  private mutating func readArray(depth: Int) throws(TreeError) -> Node {
    advance()
    let mark = entries.count
    var index: Int32 = 0
    if peekToken() == UInt8(ascii: "]") {
      advance()
      return .absent
    }
    while true {
      try readChild(Key(index: index), depth: depth)
      (index, _) = index.addingReportingOverflow(1)
      guard index > 0 else { throw error("the array is too long") }
      switch peekToken() {
      case UInt8(ascii: ","): advance()
      case UInt8(ascii: "]"):
        advance()
        return try finish(from: mark)
      default: throw error("expected , or ] in an array")
      }
    }
  }

  private mutating func readChild(_ key: Key, depth: Int) throws(TreeError) {
    // The check is for children, because an object with `.value` or `.sv` may stand on the deepest
    // level.
    guard depth < Limits.depthMax else {
      throw error("a value may have at most \(Limits.depthMax) levels")
    }
    try pause()
    keys.append(key)
    let node = try readNode(depth: depth + 1)
    keys.removeLast()
    entries.append(Child(key: key, node: node))
  }

  private mutating func readObject(depth: Int) throws(TreeError) -> Node {
    let start = offset
    advance()
    let mark = entries.count
    let serverValuesBefore = serverValues.count
    var special = SpecialMembers()
    if peekToken() == UInt8(ascii: "}") {
      advance()
      return .absent
    }
    while true {
      guard peekToken() == UInt8(ascii: "\"") else { throw error("expected a key in quotes") }
      let key = try readKey()
      try expect(UInt8(ascii: ":"), "a colon after the key")
      switch key {
      case .child(let key): try readChild(key, depth: depth)
      case .value where peekToken() == UInt8(ascii: "{"):
        special.serverValue = try readServerValueObject(
          ".value must be a string, a number, a bool, null or a server value")
      case .value: special.value = try readLeaf(".value")
      case .priority: special.priority = try readPriority()
      case .serverValue: special.serverValue = try readServerValue()
      }
      switch peekToken() {
      case UInt8(ascii: ","): advance()
      case UInt8(ascii: "}"):
        advance()
        return try finish(
          from: mark, special: special, start: start,
          hasServerValues: serverValues.count > serverValuesBefore)
      default: throw error("expected , or } in an object")
      }
    }
  }

  private enum Member {
    case child(Key)
    case value
    case priority
    case serverValue
  }

  private struct SpecialMembers {
    var value: Node?
    var priority: PriorityValue?
    var serverValue: ServerValue?

    var isEmpty: Bool { value == nil && priority == nil && serverValue == nil }
  }

  private enum PriorityValue {
    case node(Node)
    case serverValue(ServerValue)
  }

  private mutating func readKey() throws(TreeError) -> Member {
    let start = offset
    let result: Result<Member, TreeError> = try readString { bytes throws(TreeError) in
      if bytes.first == UInt8(ascii: ".") {
        if bytes.elementsEqual(".value".utf8) { return .success(.value) }
        if bytes.elementsEqual(".priority".utf8) { return .success(.priority) }
        if bytes.elementsEqual(".sv".utf8) { return .success(.serverValue) }
      }
      do throws(TreeError) {
        if bytes.contains(where: { $0 >= 0x80 }), String(validating: bytes, as: UTF8.self) == nil {
          return .failure(.invalidJSON("the text is not valid UTF-8", offset: start))
        }
        return .success(.child(try Key(utf8: bytes)))
      } catch {
        return .failure(.invalidJSON(error.sentence, offset: start))
      }
    }
    return try result.get()
  }

  private mutating func readLeaf(_ name: String) throws(TreeError) -> Node {
    switch peekToken() {
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      throw error("\(name) must be a string, a number, a bool or null")
    default:
      return try readNode(depth: 0)
    }
  }

  private mutating func readPriority() throws(TreeError) -> PriorityValue {
    if peekToken() == UInt8(ascii: "{") {
      return .serverValue(
        try readServerValueObject(".priority must be a number, a string or null"))
    }
    let node = try readLeaf(".priority")
    if case .bool = node.value { throw error(".priority must be a number, a string or null") }
    try node.checkPriority(bytesMax: priorityBytesMax)
    return .node(node)
  }

  /// Reads `{".sv": …}`.
  ///
  /// - Parameter expected: the sentence of the error for another object.
  private mutating func readServerValueObject(
    _ expected: String
  ) throws(TreeError) -> ServerValue {
    advance()
    guard peekToken() == UInt8(ascii: "\""), case .serverValue = try readKey() else {
      throw error(expected)
    }
    try expect(UInt8(ascii: ":"), "a colon after the key")
    let value = try readServerValue()
    try expect(UInt8(ascii: "}"), "} after the server value")
    return value
  }

  private mutating func readServerValue() throws(TreeError) -> ServerValue {
    let expected = "expected \"timestamp\" or {\"increment\": number} after \".sv\""
    switch peekToken() {
    case UInt8(ascii: "\""):
      guard try readText() == "timestamp" else { throw error(expected) }
      return .timestamp
    case UInt8(ascii: "{"):
      advance()
      guard peekToken() == UInt8(ascii: "\""), try readText() == "increment" else {
        throw error(expected)
      }
      try expect(UInt8(ascii: ":"), "a colon after the key")
      let delta = try readLeaf("increment")
      guard delta.doubleValue != nil else { throw error(expected) }
      try expect(UInt8(ascii: "}"), "} after the increment")
      return .increment(delta)
    default:
      throw error(expected)
    }
  }

  /// Removes the entries from `mark` on, and returns the branch of an array that has them.
  private mutating func finish(from mark: Int) throws(TreeError) -> Node {
    let node = try arrayNode(from: mark)
    try removeEntries(from: mark)
    return node
  }

  /// Returns the branch of an array that has the entries from `mark` on.
  ///
  /// A function of its own, so that its slice ends before the entries change: a slice that is still
  /// alive makes each inner array copy all entries.
  private func arrayNode(from mark: Int) throws(TreeError) -> Node {
    let children = entries[mark...]
    guard children.contains(where: { $0.node.isAbsent }) else { return try node(children) }
    return try node(children.filter { !$0.node.isAbsent })
  }

  /// Returns the branch with children that ascend.
  private func node(_ children: some Collection<Child>) throws(TreeError) -> Node {
    let pause = pause
    return try Node(ascending: children) { () throws(TreeError) in try pause() }
  }

  /// The entries that are removed between two pauses.
  private static var removedMax: Int { 4_096 }

  /// Removes the entries from `mark` on. O(removed entries), unless something shares the memory of the
  /// entries; then all that remain are copied, which debug builds count.
  private mutating func removeEntries(from mark: Int) throws(TreeError) {
    #if CANOPY_COUNT_WORK
      let before = entries.withUnsafeBufferPointer { $0.baseAddress }
    #endif
    while entries.count - mark > JSONReader.removedMax {
      entries.removeLast(JSONReader.removedMax)
      try pause()
    }
    entries.removeSubrange(mark...)
    #if CANOPY_COUNT_WORK
      if entries.withUnsafeBufferPointer({ $0.baseAddress }) != before {
        WorkCounter.touch(entries.count)
      }
    #endif
  }

  private mutating func finish(
    from mark: Int, special: SpecialMembers, start: Int, hasServerValues: Bool
  ) throws(TreeError) -> Node {
    var node = try finishChildren(from: mark, start: start, hasServerValues: hasServerValues)
    guard !special.isEmpty else { return node }
    let hasChildren = !node.isAbsent || hasServerValues
    if special.serverValue != nil || special.value != nil, hasChildren {
      throw .invalidJSON(
        "an object with .value or .sv may have no other children", offset: start)
    }
    if let value = special.serverValue {
      guard special.value == nil else {
        throw .invalidJSON("an object may have .value or .sv, not both", offset: start)
      }
      try addServerValue(value, isPriority: false, start)
    } else if let value = special.value {
      node = value
    }
    switch special.priority {
    case .node(let priority):
      if node.isAbsent, hasServerValues || special.serverValue != nil {
        // The node that gets the priority does not exist before the server values are resolved.
        try addServerValue(.constant(priority), isPriority: true, start)
      } else {
        node = node.withPriority(priority)
      }
    case .serverValue(let value): try addServerValue(value, isPriority: true, start)
    case nil: break
    }
    return node
  }

  private mutating func addServerValue(
    _ value: ServerValue, isPriority: Bool, _ start: Int
  ) throws(TreeError) {
    guard serverValueCount < Limits.serverValuesMax else {
      throw .invalidJSON(
        "one write may have at most \(Limits.serverValuesMax) server values", offset: start)
    }
    serverValueCount += 1
    serverValues.append(
      LocatedServerValue(path: Path(keys: keys), isPriority: isPriority, value: value))
  }

  private mutating func finishChildren(
    from mark: Int, start: Int, hasServerValues: Bool
  ) throws(TreeError) -> Node {
    guard entries.count > mark else { return .absent }
    let node = try objectNode(from: mark, start: start, hasServerValues: hasServerValues)
    try removeEntries(from: mark)
    return node
  }

  /// Returns the branch of an object that has the entries from `mark` on.
  private func objectNode(
    from mark: Int, start: Int, hasServerValues: Bool
  ) throws(TreeError) -> Node {
    var isNormal = true
    for i in mark..<entries.count
    where entries[i].node.isAbsent || (i > mark && !(entries[i - 1].key < entries[i].key)) {
      isNormal = false
      break
    }
    if isNormal { return try node(entries[mark...]) }
    let children = Array(entries[mark...])
    if hasServerValues, Set(children.map(\.key)).count < children.count {
      throw .invalidJSON("an object with server values in it may not repeat a key", offset: start)
    }
    let pause = pause
    let normal = try Child.normalized(children) { () throws(TreeError) in try pause() }
    return try node(normal)
  }
}
