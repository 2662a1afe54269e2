/// Locations, each with everything below it, as a set that ordered locations are looked up in.
///
/// The location of a node covers the node, its priority and everything below. The location of a priority
/// covers itself alone.
///
///     var cover = LocationCover([try Location("a"), try Location("b/c")])
///     cover.location(covering: try Location("a/x"))  // a
///
/// The locations are sorted and none covers another. So at most one of them covers a given location, and
/// that one is the last that does not come after it.
public struct LocationCover: Sendable {
  private let locations: [Location]
  /// The locations before this index come before every location that will be looked up.
  private var start = 0

  /// Creates the set. O(n log n), and O(n) for sorted locations.
  public init(_ locations: [Location]) {
    let isSorted = zip(locations, locations.dropFirst()).allSatisfy { $0 <= $1 }
    var kept: [Location] = []
    for location in isSorted ? locations : locations.sorted()
    where !(kept.last?.overlaps(next: location) ?? false) {
      kept.append(location)
    }
    self.locations = kept
  }

  /// Returns the location that covers another one, or nil. The locations asked for must come in order.
  ///
  /// Searches with doubling steps from the position of the last answer: O(log distance), so that going
  /// through n locations costs O(n log (count / n)) and at most O(n + count).
  mutating func location(covering location: Location) -> Location? {
    // The index before which all locations are known to be at or before `location`.
    var low = start
    var step = 1
    var high = low
    while high < locations.count, isAtOrBefore(high, location) {
      low = high + 1
      high += step
      step *= 2
    }
    high = min(high, locations.count)
    while low < high {
      let middle = low + (high - low) / 2
      if isAtOrBefore(middle, location) { low = middle + 1 } else { high = middle }
    }
    start = max(low - 1, 0)
    guard low > 0, locations[low - 1].overlaps(next: location) else { return nil }
    return locations[low - 1]
  }

  private func isAtOrBefore(_ index: Int, _ location: Location) -> Bool {
    WorkCounter.touch()
    return !(location < locations[index])
  }
}
