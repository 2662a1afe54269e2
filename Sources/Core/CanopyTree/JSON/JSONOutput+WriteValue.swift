extension JSONOutput {
  /// Appends a value in the form in which a client sends it, with priorities and server values.
  /// Reading it gives the same value.
  ///
  /// - Complexity: O(size).
  public mutating func append(_ value: WriteValue) {
    guard !value.serverValues.isEmpty else { return append(value.node, style: .export) }
    append(value.node, value.serverValues.map { ($0.path.keys[...], $0) })
  }

  /// Appends a node with server values.
  ///
  /// - Parameter placed: the server values at and below the node, with the rest of their paths.
  private mutating func append(
    _ node: Node, _ placed: [(keys: ArraySlice<Key>, value: LocatedServerValue)]
  ) {
    guard !placed.isEmpty else { return append(node, style: .export) }
    let here = placed.filter(\.keys.isEmpty).map(\.value)
    let priority = here.first(where: \.isPriority)?.value
    let hasPriority = priority != nil || !node.priority.isAbsent
    if let own = here.first(where: { !$0.isPriority })?.value {
      append("{")
      append(members: own)
      if hasPriority { append(",") }
    } else if node.isLeaf {
      append("{\".value\":")
      append(node.withoutPriority)
      if hasPriority { append(",") }
    } else {
      append("{")
      appendChildren(of: node, placed.filter { !$0.keys.isEmpty }, isFirst: !hasPriority) {
        $0.append(priority: priority, or: node.priority)
      }
      return append("}")
    }
    if hasPriority { append(priority: priority, or: node.priority) }
    append("}")
  }

  private mutating func appendChildren(
    of node: Node, _ placed: [(keys: ArraySlice<Key>, value: LocatedServerValue)], isFirst: Bool,
    _ appendPriority: (inout JSONOutput) -> Void
  ) {
    var isFirst = isFirst
    if !isFirst { appendPriority(&self) }
    var groups: [Key: [(keys: ArraySlice<Key>, value: LocatedServerValue)]] = [:]
    for (keys, value) in placed {
      guard let key = keys.first else { continue }
      groups[key, default: []].append((keys.dropFirst(), value))
    }
    func add(_ key: Key, _ child: Node, to output: inout JSONOutput) {
      if !isFirst { output.append(",") }
      isFirst = false
      output.append(key: key)
      output.append(":")
      output.append(child, groups[key] ?? [])
    }
    var seen: Set<Key> = []
    node.forEachChild { key, child in
      add(key, child, to: &self)
      seen.insert(key)
      return true
    }
    for key in groups.keys.sorted() where !seen.contains(key) { add(key, .absent, to: &self) }
  }

  private mutating func append(members value: ServerValue) {
    switch value {
    case .timestamp: append("\".sv\":\"timestamp\"")
    case .increment(let delta):
      append("\".sv\":{\"increment\":")
      append(delta)
      append("}")
    case .constant(let node):
      append("\".value\":")
      append(node)
    }
  }

  private mutating func append(priority value: ServerValue?, or node: Node) {
    append("\".priority\":")
    switch value {
    case nil: append(node)
    case .constant(let node)?: append(node)
    case let value?:
      append("{")
      append(members: value)
      append("}")
    }
  }
}
