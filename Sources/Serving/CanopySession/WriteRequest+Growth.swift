internal import CanopyTree
internal import CanopyWire

/// The bytes that a write adds to the memory of the tree, or a little more; 0 or less if it adds none. The copies that
/// the server makes of posts count for the writes of the blog only.
extension WriteRequest {
  /// The bytes at which counting stops.
  static let growthMax = 1024 * 1024

  /// Returns the bytes, as far as they are found soon. An update of many locations counts as if no value was there and all
  /// keys were: see `TreeWrite.newKeyBytes`.
  ///
  /// - Parameters:
  ///   - root: the present tree.
  ///   - user: the user who makes the write.
  func growth(over root: Node, by user: Key?) -> Int {
    switch self {
    case .blog(let write): write.growth(over: root, by: user)
    case .push(let path, let value):
      // A key that does not exist yet.
      TreeWrite.set(Location(path.child(Key(index: 0))), value).growthAtOnce(over: root)
    case .tree(let write), .once(_, let write): write.growthAtOnce(over: root)
    case .undecoded: 0
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

  /// Whether the locations are looked up in the tree when the write is admitted.
  var isLookedUpAtOnce: Bool { locationCount <= Operations.locationsMadeAtOnceMax }

  /// The number of keys in the paths of all locations of an update; 0 for a write of one location. O(locations)
  var keyCount: Int {
    guard case .update(let path, let changes) = self else { return 0 }
    return changes.reduce(0) { $0 + path.count + $1.location.path.count }
  }

  /// Returns the bytes that a write adds, as far as they are counted when it is admitted.
  func growthAtOnce(over root: Node) -> Int {
    growth(over: isLookedUpAtOnce ? root : nil, atMost: WriteRequest.growthMax)
  }

  /// Returns the bytes that a write adds and that `growthAtOnce` has not counted. O(size + locations × log n)
  func growthLater(over root: Node) -> Int {
    let values = max(0, growth(over: nil, atMost: .max / 2) - WriteRequest.growthMax)
    return isLookedUpAtOnce ? values : values + newKeyBytes(over: root)
  }

  /// Returns the bytes that a write adds. O(locations × log n), and O(the size of the new values up to the bound).
  ///
  /// - Parameters:
  ///   - root: the present tree; nil to count the values alone, as if none was there.
  ///   - bytesMax: the bytes of the new values at which counting stops.
  func growth(over root: Node?, atMost bytesMax: Int) -> Int {
    var growth = Growth(bytesMax: bytesMax)
    forEachLocation { location, value in growth.add(value) }
    guard let root else { return growth.result }
    growth.add(newKeyBytes(over: root))
    forEachLocation { location, _ in growth.remove(root, location) }
    return growth.result
  }

  /// Returns the bytes of the keys that do not exist yet, with the branches between them. A key that two locations share
  /// counts once if they follow each other. O(locations × log n)
  func newKeyBytes(over root: Node) -> Int {
    var bytes = 0
    var previous: Path?
    forEachLocation { location, value in
      guard !value.node.isAbsent || !value.serverValues.isEmpty else { return }
      let path = location.path
      let known = previous.map { $0.keysShared(with: path) } ?? 0
      bytes += root.newKeyBytes(of: path, for: value.node, after: known)
      previous = path
    }
    return bytes
  }

  private func forEachLocation(_ body: (Location, WriteValue) -> Void) {
    switch self {
    case .set(let location, let value), .compareAndSet(let location, _, let value):
      body(location, value)
    case .update(let path, let changes):
      for change in changes {
        let keys = path.keys + change.location.path.keys
        body(Location(Path(keys: keys), isPriority: change.location.isPriority), change.value)
      }
    }
  }
}

extension Path {
  /// Returns the number of keys at the start of both paths.
  fileprivate func keysShared(with other: Path) -> Int {
    var count = 0
    for (key, otherKey) in zip(keys, other.keys) {
      guard key == otherKey else { break }
      count += 1
    }
    return count
  }
}

extension DisconnectRequest {
  /// The write that the request arms; nil for a cancellation.
  var treeWrite: TreeWrite? {
    switch self {
    case .set(let location, let value): .set(location, value)
    case .update(let path, let changes): .update(path, changes)
    case .cancel: nil
    }
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

  /// Counts bytes of keys.
  mutating func add(_ bytes: Int) { added += bytes }

  /// Counts the value at a location, which the write replaces. Not much more than the new values is looked at.
  mutating func remove(_ root: Node, _ location: Location) {
    let rest = added + Growth.removedBytesMin - removed
    guard added < bytesMax, rest > 0 else { return }
    let old = location.isPriority ? root.at(location.path).priority : root.at(location.path)
    if !old.isAbsent { removed += old.heldBytes(atMost: rest) }
  }
}
