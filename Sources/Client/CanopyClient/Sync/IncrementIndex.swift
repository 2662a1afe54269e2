internal import CanopyTree

/// An index of the pending writes with increments, by the incremented locations: their results
/// depend on the current values.
struct IncrementIndex: Sendable {
  /// The writes that increment each location, ascending.
  private var ids = PathTrie<[WriteID]>()

  var isEmpty: Bool { ids.isEmpty }

  /// Adds a write. Cheapest if it is the newest.
  mutating func add(_ id: WriteID, _ write: Write) {
    for path in Self.paths(of: write) {
      ids.modify(at: path) { list in
        if list == nil { list = [] }
        let index = Self.index(in: list ?? [], after: id)
        if index == 0 || list?[index - 1] != id { list?.insert(id, at: index) }
      }
    }
  }

  /// Removes a write. Cheapest if it is the oldest.
  mutating func remove(_ id: WriteID, _ write: Write) {
    for path in Self.paths(of: write) {
      ids.modify(at: path) { list in
        if let index = list?.firstIndex(of: id) { list?.remove(at: index) }
        if list?.isEmpty == true { list = nil }
      }
    }
  }

  /// Returns the first write at each location at, above or below any of the paths.
  ///
  /// - Parameter earlier: excludes this write and all before it.
  func first(concernedBy paths: [Path], after earlier: WriteID?) -> Set<WriteID> {
    guard !ids.isEmpty else { return [] }
    var found: Set<WriteID> = []
    for path in paths {
      ids.forEach(overlapping: path) { list in
        let index = earlier.map { Self.index(in: list, after: $0) } ?? 0
        if index < list.count { found.insert(list[index]) }
      }
    }
    return found
  }

  /// Returns the next write at each location that a write increments.
  func next(after id: WriteID, _ write: Write) -> [WriteID] {
    Self.paths(of: write).compactMap { path in
      guard let list = ids[path] else { return nil }
      let index = Self.index(in: list, after: id)
      return index < list.count ? list[index] : nil
    }
  }

  /// Returns the index of the first id after another one.
  ///
  /// - Complexity: O(log n).
  private static func index(in list: [WriteID], after id: WriteID) -> Int {
    var (low, high) = (0, list.count)
    while low < high {
      let middle = low + (high - low) / 2
      if list[middle] <= id { low = middle + 1 } else { high = middle }
    }
    return low
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
