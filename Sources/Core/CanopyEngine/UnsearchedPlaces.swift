internal import CanopyTree

/// The places that commits have changed, and on which too many verdicts depend to find them at once.
///
/// Until all cases have been searched, each case whose verdict depends on such a place waits, and event loops check it.
///
/// A value type. Usually there are none.
struct UnsearchedPlaces {
  /// The default for the most cases that the engine's thread looks at for a commit: less than a millisecond.
  static let looksMax = 1_024
  /// The most places of a commit. If it has more, branches above them count.
  static let notedMax = 64
  /// The most places. If there are more, branches above them count.
  static let placesMax = 1_024

  private var places = PathTrie<Bool>()
  private var count = 0
  /// The most keys of a place.
  private var depthMax = Int.max
  /// The last commit before the first of the changes.
  private(set) var since = Int64.max

  /// Whether there are none.
  var isEmpty: Bool { count == 0 }

  /// Notes the places that a commit changes.
  ///
  /// - Parameter sequence: the last commit before it.
  /// - Complexity: O(keys of the paths). If there are too many places, all of them are changed as well: at most once for
  ///   each level of the tree.
  mutating func add(_ paths: some Collection<Path>, since sequence: Int64) {
    guard let first = paths.first else { return }
    since = min(since, sequence)
    guard paths.count > UnsearchedPlaces.notedMax else {
      for path in paths { add(path) }
      return
    }
    let shared = paths.reduce(first.count) { min($0, first.sharedCount(with: $1)) }
    let children = Set(paths.lazy.map { Self.prefix($0, shared + 1) })
    guard children.count <= UnsearchedPlaces.notedMax else {
      return add(Self.prefix(first, shared))
    }
    for path in children { add(path) }
  }

  private mutating func add(_ path: Path) {
    insert(path)
    while count > UnsearchedPlaces.placesMax { removeLevel() }
  }

  private mutating func insert(_ path: Path) {
    let path = Self.prefix(path, depthMax)
    guard !contains(path) else { return }
    count += 1
    places.modify(at: path) { $0 = true }
  }

  /// Replaces the places with the most keys by the branches above them. So the places of a client that may write only one
  /// branch stay within this branch.
  private mutating func removeLevel() {
    var paths: [Path] = []
    places.forEachInOrder { path, _ in paths.append(path) }
    depthMax = max(0, (paths.lazy.map(\.count).max() ?? 0) - 1)
    (places, count) = (PathTrie(), 0)
    for path in paths.sorted(by: { $0.count < $1.count }) { insert(path) }
  }

  private static func prefix(_ path: Path, _ count: Int) -> Path {
    path.count <= count ? path : Path(keys: Array(path.keys.prefix(count)))
  }

  /// Whether a path is one of the places, or below one.
  func contains(_ path: Path) -> Bool {
    !isEmpty && !places.forEach(along: path) { _, _ in false }
  }

  /// Whether one of some paths is one of the places, or above or below one.
  func overlap(_ paths: [Path]) -> Bool {
    !isEmpty && paths.contains { !places.visit(overlapping: $0) { _, _ in false } }
  }
}
