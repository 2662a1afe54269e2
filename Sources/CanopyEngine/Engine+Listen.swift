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
  ///   - judge: says whether it may listen: at the starting point, and again when a commit writes
  ///     what the verdict depends on, before anybody is told of that commit. Nil: it may.
  ///   - listener: called on the engine's task; it must be brief, and hand on what takes time. It may
  ///     be called for a commit that changed nothing for it: then there are no events. To ask for them
  ///     takes time.
  ///   - denied: called once, on the engine's task, when it no longer may. Of the group's closure it is
  ///     then for the group to see that this listener gets nothing of later calls. Nil: it is never
  ///     asked again, and can be given no judge.
  ///   - started: called once, before the listener is, with the starting point. On the engine's task
  ///     as well, or at once when the engine is stopping. Without an id when the engine is stopping or
  ///     it may not listen; then the listener is never called.
  public func listen(
    _ listening: Listening, group: ObjectIdentifier? = nil, judge: ListenJudge? = nil,
    _ listener: @escaping @Sendable (Notification) -> Void,
    denied: (@Sendable () -> Void)? = nil,
    started: @escaping @Sendable (ListenerID?, ListenStart) -> Void
  ) {
    // In line with the commits: between two of them, with nothing lost or told twice.
    let isAccepted = inLine(keeping: listening.query.order, at: listening.path) { engine in
      let snapshot = engine.snapshot
      let verdict = judge?.verdict(snapshot.root, engine.now())
      guard verdict?.isAllowed != false else {
        return started(nil, ListenStart(deniedAt: snapshot.sequence, listening))
      }
      let id = engine.listeners.add(listening, group: group, listener)
      if let denied {
        engine.judges.add(id, judge, verdict ?? ListenVerdict(isAllowed: true), denied: denied)
      }
      started(ListenerID(number: id), ListenStart(listening, snapshot, verdict))
    }
    if !isAccepted { started(nil, ListenStart(listening, snapshot)) }
  }

  /// Gives listeners other judges, nil for none, and asks these, in line with the commits. Listeners
  /// that no longer may listen are told so before `done` is called.
  ///
  /// - Parameter done: called once, on the engine's task, or at once when the engine is stopping.
  public func setJudges(
    _ changes: [(id: ListenerID, judge: ListenJudge?)], done: @escaping @Sendable () -> Void
  ) {
    let isAccepted = inLine { engine in
      for (id, judge) in changes { engine.judges.setJudge(judge, of: id.number) }
      engine.ask(changes.map(\.id.number), engine.root, engine.now())
      done()
    }
    if !isAccepted { done() }
  }

  /// Changes something that judges go by, and asks them anew, in line with the commits: listeners
  /// that no longer may listen are told of no later commit.
  ///
  /// - Parameters:
  ///   - group: whose judges are asked; nil for all.
  ///   - change: called once, on the engine's task, or at once when the engine is stopping.
  ///   - done: called once, after `change`, when all have been asked.
  public func judgeAnew(
    _ group: ObjectIdentifier? = nil, after change: @escaping @Sendable () -> Void = {},
    done: @escaping @Sendable () -> Void = {}
  ) {
    let isAccepted = inLine { engine in
      change()
      engine.ask(engine.judges.ids(of: group), engine.root, engine.now())
      done()
    }
    if !isAccepted {
      change()
      done()
    }
  }

  /// Asks judges, and ends the listeners that may no longer listen.
  private func ask(_ ids: [Int], _ root: Node, _ time: Int64) {
    for id in ids where !judges.ask(id, root, time) { listeners.remove(id) }
  }

  /// Ends listening. The listener may still be called by a commit that is being told at this moment.
  ///
  /// - Returns: whether there was such a listener.
  @discardableResult
  public func unlisten(_ id: ListenerID) -> Bool {
    judges.remove(id.number)
    return listeners.remove(id.number)
  }

  /// The number of listeners, and of the views that they share.
  public var listenerCounts: (listeners: Int, views: Int) { listeners.counts }

  /// The number of listeners that are judged, and of the places that their verdicts depend on.
  public var judgeCounts: (judges: Int, places: Int) { judges.counts }

  /// Notifies listeners of commits, one commit after the other.
  ///
  /// The versions between the commits of a group are made anew from the last published one, only as
  /// far as somebody listens.
  ///
  /// - Parameter tree: as it was before the first of the commits.
  func tell(_ commits: [Commit], since tree: Tree) {
    let concerned = commits.map { listeners.views(concernedBy: $0.assignments) }
    let lastTold = concerned.lastIndex { !$0.isEmpty }
    // Whom a commit concerns may change with the one before.
    let lastJudged = judges.isIdle ? nil : commits.indices.last
    guard let last = lastJudged ?? lastTold else { return }
    var tree = tree
    var budget = configuration.notifyingCostMax
    for (commit, views) in zip(commits, concerned).prefix(last + 1) {
      let before = tree.root
      tree.apply(commit.assignments)
      if lastJudged != nil {
        ask(judges.ids(concernedBy: commit.assignments), tree.root, commit.time)
      }
      if views.isEmpty { continue }
      // What every view costs: those of a large commit are not looked at here.
      let bytes = commit.estimatedBytes(upTo: Engine.batchBytesMax)
      let cost = 2 + commit.assignments.count + bytes / Engine.notifyingBytesPerStep
      for view in views { notify(view, of: commit, cost, from: before, to: tree.root, &budget) }
    }
  }

  /// Bytes of a commit that are compared in one step.
  private static let notifyingBytesPerStep = 128

  /// Notifies a view, unless it can be found out cheaply that the commit changed nothing for it.
  private func notify(
    _ view: Listeners.View, of commit: Commit, _ cost: Int, from before: Node, to after: Node,
    _ budget: inout Int
  ) {
    let notification = Notification(view.listening, commit, from: before, to: after)
    if cost <= budget {
      let cost =
        cost + view.listening.childrenCompared(from: before, to: after, by: commit.assignments)
      if cost <= budget {
        budget -= cost
        if notification.events.isEmpty { return }
      }
    }
    view.tell(notification)
    keepIndex(of: view.listening, in: after)
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
