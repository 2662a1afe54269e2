internal import CanopyTree

/// Which pending writes depend on what stands where they write: those with increments, by the places
/// of those.
struct RelativeWrites: Sendable {
  /// How often each write increments each place.
  private var places = PathTrie<[WriteID: Int]>()

  var isEmpty: Bool { places.isEmpty }

  mutating func add(_ id: WriteID, _ write: Write) {
    for place in Self.places(write) {
      places.modify(place) { $0 = ($0 ?? [:]).merging([id: 1]) { $0 + $1 } }
    }
  }

  mutating func remove(_ id: WriteID, _ write: Write) {
    for place in Self.places(write) {
      places.modify(place) { ids in
        ids?[id] = nil
        if ids?.isEmpty == true { ids = nil }
      }
    }
  }

  /// The writes with increments at, above or below one of these paths, in order.
  func concerned(by paths: [Path]) -> [WriteID] {
    guard !places.isEmpty else { return [] }
    var found: Set<WriteID> = []
    for path in paths {
      places.forEach(onTheWayTo: path) { _, ids in
        found.formUnion(ids.keys)
        return true
      }
      places.below(path)?.forEach { found.formUnion($0.keys) }
    }
    return found.sorted()
  }

  private static func places(_ write: Write) -> [Path] {
    guard write.items.contains(where: { !$0.value.serverValues.isEmpty }) else { return [] }
    return write.items.flatMap { item in
      item.value.serverValues.compactMap { placed in
        if case .increment = placed.value { item.location.path.appending(placed.path) } else { nil }
      }
    }
  }
}
