internal import CanopyTree

/// An index of the pending writes with increments, by the incremented locations: their results
/// depend on the current values.
struct IncrementIndex: Sendable {
  /// The number of increments of each location, by write.
  private var counts = PathTrie<[WriteID: Int]>()

  var isEmpty: Bool { counts.isEmpty }

  mutating func add(_ id: WriteID, _ write: Write) {
    for path in Self.paths(of: write) {
      counts.modify(at: path) { $0 = ($0 ?? [:]).merging([id: 1]) { $0 + $1 } }
    }
  }

  mutating func remove(_ id: WriteID, _ write: Write) {
    for path in Self.paths(of: write) {
      counts.modify(at: path) { ids in
        ids?[id] = nil
        if ids?.isEmpty == true { ids = nil }
      }
    }
  }

  /// Returns the writes with increments at, above or below any of the paths, in order.
  func concerned(by paths: [Path]) -> [WriteID] {
    guard !counts.isEmpty else { return [] }
    var found: Set<WriteID> = []
    for path in paths {
      counts.forEach(along: path) { _, ids in
        found.formUnion(ids.keys)
        return true
      }
      counts.subtrie(at: path)?.forEach { found.formUnion($0.keys) }
    }
    return found.sorted()
  }

  private static func paths(of write: Write) -> [Path] {
    guard write.items.contains(where: { !$0.value.serverValues.isEmpty }) else { return [] }
    return write.items.flatMap { item in
      item.value.serverValues.compactMap { placed in
        if case .increment = placed.value { item.location.path.appending(placed.path) } else { nil }
      }
    }
  }
}
