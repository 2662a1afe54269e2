/// A requested change of one or more locations, all or none.
///
/// A write is a list of assignments that is checked when it is created, with the server values that
/// are to be set in them. `resolved` returns the assignments with those values: without server
/// values, the same array. They are journaled and applied.
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

  /// The items of a write, ordered by location.
  public struct Items: RandomAccessCollection, Sendable {
    fileprivate let write: Write

    /// The position of the first item.
    public var startIndex: Int { 0 }
    /// The position after the last item.
    public var endIndex: Int { write.assignments.count }

    /// The item at a position. O(1).
    public subscript(position: Int) -> Item {
      let assignment = write.assignments[position]
      let values = write.serverValues(at: position)
      return Item(assignment.location, WriteValue(assignment.value, serverValues: values))
    }
  }

  /// The assignments, ordered by location; no two overlap. Their nodes are absent at the locations of
  /// server values.
  public internal(set) var assignments: [Assignment]

  /// The server values in the assignments, by the position of the assignment.
  private var serverValues: [Int: [LocatedServerValue]] = [:]

  /// The texts of large values: see `encodeValues`.
  var encodedValues: EncodedNodes?

  /// The large values that have their indexes: see `addIndexes`.
  var indexedValues: IndexedValues?

  /// The assignments with their server values.
  public var items: Items { Items(write: self) }

  /// Creates a write.
  ///
  /// - Throws: `TreeError.invalidData` if a location is at or below another, if a priority is
  ///   neither a number nor a string, or if the data would be too deep.
  public init(_ items: [Item]) throws(TreeError) {
    var sorted = items
    if sorted.count > 1 { sorted.sort { $0.location < $1.location } }
    try self.init(setting: sorted.map { Assignment($0.location, $0.value.node) }) {
      sorted[$0].value.serverValues
    }
  }

  /// Creates a write without server values.
  ///
  /// - Throws: `TreeError.invalidData`, as for items.
  public init(setting assignments: [Assignment]) throws(TreeError) {
    try self.init(setting: assignments.sortedByLocation()) { _ in [] }
  }

  private init(
    setting sorted: [Assignment], _ values: (Int) -> [LocatedServerValue]
  ) throws(TreeError) {
    for (index, assignment) in sorted.enumerated() {
      let values = values(index)
      try Write.check(assignment, values)
      if !values.isEmpty { serverValues[index] = values }
      guard index > 0, case let before = sorted[index - 1].location,
        before.overlaps(next: assignment.location)
      else { continue }
      throw .invalidData(
        "one write may not set both /\(before.text) and /\(assignment.location.text), "
          + "which is the same location or below it")
    }
    assignments = sorted
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
    guard !found.isEmpty else { return [] }
    encodedValues = nil
    indexedValues = nil
    assignments = kept.map { Assignment($0.location, $0.value.node) }
    serverValues = [:]
    for (index, item) in kept.enumerated() where !item.value.serverValues.isEmpty {
      serverValues[index] = item.value.serverValues
    }
    return found
  }

  /// Creates a write that replaces the node at a location.
  public static func set(_ location: Location, _ value: WriteValue) throws(TreeError) -> Write {
    try Write([Item(location, value)])
  }

  /// Returns the same write of another location. O(1), and O(server values)
  ///
  /// - Precondition: it has one assignment.
  /// - Throws: `TreeError`, as `set` does.
  public func moved(to location: Location) throws(TreeError) -> Write {
    precondition(assignments.count == 1, "a write of one location")
    var moved = try Write.set(location, items[0].value)
    moved.encodedValues = encodedValues
    moved.indexedValues = indexedValues(movedTo: location)
    return moved
  }

  /// The server values in the assignment at a position. O(1)
  func serverValues(at index: Int) -> [LocatedServerValue] {
    serverValues.isEmpty ? [] : serverValues[index] ?? []
  }

  /// Whether the location at a position has a value after the write, also one that the server resolves. O(1), and
  /// O(server values) for a value that has nothing else.
  public func setsValue(at index: Int) -> Bool {
    !assignments[index].value.isAbsent || serverValues(at: index).contains { !$0.isPriority }
  }

  /// Creates a write that sets several locations below a path.
  ///
  /// - Throws: `TreeError.tooLarge` beyond `Limits.updatePathBytesMax`; `TreeError.invalidData`, as for items.
  public static func update(
    _ path: Path, _ changes: [(Location, WriteValue)]
  ) throws(TreeError) -> Write {
    if changes.contains(where: { $0.0.path.isRoot && !$0.0.isPriority }) {
      throw .invalidData("an update may not replace its own path; set the path instead")
    }
    let pathBytes = path.keys.reduce(0) { $0 + $1.utf8Count + 1 }
    guard pathBytes * changes.count <= Limits.updatePathBytesMax else {
      throw .tooLarge(
        "an update repeats its path for each location, and may have at most \(Limits.updatePathBytesMax) bytes of "
          + "it; divide the update, or set the path instead")
    }
    return try Write(
      changes.map {
        Item(Location(path.appending($0.path), isPriority: $0.isPriority), $1)
      })
  }

  /// Returns the write's assignments, with server values resolved. O(1) for a small write without them.
  ///
  /// - Parameters:
  ///   - root: the tree just before the write; increments add to its values.
  ///   - milliseconds: the current time since 1970.
  public func resolved(in root: Node, at milliseconds: Int64) -> [Assignment] {
    var copy = self
    return copy.resolve(in: root, at: milliseconds)
  }

  /// Returns the assignments as `resolved` does, and keeps the indexes of large values with server values, so that the tree
  /// need not make them again when the assignments are applied.
  ///
  /// - Complexity: O(server values × log n), and O(assignments).
  public mutating func resolve(in root: Node, at milliseconds: Int64) -> [Assignment] {
    var resolved = assignments
    for (index, values) in serverValues {
      let location = resolved[index].location
      for placed in values {
        let place = location.path.appending(placed.path)
        let isPriority = placed.isPriority || location.isPriority
        let old = isPriority ? root.at(place).priority : root.at(place).withoutPriority
        let new = placed.value.resolve(old: old, at: milliseconds)
        if placed.isPriority {
          resolved[index].value.modify(at: placed.path.keys[...]) { $0 = $0.withPriority(new) }
        } else {
          resolved[index].value.set(new, at: placed.path)
        }
      }
      indexedValues?.set(values.map(\.path), in: &resolved[index])
    }
    if resolved.count > 1 {
      var budget = Limits.serverValueBytesMax
      resolved.shareEqualValues(budget: &budget) { _, _ in true }
    }
    return resolved
  }
}

extension Write {
  private static func check(
    _ assignment: Assignment, _ serverValues: [LocatedServerValue]
  ) throws(TreeError) {
    let depth = assignment.location.path.count
    let below = serverValues.reduce(assignment.value.height) { max($0, $1.path.count) }
    guard depth + below <= Limits.depthMax else {
      throw .invalidData("data may stand at most \(Limits.depthMax) levels deep")
    }
    guard assignment.location.isPriority else { return }
    let isServerValue = serverValues.allSatisfy { $0.path.isRoot && !$0.isPriority }
    switch assignment.value.withoutPriority.value {
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
          "one update may set at most \(locationsMax) locations; split it into several")
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
  ///
  /// - Parameter pause: called often while the text is long.
  public static func readUpdate(
    json bytes: UnsafeRawBufferPointer, limits: Limits = Limits(),
    pausing pause: DecodingPause = .none
  ) throws(TreeError) -> [(Location, WriteValue)] {
    try limits.checkWrite(bytes: bytes.count)
    var reader = JSONReader(bytes, limits: limits, pausing: pause)
    let changes = try reader.readUpdate(locationsMax: limits.administratorLocationsMax)
    try reader.readEnd()
    return changes
  }
}
