package import CanopyTree

/// A set of locations without those at or below another one of the set.
///
/// Collects the locations that many commits write. A location that is written again and again costs a look-up
/// each time and is kept once. Only keys below the same path are compared to sort the locations.
package struct LocationSet: Sendable {
  /// The parts of a node that are in the set.
  private enum Part {
    /// The node with everything below it. The trie has nothing below such a node.
    case node
    /// Its priority only.
    case priority
  }

  private var parts = PathTrie<Part>()
  /// The number of locations that were new when they were added. Some may have been replaced since then by a
  /// location above them.
  package private(set) var count = 0

  /// Creates an empty set.
  package init() {}

  /// Adds a location. O(depth) on average.
  package mutating func insert(_ location: Location) {
    let isNew = parts.forEach(along: location.path) { depth, part in
      part == .priority && !(location.isPriority && depth == location.path.count)
    }
    guard isNew else { return }
    count += 1
    parts.modifySubtrie(at: location.path) { level in
      if location.isPriority { level.value = .priority } else { level = PathTrie(.node) }
    }
  }

  /// The locations in order.
  package var sorted: [Location] {
    var result: [Location] = []
    parts.forEachInOrder { path, part in
      result.append(Location(path, isPriority: part == .priority))
    }
    return result
  }
}
