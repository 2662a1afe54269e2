/// Estimates of the memory of the branches that a write creates on the way to its locations.
extension Node {
  /// Returns the bytes of the keys of a path that do not exist below this node yet, and of the branches between them, or a
  /// little more. The place of the first of these keys in its parent is not counted, and neither is the value.
  ///
  ///     root.newKeyBytes(of: path, for: value)                         // all keys that do not exist
  ///     root.newKeyBytes(of: sibling, for: value, after: parentCount)  // only those below a key that was counted
  ///
  /// - Parameters:
  ///   - value: the value that is set at the path.
  ///   - known: the number of keys at the start of the path that are not counted, although they may not exist.
  /// - Complexity: O(depth × log siblings), and O(bytes) in a packed branch.
  public func newKeyBytes(of path: Path, for value: Node, after known: Int = 0) -> Int {
    let first = max(existingCount(of: path), known)
    var bytes = 0
    // The bytes of the text, as long as a packed branch can hold it.
    var text = value.packedBytes
    for (depth, key) in path.keys.enumerated().reversed() where depth >= first {
      bytes += key.ownMemory
      if depth == first { break }
      // The branch that contains this key.
      let isUnderPushID = if case .push = key.form { true } else { false }
      let added = key.utf8Count + 4
      if let below = text, PackedBranch.isPlain(key), below + added <= PackedBranch.bytesMax,
        !isUnderPushID || (depth == path.count - 1 && !value.isBranch)
      {
        bytes += added + PackedBranch.OffsetTable.stride
        text = below + added
      } else {
        text = nil
        bytes += Node.singlePageBytes
      }
    }
    return bytes
  }

  /// The number of keys of a path that lead to a node.
  private func existingCount(of path: Path) -> Int {
    var node = self
    for (depth, key) in path.keys.enumerated() {
      if let packed = node.packed { return depth + packed.existingCount(of: path.keys[depth...]) }
      guard let child = node.children?.node(key), !child.isAbsent else { return depth }
      node = child
    }
    return path.count
  }

  /// The bytes of the text of the node if a packed branch may hold it, or a few less; else nil. O(1)
  private var packedBytes: Int? {
    switch storage {
    case .absent, .bool, .integer, .double: 4
    case .string(let text): text.utf8.count + 2
    case .packed(let packed): packed.byteCount
    case .branch, .indexed, .prioritized: nil
    }
  }

  /// The bytes of a page that was made for one child, with room for another.
  private static let singlePageBytes = NodeMemory.allocated(
    NodeMemory.objectBytes + MemoryLayout<LeafHeader>.stride
      + 2 * MemoryLayout<Child>.stride)
}
