internal import CanopySystem
internal import CanopyTree

/// The start of listeners.
///
/// A listener begins between two commits, so that it misses none and gets none twice. Its verdict is asked for there if it
/// takes few steps of the rules. Otherwise it is asked for beside the engine's thread, for one listener at a time, and no
/// write waits for it. It counts if nothing that it depends on has changed meanwhile.
extension Engine {
  /// A verdict that was found beside the engine's thread.
  struct FoundVerdict: Sendable {
    let verdict: ReadVerdict
    let time: Int64
    /// The nodes on which it depends. Not the root: its last reference is not to be released on the engine's thread.
    let seen: [(path: Path, node: Node)]
    /// The number of changes of something besides the tree before it.
    let otherChanges: Int
  }

  /// The number of times that a verdict is asked for beside the engine's thread. After these, the engine's thread asks for
  /// it, in the turn of the owner, because others always change what it depends on.
  static let startingTriesMax = 8

  /// Begins with a listener in the turn of its owner, or asks for its verdict first.
  ///
  /// - Parameters:
  ///   - found: the last verdict; nil if it was not asked for yet.
  ///   - triesLeft: how often it may still be asked for beside the engine's thread.
  func begin(
    _ starting: StartingListener, _ found: FoundVerdict? = nil,
    triesLeft: Int = Engine.startingTriesMax
  ) {
    let listening = starting.listening
    let isAccepted = enqueueBarrier(
      keeping: listening.query.order, at: listening.path, of: starting.writeOwner
    ) { [self] in
      assertOnThread()
      let snapshot = snapshot
      guard !startingListeners.isCancelled(starting.number) else {
        end(starting, nil, ListenStart(listening, snapshot))
        starting.group?.batchEnded(snapshot)
        return
      }
      guard let (verdict, time) = verdict(of: starting, found, in: snapshot, triesLeft) else {
        return authorizeBeside(starting, triesLeft: triesLeft - 1)
      }
      begin(starting, verdict, at: time, in: snapshot)
    }
    if !isAccepted { end(starting, nil, ListenStart(listening, snapshot)) }
  }

  /// Begins with a listener between two commits, if it may listen.
  private func begin(
    _ starting: StartingListener, _ verdict: ReadVerdict?, at time: Int64, in snapshot: Snapshot
  ) {
    let (listening, group) = (starting.listening, starting.group)
    // No commit was published, so the other groups have no news.
    defer { group?.batchEnded(snapshot) }
    func refuse(_ refusal: ListenStart.Refusal) {
      end(starting, nil, ListenStart(refusal, at: snapshot.sequence, listening))
    }
    guard verdict?.isAllowed != false else { return refuse(.denied) }
    let added = listeners.add(listening, group: group, owner: starting.owner, starting.listener)
    guard let id = added else { return refuse(.tooManyViews) }
    if let denied = starting.denied {
      authorizations.add(
        id, starting.authorization, verdict ?? ReadVerdict(isAllowed: true), at: time,
        after: snapshot.sequence, isChecked: group?.checksAuthorizations ?? false, denied: denied)
    }
    end(starting, ListenerID(number: id), ListenStart(listening, snapshot, verdict))
  }

  private func end(_ starting: StartingListener, _ id: ListenerID?, _ start: ListenStart) {
    starting.started(id, start)
    startingListeners.end(starting.number)
  }

  /// Returns the verdict of a listener, and the time for which it holds; nil if it must be asked for beside the engine's
  /// thread.
  private func verdict(
    of starting: StartingListener, _ found: FoundVerdict?, in snapshot: Snapshot, _ triesLeft: Int
  ) -> (verdict: ReadVerdict?, time: Int64)? {
    let time = now()
    guard let authorization = starting.authorization else { return (nil, time) }
    if let found, isCurrent(found, in: snapshot.root) { return (found.verdict, found.time) }
    guard triesLeft > 0 else { return (authorization.authorize(snapshot.root, time), time) }
    // A verdict that took many steps will take as many again.
    guard found == nil else { return nil }
    var stepsLeft = Engine.authorizingStepsAtOnceMax
    return authorization.authorizeBriefly(snapshot.root, time, &stepsLeft).map { ($0, time) }
  }

  /// Whether a verdict that was found before still holds. A denial does: the client could not listen after it asked to.
  private func isCurrent(_ found: FoundVerdict, in root: Node) -> Bool {
    guard found.otherChanges == authorizations.otherChanges else { return false }
    return !found.verdict.isAllowed
      || found.seen.allSatisfy { root.at($0.path).isUnchanged(from: $0.node) }
  }

  /// Asks for the verdict of a listener beside the engine's thread, and begins again. One that is cancelled waits for no
  /// turn.
  private func authorizeBeside(_ starting: StartingListener, triesLeft: Int) {
    guard let authorization = starting.authorization else { return }
    startingListeners.begin(starting.number) { [self] in
      let found = try? await longStarts.withTurn(of: starting.turns) {
        await withCheckedContinuation { continuation in
          let ask = { @Sendable [self] in continuation.resume(returning: find(authorization)) }
          if !WorkerThread.start(niceness: 5, ask) { ask() }
        }
      }
      begin(starting, found, triesLeft: triesLeft)
    }
  }

  private func find(_ authorization: ListenAuthorization) -> FoundVerdict {
    // Before the tree, so that a change in between is noticed.
    let otherChanges = authorizations.otherChanges
    let (root, time) = (snapshot.root, now())
    let verdict = authorization.authorize(root, time)
    return FoundVerdict(
      verdict: verdict, time: time, seen: verdict.paths.map { ($0, root.at($0)) },
      otherChanges: otherChanges)
  }
}
