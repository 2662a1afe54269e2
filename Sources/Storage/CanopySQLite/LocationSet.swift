internal import CanopyTree

/// A set of locations as a trie. A location covers all locations at and below it, which are not stored separately.
///
/// It collects the locations that many commits wrote. Inserting a location again costs one look-up and no memory.
/// Sorting compares only the keys of siblings.
struct LocationSet {
  private struct Level {
    /// Whether the set has the location of this level. Then it has no levels below.
    var isWhole = false
    var hasPriority = false
    var children: [Key: Level] = [:]
  }

  private var root = Level()
  /// The number of insertions that were not covered yet. A later insertion above them does not decrease it.
  private(set) var count = 0

  /// Inserts a location.
  mutating func insert(_ location: Location) {
    if LocationSet.insert(location.path.keys[...], location.isPriority, into: &root) { count += 1 }
  }

  /// Returns whether the location was not covered before.
  private static func insert(
    _ keys: ArraySlice<Key>, _ isPriority: Bool, into level: inout Level
  ) -> Bool {
    if level.isWhole { return false }
    guard let key = keys.first else {
      if isPriority {
        defer { level.hasPriority = true }
        return !level.hasPriority
      }
      level = Level(isWhole: true)
      return true
    }
    return insert(keys.dropFirst(), isPriority, into: &level.children[key, default: Level()])
  }

  /// The locations in order. None is at or below another.
  var sorted: [Location] {
    var result: [Location] = []
    LocationSet.collect(root, .root, into: &result)
    return result
  }

  private static func collect(_ level: Level, _ path: Path, into result: inout [Location]) {
    if level.isWhole { return result.append(Location(path)) }
    if level.hasPriority { result.append(Location(path, isPriority: true)) }
    for (key, child) in level.children.sorted(by: { $0.key < $1.key }) {
      collect(child, path.child(key), into: &result)
    }
  }
}
