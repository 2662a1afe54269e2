internal import CanopyTree

/// Identifies a listener of an engine.
public struct ListenerID: Hashable, Sendable {
  let number: Int
}

/// Identifies a listener that was asked for, until it has begun.
public struct StartingListenerID: Hashable, Sendable {
  let number: Int
}

extension Engine {
  /// Begins to listen.
  ///
  /// The starting point is the snapshot at which the listener begins. The listener is notified of every commit after
  /// it that may have changed its location, in the order of the commits, once each, and only when the commit is durable.
  /// The notification comes before the writer of the commit gets its outcome. A group may instead receive a whole
  /// commit: see `ListenerGroup`.
  ///
  /// - Parameters:
  ///   - group: the event loop of the listener. The listeners of one group with the same location, query and form
  ///     share one closure, that of the first listener. It is called once for all of them. So many connections on one
  ///     loop cost one call.
  ///   - owner: the client network that the listener counts for; nil for none.
  ///   - authorization: decides whether the listener may listen: at the starting point, and again when a commit
  ///     writes a location that the verdict depends on, before the listeners are notified of that commit. A group may
  ///     instead check authorizations before it delivers events: see `ListenerGroup.checksAuthorizations`. If the
  ///     verdict depends on the time, any commit repeats it after a second. Nil: it may.
  ///   - listener: called on the engine's thread, so it must be brief. It may be called for a commit that
  ///     changed nothing for it; then the notification has no events. Asking for the events takes time.
  ///   - denied: called once, on the engine's thread, when the listener may no longer listen. The closure of
  ///     its group may still be called for the others. Nil: the listener is never authorized again, and
  ///     can be given no authorization.
  ///   - started: called once, before the listener is, with the starting point; on the engine's thread, or
  ///     at once when the engine is stopping. It gets no id when the engine is stopping, the listener was cancelled, or the
  ///     start has a `refusal`; then the listener is never called.
  /// - Returns: the listener that begins, for `move` and `cancel`.
  @discardableResult
  public func listen(
    _ listening: Listening, group: (any ListenerGroup)? = nil, owner: ListenerOwner? = nil,
    authorization: ListenAuthorization? = nil,
    _ listener: @escaping @Sendable (Notification) -> Void,
    denied: (@Sendable () -> Void)? = nil,
    started: @escaping @Sendable (ListenerID?, ListenStart) -> Void
  ) -> StartingListenerID {
    let number = startingListeners.add()
    begin(
      StartingListener(
        number: number, listening: listening, group: group, owner: owner,
        authorization: authorization, listener: listener, denied: denied, started: started))
    return StartingListenerID(number: number)
  }

  /// Cancels a listener that has not begun, because its connection ends: `started` gets no id. Does nothing if it has
  /// begun. Safe to call from any thread.
  public func cancel(_ starting: StartingListenerID) {
    startingListeners.cancel(starting.number)
  }

  /// Moves listeners to another group, between two commits: the group is notified of every later commit for them,
  /// and their former groups no longer are.
  ///
  /// - Parameters:
  ///   - starts: listeners that may not have begun. The move comes after they have, or were refused.
  ///   - moved: called once, on the engine's thread, but not when the engine is stopping. Returns the listeners, each
  ///     with the closure of the group for its view.
  ///   - completion: called once, with whether they have moved: after that, on the engine's thread; or at once when the
  ///     engine is stopping.
  public func move(
    from old: any ListenerGroup, to group: any ListenerGroup,
    after starts: [StartingListenerID] = [],
    _ moved:
      @escaping @Sendable () -> [(
        id: ListenerID, listener: @Sendable (Notification) -> Void
      )],
    completion: @escaping @Sendable (Bool) -> Void
  ) {
    startingListeners.whenEnded(starts.map(\.number)) { [self] in
      let isAccepted = enqueueBarrier(named: "listen") { [self] in
        assertOnThread()
        for (id, listener) in moved() { listeners.move(id.number, to: group, listener) }
        completion(true)
        for group in [old, group] { group.batchEnded(snapshot) }
      }
      if !isAccepted { completion(false) }
    }
  }

  /// Gives listeners other authorizations, nil for none, and authorizes them between commits. Listeners
  /// that may no longer listen are denied before `completion` is called. But if a verdict takes many steps of the rules, a
  /// group that checks authorizations gets it later, and checks the events until then.
  ///
  /// Many listeners are authorized in several turns: see `ReauthorizationQueue`. Until its turn a listener has its old
  /// authorization.
  ///
  /// - Parameters:
  ///   - turns: the connection of the listeners and its network, which take their turns together; nil for the server.
  ///   - completion: called once, on the engine's thread, or at once when the engine is stopping.
  public func setAuthorizations(
    _ changes: [(id: ListenerID, authorization: ListenAuthorization?)], of turns: TurnGroup? = nil,
    completion: @escaping @Sendable () -> Void
  ) {
    reauthorize(.changes(changes[...]), of: Reauthorization.Owner(turns), completion)
  }

