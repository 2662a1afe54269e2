internal import CanopyTree

/// Locations as a trie: what is at or below another one is there with it.
///
/// Collects what many commits wrote. A place that is written again and again costs a look-up each time
/// and is there once; and only keys below one place are compared to bring all into order.
struct LocationSet {
  private struct Level {
    /// Whether the place as a whole is in the set; then nothing below it is kept.
    var isWhole = false
    var hasPriority = false
    var children: [Key: Level] = [:]
  }

  private var root = Level()
  /// The number of locations that were added and not there; some may have gone since, with one above.
  private(set) var count = 0

  /// Adds a location.
  mutating func insert(_ location: Location) {
    if LocationSet.insert(location.path.keys[...], location.isPriority, into: &root) { count += 1 }
  }

  /// Returns whether it was not there.
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

  /// The locations in order, none at or below another.
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
