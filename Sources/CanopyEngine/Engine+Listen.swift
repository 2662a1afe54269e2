internal import CanopyTree

/// What tells one listener from all others of its engine.
public struct ListenerID: Hashable, Sendable {
  let number: Int
}

extension Engine {
  /// Begins to listen.
  ///
  /// The listener is told what every commit after the starting point did to what it listens to, in
  /// the order of the commits, each once, and only when the commit is durable. It is told before the
  /// writer of the commit gets its answer.
  ///
  /// - Parameters:
  ///   - group: whom the listener is one of. Of those with the same wish in one group only the first
  ///     one's closure is called, for all of them; so many connections on one thread cost one call.
  ///   - listener: called on the engine's task; it must be brief, and hand on what takes time.
  ///   - started: called once, before the listener is, with the starting point. On the engine's task
  ///     as well, or at once when the engine is stopping; then with no id, and the listener is never
  ///     called.
  public func listen(
    _ listening: Listening, group: ObjectIdentifier? = nil,
    _ listener: @escaping @Sendable (Notification) -> Void,
    started: @escaping @Sendable (ListenerID?, ListenStart) -> Void
  ) {
    // In line with the commits: between two of them, with nothing lost or told twice.
    let isAccepted = inLine(keeping: listening.query.order, at: listening.path) { engine in
      let id = engine.listeners.add(listening, group: group, listener)
      started(ListenerID(number: id), ListenStart(listening, engine.snapshot))
    }
    if !isAccepted { started(nil, ListenStart(listening, snapshot)) }
  }

  /// Ends listening. The listener may still be called by a commit that is being told at this moment.
  ///
  /// - Returns: whether there was such a listener.
  @discardableResult
  public func unlisten(_ id: ListenerID) -> Bool {
    listeners.remove(id.number)
  }

  /// The number of listeners, and of the views that they share.
  public var listenerCounts: (listeners: Int, views: Int) { listeners.counts }

  /// Tells listeners what commits did, one commit after the other.
  ///
  /// The versions between the commits of a group are made anew from the last published one, only as
  /// far as somebody listens.
  ///
  /// - Parameter tree: as it was before the first of the commits.
  func tell(_ commits: [Commit], since tree: Tree) {
    let concerned = commits.map { listeners.views(concernedBy: $0.assignments) }
    guard let last = concerned.lastIndex(where: { !$0.isEmpty }) else { return }
    var tree = tree
    for (commit, views) in zip(commits, concerned).prefix(last + 1) {
      let before = tree.root
      tree.apply(commit.assignments)
      for view in views {
        let events = view.listening.events(
          from: before, to: tree.root, by: commit.assignments)
        if !events.isEmpty {
          view.tell(Notification(sequence: commit.sequence, events: events))
          keepIndex(of: view.listening, in: tree.root)
        }
      }
    }
  }

  /// Children from which on a location with listeners keeps the index of their order: fewer are sorted
  /// as fast.
  private static let indexedChildrenMin = 256

  /// Makes up for an index that was not added when listening began, as there was nothing there yet, or
  /// that went with a commit that failed: without it, every commit has the children sorted.
  private func keepIndex(of listening: Listening, in root: Node) {
    let node = root.at(listening.path)
    guard node.childCount >= Engine.indexedChildrenMin, !listening.query.isIndexed(in: node) else {
      return
    }
    keepIndexLater(listening.query.order, at: listening.path)
  }
}
