internal import CanopyTree

/// The places that a rules file names, as flat arrays: which rules stand where.
struct RuleTree: Sendable {
  /// One place: a key, or a wildcard that stands for all keys that are not named beside it.
  struct Place: Sendable {
    /// In `Program.rules`; -1 for none.
    var read: Int32 = -1
    var write: Int32 = -1
    var validate: Int32 = -1
    /// Where in `children` the named ones begin.
    var firstChild: Int32 = 0
    var childCount: Int32 = 0
    /// The place of all other children; -1 for none.
    var wildcard: Int32 = -1
    /// -1 for the root.
    var parent: Int32 = -1
    /// Whether there is a `.validate` at some place below.
    var validatesBelow = false
  }

  /// The root is the first.
  var places: [Place] = []
  /// What each place is called in the file.
  var labels: [String] = []
  /// The named children of each place, in the order of their keys.
  var children: [(key: Key, place: Int32)] = []

  /// Named children are gone through up to this number, and bisected beyond.
  private static let scanMax: Int32 = 8

  /// The place that stands for a child of another; -1 for none.
  func child(_ key: Key, of place: Int32) -> Int32 {
    let place = places[Int(place)]
    var low = place.firstChild
    var high = low + place.childCount
    if place.childCount > Self.scanMax {
      while low < high {
        let middle = (low + high) / 2
        if children[Int(middle)].key < key { low = middle + 1 } else { high = middle }
      }
      high = min(low + 1, place.firstChild + place.childCount)
    }
    while low < high {
      if children[Int(low)].key == key { return children[Int(low)].place }
      low += 1
    }
    return place.wildcard
  }

  /// The path of a place: `/posts/$id`.
  func path(of place: Int32) -> String {
    var labels: [String] = []
    var place = place
    while place > 0 {
      labels.append(self.labels[Int(place)])
      place = places[Int(place)].parent
    }
    return "/" + labels.reversed().joined(separator: "/")
  }

  /// The path of a rule: `/posts/$id/.write`.
  func path(of rule: Program.Rule) -> String {
    let path = path(of: rule.node)
    return (path == "/" ? "" : path) + "/" + rule.kind.rawValue
  }
}