  /// Changes something that authorizations depend on, and authorizes listeners again, between two commits.
  /// Listeners that may no longer listen are notified of no commit that is proposed after `completion` was called. Those
  /// of a group that checks authorizations get no events of commits after `change`.
  ///
  /// Many listeners are authorized in several turns, as in `setAuthorizations`. But for a group of authorizations the
  /// change may have been made before this call. From now on its events are checked, however much other work there is.
  ///
  /// - Parameters:
  ///   - group: the group of authorizations to repeat; nil for all.
  ///   - change: called once, on the engine's thread, or at once when the engine is stopping.
  ///   - completion: called once, after `change`, when all are authorized again.
  public func reauthorize(
    _ group: ObjectIdentifier? = nil, after change: @escaping @Sendable () -> Void = {},
    completion: @escaping @Sendable () -> Void = {}
  ) {
    if let group { authorizations.announceChange(of: group, after: snapshot.sequence) }
    reauthorize(.group(group, after: change), of: .revocations, completion)
  }

  /// Authorizes all listeners again in later turns, after something has changed that authorizations depend on. Call it on
  /// the engine's thread.
  ///
  /// From now on groups that check authorizations do so before they deliver events.
  public func reauthorizeAll() {
    assertOnThread()
    let cases = authorizations.waitForVerdicts(since: snapshot.sequence)
    reauthorize(.cases(cases[...], mayTakeLong: false))
  }

  private func reauthorize(
    _ work: Reauthorization.Work, of owner: Reauthorization.Owner = .server,
    _ completion: @escaping @Sendable () -> Void = {}
  ) {
    let added = Reauthorization(owner: owner, work: work, completion: completion)
    guard reauthorizations.add(added) else { return }
    goOnReauthorizing()
  }

  /// Carries out one slice of the waiting work between the next two batches.
  private func goOnReauthorizing() {
    let isAccepted = enqueueBarrier { [self] in
      reauthorizeForATurn()
      endNotifying()
    }
    if !isAccepted { reauthorizations.endAll() }
  }

  private func reauthorizeForATurn() {
    assertOnThread()
    let start = watch.now
    var turn = AuthorizingTurn(snapshot, now())
    while var first = reauthorizations.takeFirst() {
      let isDone = first.step(authorizations, &turn) { end($0) }
      if isDone {
        // The listeners learn that they are denied before anyone learns that all are authorized.
        endNotifying()
        first.completion()
      } else {
        reauthorizations.putBack(first)
      }
      if watch.now - start >= Engine.authorizingMax { break }
    }
    for (owner, cases) in turn.longCases { authorizeBeside(cases, of: owner) }
    if reauthorizations.endTurn() { goOnReauthorizing() }
  }

  /// The time after which a turn of authorizing listeners ends.
  private static let authorizingMax = Duration.milliseconds(1)

  /// Authorizes the listeners whose verdicts depend on a change, and ends those that may no longer listen: before the
  /// change is published, or in later turns.
  ///
  /// - Parameter left: the verdicts and steps that may still run before the publication. Reduced by those that run.
  private func authorize(after change: Change, _ left: inout (verdicts: Int, steps: Int)) {
    assertOnThread()
    let (commit, root) = (change.commit, change.after)
    let cases = authorizations.takeCases(
      concernedBy: commit.assignments, of: commit.sequence, at: commit.time, room: &left.verdicts)
    var later = cases.later
    var verdicts = SharedVerdicts()
    for id in cases.now {
      guard let authorization = authorizations.authorization(of: id) else { continue }
      let brief = verdicts.verdict(of: authorization, root, commit.time, stepsLeft: &left.steps)
      if brief == nil, authorizations.postpone(id, until: commit.sequence) {
        later.append(id)
        continue
      }
      let verdict = brief ?? verdicts.verdict(of: authorization, root, commit.time)
      end(
        authorizations.setVerdict(
          verdict, of: id, at: commit.time, after: commit.sequence, isLast: false))
    }
    if !later.isEmpty { reauthorize(.cases(later[...], mayTakeLong: false)) }
    if cases.beginsSearch { reauthorize(.search, of: .search) }
  }

  /// The most verdicts that are repeated for a batch before it is published.
  static let authorizedAtOnceMax = 16

  /// The most steps of these verdicts together: about two tenths of a millisecond. A verdict that takes more than are left
  /// waits.
  static let authorizingStepsAtOnceMax = 16 * 1024

  /// Whether the events of a commit may have to be checked before a group that checks authorizations delivers them. Safe
  /// to call from any thread.
  public func mayNeedChecks(at sequence: Int64) -> Bool {
    authorizations.mayBeUnchecked(at: sequence)
  }

