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

  /// Adds a location.
  mutating func insert(_ location: Location) {
    LocationSet.insert(location.path.keys[...], location.isPriority, into: &root)
  }

  private static func insert(
    _ keys: ArraySlice<Key>, _ isPriority: Bool, into level: inout Level
  ) {
    if level.isWhole { return }
    guard let key = keys.first else {
      if isPriority {
        level.hasPriority = true
      } else {
        level = Level(isWhole: true)
      }
      return
    }
    insert(keys.dropFirst(), isPriority, into: &level.children[key, default: Level()])
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
