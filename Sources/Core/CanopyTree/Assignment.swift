/// One resolved step of a commit: the node that a location holds from now on.
///
/// Assignments are absolute. Applying a run of commits a second time, in order, leads to the same
/// tree, whichever part of their effect is already there; recovery depends on this. (For priorities
/// this holds for the assignments that `Tree.apply` returns. Journal those.)
public struct Assignment: Sendable, Equatable {
  /// The location to write.
  public var location: Location
  /// The new node; absent removes.
  public var value: Node

  /// Creates an assignment.
  public init(_ location: Location, _ value: Node) {
    self.location = location
    self.value = value
  }

  /// Creates an assignment of a node to a path.
  public init(_ path: Path, _ value: Node) {
    self.init(Location(path), value)
  }
}

/// The journal's form of a commit's assignments: `[[["a/b","c/d"],value], …]`.
///
/// Each value is written once, with all its locations. A post that is written to two locations is
/// therefore journaled once, and is one node in memory again when the journal is read.
public enum AssignmentCodec {
  /// The number of preceding values that each value is compared with. So at most as many groups are open at an
  /// assignment: groups that begin before it and end at it or later.
  static let window = 4

  /// Appends the assignments as JSON.
  ///
  /// - Parameters:
  ///   - write: the write that they come from, whose encoded values are copied.
  ///   - bytesMax: the bytes after which encoding stops.
  /// - Returns: false if there are more bytes than that; then the output ends anywhere.
  /// - Complexity: O(bytes), at most O(bytesMax) and what the last location or leaf adds.
  @discardableResult
  public static func encode(
    _ assignments: [Assignment], of write: Write? = nil, to output: inout JSONOutput,
    bytesMax: Int = .max
  ) -> Bool {
    withGroups(of: assignments) { groups in
      encode(assignments, groups, of: write, to: &output, bytesMax: bytesMax)
    }
  }

  private static func encode(
    _ assignments: [Assignment], _ groups: Groups, of write: Write?, to output: inout JSONOutput,
    bytesMax: Int
  ) -> Bool {
    let start = output.count
    output.append(UInt8(ascii: "["))
    for head in assignments.indices where !groups.isFollower(head) {
      output.append(head > 0 ? ",[[" : "[[")
      var index = head
      repeat {
        if index > head { output.append(UInt8(ascii: ",")) }
        output.append(location: assignments[index].location)
        if output.count - start > bytesMax { return false }
        index = groups.next(index)
      } while index > 0
      output.append("],")
      let value = assignments[head].value
      if write?.encodedValues?.withText(of: value, { output.append($0) }) == nil {
        let left = bytesMax - (output.count - start)
        guard output.append(value, style: .export, upTo: left) else { return false }
      }
      output.append(UInt8(ascii: "]"))
    }
    output.append(UInt8(ascii: "]"))
    return output.count - start <= bytesMax
  }

  /// The assignments with identical values, in lists. Each is in the order of the assignments, and so are the heads.
  private struct Groups {
    /// The index of the next assignment of the group, or 0 for none; its complement if the assignment is not a head.
    let links: UnsafeMutableBufferPointer<Int32>

    func isFollower(_ index: Int) -> Bool { links[index] < 0 }

    func next(_ index: Int) -> Int {
      Int(links[index] < 0 ? ~links[index] : links[index])
    }

    func setNext(_ index: Int, to next: Int) {
      let next = Int32(truncatingIfNeeded: next)
      links[index] = links[index] < 0 ? ~next : next
    }
  }

  private static func withGroups<R>(of assignments: [Assignment], _ body: (Groups) -> R) -> R {
    withUnsafeTemporaryAllocation(of: Int32.self, capacity: assignments.count) { links in
      links.initialize(repeating: 0)
      let groups = Groups(links: links)
      // The last index of each recent group, in a ring.
      var recent = SIMD4<Int32>(repeating: -1)
      assert(recent.scalarCount == window, "a group is recent while it is in the ring")
      var count = 0
      for index in assignments.indices {
        var found: Int?
        for back in 1...window where back <= count {
          let slot = (count - back) % window
          let other = assignments[Int(recent[slot])].value
          if other.isIdentical(to: assignments[index].value) {
            found = slot
            break
          }
        }
        if let found {
          groups.setNext(Int(recent[found]), to: index)
          links[index] = ~0
          recent[found] = Int32(truncatingIfNeeded: index)
        } else {
          recent[count % window] = Int32(truncatingIfNeeded: index)
          count += 1
        }
      }
      return body(groups)
    }
  }

  /// Returns the assignments, ordered by location.
  ///
  /// - Throws: `TreeError` if the bytes are not in this form.
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

  /// Returns only the locations of the assignments. The values are skipped and may be invalid.
  ///
  /// - Throws: `TreeError` if the locations are not in this form.
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

  /// Reads the groups of the journal's form.
  ///
  /// - Parameter value: reads the value of the given locations.
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
