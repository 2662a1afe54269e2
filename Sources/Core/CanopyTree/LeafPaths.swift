/// The bytes of the paths of leaves, beside the bytes of the data.
private struct LeafPaths {
  /// The bytes of JSON of the shortest server value.
  static let serverValueBytes = #"{".sv":"timestamp"}"#.utf8.count

  /// The bytes of the longest path of a leaf.
  var longest = 0
  /// The bytes of the paths of all leaves, each with the keys from the root.
  var all = 0
  /// The bytes of the keys, each once, and of the leaves: a little less than those of the JSON.
  var data = 0

  /// Adds a node. O(leaves)
  ///
  /// - Parameter prefix: the bytes of its path.
  mutating func add(_ node: Node, below prefix: Int) {
    if !node.priority.isAbsent { all += prefix }
    guard node.isBranch else {
      longest = max(longest, prefix)
      all += prefix
      return data += node.stringValue?.utf8.count ?? 1
    }
    node.forEachChild { key, child in
      data += key.utf8Count + 4
      add(child, below: prefix + key.utf8Count + 1)
      return true
    }
  }

  /// Adds a server value, which becomes a leaf or the priority of a node. O(depth)
  mutating func add(_ serverValue: LocatedServerValue, below prefix: Int) {
    let path = prefix + Write.bytes(serverValue.path)
    longest = max(longest, path)
    all += path
    data += (serverValue.path.last?.utf8Count ?? 0) + LeafPaths.serverValueBytes
  }
}

extension Write {
  /// Checks the paths of the leaves. The checkpoint has each leaf of a large branch with its whole path, so a request
  /// with a long path and many small leaves would fill the disk.
  ///
  /// - Complexity: O(assignments) if the values are small; else O(leaves).
  /// - Throws: `TreeError.tooLarge` if a path has more than `Limits.leafPathBytesMax` bytes; or if all together have more
  ///   than `Limits.updatePathBytesMax` bytes and more than `Limits.leafPathBytesPerByte` times the bytes of the data and
  ///   of one path.
  /// - Returns: the bytes of the paths of all leaves; 0 if the values are small.
  @discardableResult
  public func checkLeafPaths() throws(TreeError) -> Int {
    guard mayHaveLongPaths else { return 0 }
    var paths = LeafPaths()
    for (index, assignment) in assignments.enumerated() {
      let prefix = Write.bytes(assignment.location.path)
      if !assignment.value.isAbsent { paths.add(assignment.value, below: prefix) }
      for serverValue in serverValues(at: index) { paths.add(serverValue, below: prefix) }
    }
    guard paths.longest <= Limits.leafPathBytesMax else {
      throw .tooLarge("the path of a value may have at most \(Limits.leafPathBytesMax) bytes")
    }
    let once = assignments.first.map { Write.bytes($0.location.path) } ?? 0
    let allowed = max(Limits.updatePathBytesMax, Limits.leafPathBytesPerByte * (once + paths.data))
    guard paths.all > allowed else { return paths.all }
    throw .tooLarge(
      "the paths of the values in one write have \(paths.all) bytes, and may have \(allowed) for data of this size; "
        + "use shorter keys, or fewer levels")
  }

  fileprivate static func bytes(_ path: Path) -> Int {
    path.keys.reduce(0) { $0 + $1.utf8Count + 1 }
  }

  /// Whether the paths of the leaves may exceed a bound: an estimate.
  private var mayHaveLongPaths: Bool {
    let bytesMax = 1_024
    var rest = Limits.updatePathBytesMax
    for (index, assignment) in assignments.enumerated() {
      for serverValue in serverValues(at: index) {
        let path = Write.bytes(assignment.location.path) + Write.bytes(serverValue.path)
        rest -= path
        guard rest >= 0, path <= Limits.leafPathBytesMax else { return true }
      }
      guard !assignment.value.isAbsent else { continue }
      var unused = bytesMax
      guard assignment.value.isLeaf || assignment.value.fits(budget: &unused) else { return true }
      // A leaf takes at least two bytes of JSON. So a value has at most half as many leaves as bytes, and a path within it
      // is shorter than the value.
      let bytes = assignment.value.isLeaf ? 0 : bytesMax - unused
      let pathMax = Write.bytes(assignment.location.path) + bytes
      rest -= (bytes / 2 + 1) * pathMax
      guard rest >= 0, pathMax <= Limits.leafPathBytesMax else { return true }
    }
    return false
  }
}
