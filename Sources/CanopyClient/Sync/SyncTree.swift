internal import CanopyTree

/// The heart of the client: what the server said, what was written here and is not confirmed, and what
/// local listeners are told of both.
///
/// A value without I/O, clock or tasks. Each step takes what happened and returns what is to be done
/// about it (`Effects`), so that every sequence of steps can be repeated. It belongs to one serial
/// executor or one lock of the layer above, which carries out the effects of each step in the order of
/// the steps; listeners' and transactions' functions are called by that layer, outside the lock.
///
/// - A query that is listened to has a view: the server's data of it, and that data with the pending
///   writes over it, which is what its listeners see. Both are kept up to date by what changes, so a
///   step costs O(depth × log siblings) for each place that it touches and each view there, whatever
///   is stored and however much else is pending.
/// - A view tells whole values once its data is complete; before that it tells of those children that
///   are known completely.
/// - A listen of a whole location covers all that is below it: the server is asked for nothing twice.
///
/// The rules for what is told while little is known are those of the official Firebase clients, whose
/// published scenarios of this are its conformance test.
package struct SyncTree: Sendable {
  var views: [ViewID: View] = [:]
  /// The views of each location, in the order in which they came to be.
  var places = PathTrie<[ViewID]>()
  var viewOfSpec: [QuerySpec: ViewID] = [:]
  var viewOfListener: [ListenerID: ViewID] = [:]
  var nextView = 0
  /// What the views that a step has changed showed before it; empty between steps.
  var before: [ViewID: View.Shown] = [:]

  var writes = PendingWrites()
  var relatives = RelativeWrites()
  var nextWrite: Int64 = 1
  var queue = SendQueue()

  var transactions = TransactionQueue()

  var listens = ServerListens()
  var isConnected = false

  /// What was told of queries that are not asked for now, where that is kept.
  var saved: [QuerySpec: SavedState.SavedQuery] = [:]
  var isPersistent = false

  /// A tree that knows nothing, without a connection.
  package init() {}
}

extension SyncTree {
  /// The views that what happens at a path concerns: of that place, of places above and below. The
  /// deepest first, so that who listens below is told before who listens above.
  func views(concernedBy path: Path) -> [ViewID] {
    var found: [ViewID] = []
    places.forEach(onTheWayTo: path) { depth, ids in
      if depth < path.count { found += ids }
      return true
    }
    places.below(path)?.forEach { found += $0 }
    return inOrder(found)
  }

  /// Views in the order in which their listeners are told.
  func inOrder(_ ids: [ViewID]) -> [ViewID] {
    guard ids.count > 1 else { return ids }
    let paths = ids.map { (id: $0, path: views[$0]?.spec.path ?? .root) }
    return paths.sorted { a, b in
      if a.path.count != b.path.count { return a.path.count > b.path.count }
      return a.path != b.path ? a.path < b.path : a.id < b.id
    }.map(\.id)
  }

  /// Changes a view. What that means for its listeners is found at the end of the step, once for all
  /// of its changes, by `tell`.
  mutating func change(_ id: ViewID, _ body: (inout View, PendingWrites) -> Void) {
    guard let shown = views[id]?.shown else { return }
    if before[id] == nil { before[id] = shown }
    // In its place in the table: of a copy, a change would have to copy more.
    views[id]?.change { body(&$0, writes) }
  }

  /// Ends a step: its listeners are told what it has changed.
  mutating func tell(_ effects: inout Effects) {
    guard !before.isEmpty else { return }
    for id in inOrder(Array(before.keys)) {
      guard let old = before[id], let view = views[id] else { continue }
      effects.events += view.events(since: old)
    }
    before.removeAll(keepingCapacity: true)
  }
}
