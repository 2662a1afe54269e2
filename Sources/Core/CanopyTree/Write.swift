/// A requested change of one or more locations, all or none.
///
/// A write is checked when it is created and may contain server values. `resolved` turns it into
/// assignments, which are journaled and applied.
public struct Write: Sendable {
  /// One location and its new value.
  public struct Item: Sendable {
    /// The location to write.
    public var location: Location
    /// The new value; absent removes.
    public var value: WriteValue

    /// Creates an item.
    public init(_ location: Location, _ value: WriteValue) {
      self.location = location
      self.value = value
    }

    /// Creates an item that sets the node at a path.
    public init(_ path: Path, _ node: Node) {
      self.init(Location(path), WriteValue(node))
    }
  }

  /// The items, ordered by location; no two overlap.
  public private(set) var items: [Item]

  /// Creates a write.
  ///
  /// - Throws: `TreeError.invalidData` if a location is at or below another, if a priority is
  ///   neither a number nor a string, or if the data would be too deep.
  public init(_ items: [Item]) throws(TreeError) {
    var sorted = items
    if sorted.count > 1 { sorted.sort { $0.location < $1.location } }
    for item in sorted { try item.check() }
    for (a, b) in zip(sorted, sorted.dropFirst()) {
      if a.location.overlaps(next: b.location) {
        throw .invalidData(
          "one write may not set both /\(a.location.text) and /\(b.location.text), "
            + "which is the same location or below it")
      }
    }
    self.items = sorted
  }

  /// Removes the items that some locations cover.
  ///
  /// Complexity: O(items + locations), and O(items × log locations) where the items are few.
  ///
  /// - Returns: the locations that covered an item, in order.
  public mutating func removeItems(coveredBy locations: LocationCover) -> [Location] {
    var cover = locations
    var found: [Location] = []
    var kept: [Item] = []
    for item in items {
      if let location = cover.location(covering: item.location) {
        if found.last != location { found.append(location) }
      } else {
        kept.append(item)
      }
    }
    if !found.isEmpty { items = kept }
    return found
  }

  /// Creates a write that replaces the node at a location.
  public static func set(_ location: Location, _ value: WriteValue) throws(TreeError) -> Write {
    try Write([Item(location, value)])
  }

  /// Creates a write that sets several locations below a path.
  public static func update(
    _ path: Path, _ changes: [(Location, WriteValue)]
  ) throws(TreeError) -> Write {
    if changes.contains(where: { $0.0.path.isRoot && !$0.0.isPriority }) {
      throw .invalidData("an update may not replace its own path; set the path instead")
    }
    return try Write(
      changes.map {
        Item(Location(path.appending($0.path), isPriority: $0.isPriority), $1)
      })
  }

  /// Returns the write's assignments, with server values resolved.
  ///
  /// - Parameters:
  ///   - root: the tree just before the write; increments add to its values.
  ///   - milliseconds: the current time since 1970.
  public func resolved(in root: Node, at milliseconds: Int64) -> [Assignment] {
    var assignments = items.map { item in
      var node = item.value.node
      for placed in item.value.serverValues {
        let place = item.location.path.appending(placed.path)
        let isPriority = placed.isPriority || item.location.isPriority
        let old = isPriority ? root.at(place).priority : root.at(place).withoutPriority
        let new = placed.value.resolve(old: old, at: milliseconds)
        if placed.isPriority {
          node.modify(at: placed.path.keys[...]) { $0 = $0.withPriority(new) }
        } else {
          node.set(new, at: placed.path)
        }
      }
      return Assignment(item.location, node)
    }
    if assignments.count > 1 { Write.shareEqualValues(&assignments) }
    return assignments
  }

  /// Replaces equal branches at locations with the same last key by one node. A post that a client
  /// writes to two places is parsed twice, but then kept and journaled once.
  private static func shareEqualValues(_ assignments: inout [Assignment]) {
    var seen: [Key: Node] = [:]
    for i in assignments.indices where assignments[i].value.isBranch {
      guard let key = assignments[i].location.path.last else { continue }
      if let earlier = seen[key], earlier == assignments[i].value {
        assignments[i].value = earlier
      } else {
        seen[key] = assignments[i].value
      }
    }
  }
}

extension Write.Item {
  func check() throws(TreeError) {
    let depth = location.path.count
    let below = value.serverValues.reduce(value.node.height) { max($0, $1.path.count) }
    guard depth + below <= Limits.depthMax else {
      throw .invalidData("data may stand at most \(Limits.depthMax) levels deep")
    }
    guard location.isPriority else { return }
    let isServerValue = value.serverValues.allSatisfy { $0.path.isRoot && !$0.isPriority }
    switch value.node.withoutPriority.value {
    case .absent where isServerValue: break
    case .integer, .double, .string: break
    default: throw .invalidData("a priority must be a number, a string or null")
    }
  }
}

extension JSONReader {
  /// Reads the argument of an update: an object of values by path.
  ///
  /// - Parameter locationsMax: the most locations. More are refused before they are decoded.
  public mutating func readUpdate(
    locationsMax: Int = .max
  ) throws(TreeError) -> [(Location, WriteValue)] {
    var changes: [(Location, WriteValue)] = []
    guard peekToken() == UInt8(ascii: "{") else { throw error("an update must be a JSON object") }
    advance()
    if peekToken() == UInt8(ascii: "}") {
      advance()
      return []
    }
    while true {
      guard peekToken() == UInt8(ascii: "\"") else { throw error("expected a path in quotes") }
      guard changes.count < locationsMax else {
        throw .tooLarge(
          "one UPDATE may set at most \(locationsMax) locations; split it into several")
      }
      let location = try Location(try readText())
      try expect(UInt8(ascii: ":"), "a colon after the path")
      changes.append((location, try readNode()))
      switch peekToken() {
      case UInt8(ascii: ","): advance()
      case UInt8(ascii: "}"):
        advance()
        return changes
      default: throw error("expected , or } in an object")
      }
    }
  }

  /// Reads the argument of an update from bytes.
  public static func readUpdate(
    json bytes: UnsafeRawBufferPointer, limits: Limits = Limits()
  ) throws(TreeError) -> [(Location, WriteValue)] {
    try limits.checkWrite(bytes: bytes.count)
    var reader = JSONReader(bytes, limits: limits)
    let changes = try reader.readUpdate(locationsMax: limits.administratorLocationsMax)
    try reader.readEnd()
    return changes
  }
}