  /// Returns the checks before a group that checks authorizations delivers the events of a commit. The group ends the
  /// listeners of a check that does not allow the commit. Safe to call from any thread. O(listeners).
  ///
  /// - Parameter listeners: the listeners that get the events; nil for one that has no id yet.
  public func checks(of listeners: [ListenerID?], at sequence: Int64) -> [ListenCheck] {
    authorizations.checks(of: listeners.map { $0?.number }, at: sequence)
  }

  /// Ends listeners that may no longer listen.
  ///
  /// Their event loops drop the events of a listener from now on. So most listeners of groups are removed in later
  /// turns: a commit may deny many at once.
  func end(_ denied: ListenAuthorizations.Denied) {
    let left = listeners.remove(denied.ids, ofGroupsAtMost: Engine.removedAtOnceMax)
    for notify in denied.notices { notify() }
    if !left.isEmpty { reauthorize(.removals(left[...], from: listeners)) }
  }

  /// The most listeners of groups that a verdict removes at once.
  static let removedAtOnceMax = 256

  /// Removes a listener. It may still be called for a commit that is being published.
  ///
  /// - Returns: whether there was such a listener.
  @discardableResult
  public func unlisten(_ id: ListenerID) -> Bool {
    if isPlanted(.listenerLeaked) { return true }
    authorizations.remove(id.number)
    return listeners.remove(id.number)
  }

  /// The number of listeners, and of the views that they share.
  public var listenerCounts: (listeners: Int, views: Int) { listeners.counts }

  /// The number of listeners with an authorization, and of the locations that their verdicts depend on.
  public var authorizationCounts: (authorizations: Int, places: Int) { authorizations.counts }

  /// Notifies listeners of commits, one commit after the other.
  func notify(_ changes: [Change]) {
    var budget = configuration.notifyingCostMax
    var viewsLeft = Engine.notifiedViewsMax
    var verdictsLeft = (
      verdicts: Engine.authorizedAtOnceMax, steps: Engine.authorizingStepsAtOnceMax
    )
    for change in isPlanted(.eventDropped) ? Array(changes.prefix(1)) : changes {
      let assignments = change.commit.assignments
      // A commit may revoke the read permission of listeners that it concerns.
      if !authorizations.isIdle { authorize(after: change, &verdictsLeft) }
      if change.views.isEmpty { continue }
      let values = change.commit.estimatedValues(upTo: Engine.batchBytesMax)
      let bytes = values.json
      let committed = CommittedChange(change, bytes: bytes, memory: values.memory)
      guard !change.views.isMany, change.views.found.count <= viewsLeft else {
        notifyGroups(of: committed, change)
        continue
      }
      viewsLeft -= change.views.found.count
      // The cost is that of each view, so the events of a large commit are not computed here.
      let cost = 2 + assignments.count + bytes / Engine.notifyingBytesPerStep
      for view in change.views.found { notify(view, of: change, committed, cost, &budget) }
    }
    endNotifying()
  }

  /// Bytes of a commit that are compared in one step.
  private static let notifyingBytesPerStep = 128
  /// The most views that are notified one by one for each batch. A batch may have a thousand commits. Event loops
  /// search their own views for the other commits.
  static let notifiedViewsMax = 4_096

  /// Notifies a view. If computing the events is cheap, does so first, and skips a view in which nothing changed.
  private func notify(
    _ view: Listeners.View, of change: Change, _ committed: CommittedChange, _ cost: Int,
    _ budget: inout Int
  ) {
    let notification = Notification(view.listening, committed, listeners.derivedBytes)
    if cost <= budget {
      let cost =
        cost
        + view.listening.childrenCompared(
          from: change.before, to: change.after, by: change.commit.assignments)
      if cost <= budget {
        budget -= cost
        if notification.events.isEmpty { return }
      }
    }
    view.notify(notification)
    keepIndex(of: view.listening, in: change.after)
  }

  /// Hands a commit that concerns many views to all groups. O(groups), however many views there are.
  private func notifyGroups(of committed: CommittedChange, _ change: Change) {
    for group in listeners.groups { group.notify(committed) }
    for view in listeners.singleViews(concernedBy: change.commit.assignments) {
      view.notify(committed.notification(for: view.listening), groupsToo: false)
    }
    for view in change.views.found { keepIndex(of: view.listening, in: change.after) }
  }

  /// The number of children from which a location with listeners keeps the index of their order. Fewer are
  /// sorted as fast.
  private static let indexedChildrenMin = 256

  /// Adds an index that could not be added when listening began, because there were no children yet, or that was
  /// lost with a commit that failed. Without it, every commit would sort the children.
  private func keepIndex(of listening: Listening, in root: Node) {
    let node = root.at(listening.path)
    guard node.childCount >= Engine.indexedChildrenMin, !listening.query.isIndexed(in: node) else {
      return
    }
    keepIndexLater(listening.query.order, at: listening.path)
  }
}
