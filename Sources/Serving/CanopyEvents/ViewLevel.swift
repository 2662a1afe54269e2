internal import CanopyEngine
internal import CanopyTree

/// The views at one location on one event loop.
///
/// The views whose queries have bounds are indexed by their ranges. So a commit that changes one child costs the views
/// that may show the child, and not those whose bounds exclude it.
final class ViewLevel {
  /// The location.
  let path: Path
  private(set) var views: [Listening: LocalView] = [:]
  /// The views with bounds, by the order of their queries.
  private var ranges: [Order: RangeIndex] = [:]
  /// The views without bounds, by number: any child may change them.
  private(set) var unbounded: [Int: LocalView] = [:]

  init(_ path: Path) {
    self.path = path
  }

  func add(_ view: LocalView) {
    views[view.listening] = view
    let query = view.listening.query
    if query.hasBounds {
      ranges[query.order, default: RangeIndex()].insert(view)
    } else {
      unbounded[view.number] = view
    }
  }

  func remove(_ view: LocalView) {
    views[view.listening] = nil
    let order = view.listening.query.order
    unbounded[view.number] = nil
    ranges[order]?.remove(view)
    if ranges[order]?.isEmpty == true { ranges[order] = nil }
  }

  /// Visits the views whose ranges contain a child before or after a change, until `body` returns false.
  ///
  /// - Parameter looks: is increased by the number of orders and ranges that were looked at.
  func visitRanges(
    containing key: Key, before: Node, after: Node, looks: inout Int, _ body: (LocalView) -> Bool
  ) {
    for (order, index) in ranges {
      looks += 1
      for node in [before, after] where !node.isAbsent {
        let isDone = index.visit(containing: order.value(of: node), key, looks: &looks, body)
        if !isDone { return }
      }
    }
  }
}

extension Query {
  fileprivate var hasBounds: Bool { lower != nil || upper != nil }
}

/// The search for the views that a commit may have changed.
///
/// - Complexity: O(log n) for each child that was written and for each view found, and no more than a few times the
///   number of views.
struct ViewSearch {
  private let change: CommittedChange
  private var found: [Int: LocalView] = [:]
  /// The number of ranges that were looked at, by the location.
  private var looks: [ObjectIdentifier: Int] = [:]
  /// The locations of which all views without bounds were found, and those of which all views were.
  private var seen: (unbounded: Set<ObjectIdentifier>, all: Set<ObjectIdentifier>) = ([], [])

  /// Finds the views that a commit may have changed.
  init(_ change: CommittedChange, in views: PathTrie<ViewLevel>) {
    self.change = change
    for path in change.paths {
      views.visit(overlapping: path) { next, level in
        search(level, next)
        return true
      }
    }
  }

  /// The views that were found, the newest first.
  var views: [LocalView] { found.values.sorted { $0.number > $1.number } }

  /// The number of ranges that were looked at.
  var lookCount: Int { looks.values.reduce(0, +) }

  /// - Parameter key: the child that was written; nil if the whole location may have changed.
  private mutating func search(_ level: ViewLevel, _ key: Key?) {
    let id = ObjectIdentifier(level)
    if seen.all.contains(id) { return }
    guard let key else { return addAll(level) }
    if seen.unbounded.insert(id).inserted { add(level.unbounded.values) }
    let (before, after) = change.child(key, of: level.path)
    // A search that looks at more is no cheaper than to take all.
    let looksMax = 64 + 4 * level.views.count
    var count = looks[id] ?? 0
    let viewsMax = looksMax - count
    var views: [LocalView] = []
    level.visitRanges(containing: key, before: before, after: after, looks: &count) { view in
      views.append(view)
      return views.count <= viewsMax
    }
    looks[id] = count
    if count > looksMax { addAll(level) } else { add(views) }
  }

  private mutating func addAll(_ level: ViewLevel) {
    guard seen.all.insert(ObjectIdentifier(level)).inserted else { return }
    add(level.views.values)
  }

  private mutating func add(_ views: some Sequence<LocalView>) {
    for view in views { found[view.number] = view }
  }
}
