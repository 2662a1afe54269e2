internal import CanopyTree
internal import CanopyWire

/// The bytes that a write adds to the memory of the tree, or a little more; 0 or less if it adds none. The copies that
/// the server makes of posts count for the writes of the blog only.
extension WriteRequest {
  /// The bytes at which counting stops.
  static let growthMax = 1024 * 1024

  /// Returns the bytes, as far as they are found soon. An update of many locations counts as if nothing was there.
  ///
  /// - Parameters:
  ///   - root: the present tree.
  ///   - user: the user who makes the write.
  func growth(over root: Node, by user: Key?) -> Int {
    switch self {
    case .blog(let write): write.growth(over: root, by: user)
    case .push(let path, let value):
      // A key that does not exist yet.
      TreeWrite.set(Location(path), value).growth(over: .absent, atMost: WriteRequest.growthMax)
    case .tree(let write), .once(_, let write):
      write.growth(
        over: write.locationCount > Operations.locationsMadeAtOnceMax ? .absent : root,
        atMost: WriteRequest.growthMax)
    }
  }
}

extension TreeWrite {
  var locationCount: Int {
    switch self {
    case .set, .compareAndSet: 1
    case .update(_, let changes): changes.count
    }
  }

  /// Returns the bytes that a write adds. O(locations × log n), and O(the size of the new values up to the bound).
  ///
  /// - Parameter bytesMax: the bytes of the new values at which counting stops.
  func growth(over root: Node, atMost bytesMax: Int) -> Int {
    var growth = Growth(bytesMax: bytesMax)
    switch self {
    case .set(let location, let value), .compareAndSet(let location, _, let value):
      growth.add(value)
      growth.remove(root, location)
    case .update(let path, let changes):
      for change in changes { growth.add(change.value) }
      for change in changes {
        let keys = path.keys + change.location.path.keys
        growth.remove(
          root, Location(Path(keys: keys), isPriority: change.location.isPriority))
      }
    }
    return growth.result
  }
}

/// The bytes of new values, less those of the values that they replace.
private struct Growth {
  let bytesMax: Int
  private var added = 0
  private var removed = 0

  init(bytesMax: Int) {
    self.bytesMax = bytesMax
  }

  /// The bytes of a server value or a priority.
  private static let smallValueBytes = 64
  /// The bytes of replaced values that are counted although the new values have fewer.
  private static let removedBytesMin = 64 * 1024

  var result: Int { added < bytesMax ? added - removed : bytesMax }

  mutating func add(_ value: WriteValue) {
    guard added < bytesMax else { return }
    added += value.serverValues.count * Growth.smallValueBytes
    if !value.node.isAbsent { added += value.node.heldBytes(atMost: max(0, bytesMax - added)) }
  }

  /// Counts the value at a location, which the write replaces. Not much more than the new values is looked at.
  mutating func remove(_ root: Node, _ location: Location) {
    let rest = added + Growth.removedBytesMin - removed
    guard added < bytesMax, rest > 0 else { return }
    let old = location.isPriority ? root.at(location.path).priority : root.at(location.path)
    if !old.isAbsent { removed += old.heldBytes(atMost: rest) }
  }
}
