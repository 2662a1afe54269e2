/// One resolved step of a commit: at this location, this node from now on.
///
/// Assignments are absolute, so that applying a run of commits a second time, in order, leads to the
/// same tree, whatever part of their effect is there already: recovery rests on that. (For priorities
/// this holds of the assignments that `Tree.apply` returns, which are the ones to journal.)
public struct Assignment: Sendable, Equatable {
  /// Where.
  public var location: Location
  /// What; absent removes.
  public var value: Node

  /// An assignment.
  public init(_ location: Location, _ value: Node) {
    self.location = location
    self.value = value
  }

  /// An assignment of a node to a path.
  public init(_ path: Path, _ value: Node) {
    self.init(Location(path), value)
  }
}

/// The journal's form of a commit's assignments: `[[["a/b","c/d"],value], …]`, each value once with
/// all the locations that it goes to. So a post that is written to two places is journaled once, and
/// is one node in memory again when the journal is read.
public enum AssignmentCodec {
  /// How many of the values before it each value is compared with.
  private static let window = 4

  /// Adds the assignments as JSON. O(bytes).
  public static func encode(_ assignments: [Assignment], to output: inout JSONOutput) {
    var groups: [(value: Node, locations: [Location])] = []
    for assignment in assignments {
      let recent = groups.indices.suffix(window)
      if let i = recent.last(where: { groups[$0].value.isIdentical(to: assignment.value) }) {
        groups[i].locations.append(assignment.location)
      } else {
        groups.append((assignment.value, [assignment.location]))
      }
    }
    output.append(UInt8(ascii: "["))
    for (i, group) in groups.enumerated() {
      if i > 0 { output.append(UInt8(ascii: ",")) }
      output.append("[[")
      for (j, location) in group.locations.enumerated() {
        if j > 0 { output.append(UInt8(ascii: ",")) }
        output.append(location: location)
      }
      output.append("],")
      output.append(group.value, style: .export)
      output.append(UInt8(ascii: "]"))
    }
    output.append(UInt8(ascii: "]"))
  }

  /// The assignments, in the order of their locations.
  ///
  /// - Throws: `TreeError` when the bytes are not in this form.
  public static func decode(
    _ bytes: UnsafeRawBufferPointer
  ) throws(TreeError) -> [Assignment] {
    var result: [Assignment] = []
    try read(bytes) { reader, locations throws(TreeError) in
      let value = try reader.readNode()
      guard value.serverValues.isEmpty else {
        throw .invalidData("a journaled value may not hold server values")
      }
      for location in locations { result.append(Assignment(location, value.node)) }
    }
    result.sort { $0.location < $1.location }
    for (a, b) in zip(result, result.dropFirst()) where a.location.overlaps(next: b.location) {
      throw .invalidData("two assignments of one commit overlap: \(a.location.text)")
    }
    return result
  }

  /// The locations of the assignments alone: the values are only looked at for where they end.
  ///
  /// - Throws: `TreeError` when the locations are not in this form.
  public static func decodeLocations(
    _ bytes: UnsafeRawBufferPointer
  ) throws(TreeError) -> [Location] {
    var result: [Location] = []
    try read(bytes) { reader, locations throws(TreeError) in
      try reader.skipValue()
      result += locations
    }
    return result
  }

  /// - Parameter value: reads the value that goes to some locations.
  private static func read(
    _ bytes: UnsafeRawBufferPointer,
    _ value: (inout JSONReader, [Location]) throws(TreeError) -> Void
  ) throws(TreeError) {
    var reader = JSONReader(bytes, limits: .none)
    let open = UInt8(ascii: "[")
    let close = UInt8(ascii: "]")
    guard reader.peekToken() == open else { throw reader.error("expected [") }
    try reader.readMembers(close: close) { reader throws(TreeError) in
      try reader.expect(open, "[")
      guard reader.peekToken() == open else { throw reader.error("expected [") }
      var locations: [Location] = []
      try reader.readMembers(close: close) { reader throws(TreeError) in
        guard reader.peekToken() == UInt8(ascii: "\"") else {
          throw reader.error("expected a path in quotes")
        }
        locations.append(try Location(try reader.readText()))
      }
      try reader.expect(UInt8(ascii: ","), ",")
      try value(&reader, locations)
      try reader.expect(close, "]")
    }
    try reader.readEnd()
  }
}
