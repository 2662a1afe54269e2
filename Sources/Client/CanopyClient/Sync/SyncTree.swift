internal import CanopyTree

/// The core of the client: combines the server's data with the unconfirmed local writes, and
/// computes the events of local listeners.
///
/// A value without I/O, clock or tasks. Each step takes an input and returns actions (`Effects`),
/// so every sequence of steps can be replayed. One serial executor or lock of the layer above owns
/// it, and performs the effects in the order of the steps; it calls listeners' and transactions'
/// functions outside the lock.
///
/// - Each query that is listened to has a view: the server's data, and that data with the pending
///   writes applied, which its listeners see. Both are updated incrementally, so a step costs
///   O(depth × log siblings) for each affected location and view, whatever is stored and however
///   many writes are pending.
/// - A view sends whole values once its data is complete; before that it sends events of completely
///   known children.
/// - A listen to a whole location covers all locations below it: no data is requested twice.
///
/// The rules for incomplete data are those of the official Firebase clients, whose published
/// scenarios are its conformance test.
package struct SyncTree: Sendable {
  var views: [ViewID: View] = [:]
  /// The views of each location, in the order of their creation.
  var viewsByPath = PathTrie<[ViewID]>()
  var viewOfSpec: [QuerySpec: ViewID] = [:]
  var viewOfListener: [ListenerID: ViewID] = [:]
  var nextView = 0
  /// The earlier results of the views that the current step has changed; empty between steps.
  var before: [ViewID: View.Shown] = [:]

  var writes = PendingWrites()
  var increments = IncrementIndex()
  var nextWrite: Int64 = 1
  var queue = SendQueue()

  var transactions = TransactionQueue()

  var listens = ServerListens()
  var isConnected = false

  /// The saved data of queries that are not listened to now, if persistence is enabled.
  var saved = SavedQueries()
  var isPersistent = false

  /// Creates a tree without data and without a connection.
  package init() {}
}

extension SyncTree {
  /// Returns the views that a change at a path affects: at it, above and below. The deepest come
  /// first, so that a listener below is notified before one above.
  func views(concernedBy path: Path) -> [ViewID] {
    var found: [ViewID] = []
    viewsByPath.forEach(along: path) { depth, ids in
      if depth < path.count { found += ids }
      return true
    }
    viewsByPath.subtrie(at: path)?.forEach { found += $0 }
    return inOrder(found)
  }

  /// Returns views in the order in which their listeners are notified.
  func inOrder(_ ids: [ViewID]) -> [ViewID] {
    guard ids.count > 1 else { return ids }
    let paths = ids.map { (id: $0, path: views[$0]?.spec.path ?? .root) }
    return paths.sorted { a, b in
      if a.path.count != b.path.count { return a.path.count > b.path.count }
      return a.path != b.path ? a.path < b.path : a.id < b.id
    }.map(\.id)
  }

  /// Changes a view. At the end of the step, `notify` computes the events of all its changes
  /// together.
  mutating func change(_ id: ViewID, _ body: (inout View, PendingWrites) -> Void) {
    guard let shown = views[id]?.shown else { return }
    if before[id] == nil { before[id] = shown }
    // Change it in the table: changing a copy would copy shared storage.
    views[id]?.change { body(&$0, writes) }
  }

  /// Ends a step: adds the events of its changes.
  mutating func notify(_ effects: inout Effects) {
    guard !before.isEmpty else { return }
    for id in inOrder(Array(before.keys)) {
      guard let old = before[id], let view = views[id] else { continue }
      effects.events += view.events(since: old)
    }
    before.removeAll(keepingCapacity: true)
  }
}
