internal import CanopyTree
internal import DequeModule
internal import Synchronization

/// The listeners that wait to be authorized again.
///
/// All of them together have one turn between two batches, however many connections and logins ask for it. Otherwise
/// each connection would add a turn of its own, and writers would wait for all of them.
///
/// Within the turns, the owners of the work have one step each before any has a second one. So clients that change their
/// users again and again do not delay the end of logins. The work of one owner is done in the order in which it was added.
///
/// Only the engine's thread takes work out. Any thread may add some.
final class ReauthorizationQueue: Sendable {
  private struct State {
    var lanes: [Reauthorization.Owner: Deque<Reauthorization>] = [:]
    /// The owners with a lane, in the order of their steps.
    var order: Deque<Reauthorization.Owner> = []
    /// Whether a turn is queued or under way.
    var hasTurn = false

    /// Removes the work that comes next. Its owner comes after the others then.
    mutating func takeFirst() -> Reauthorization? {
      guard let owner = order.popFirst(), let work = lanes[owner]?.popFirst() else { return nil }
      if lanes[owner]?.isEmpty == false { order.append(owner) } else { lanes[owner] = nil }
      return work
    }

    /// Adds a lane for an owner that has none.
    mutating func addLane(of owner: Reauthorization.Owner) {
      guard lanes[owner] == nil else { return }
      lanes[owner] = []
      order.append(owner)
    }
  }

  private let state = Mutex(State())

  /// Adds work. Returns whether the caller must queue a turn.
  func add(_ work: Reauthorization) -> Bool {
    state.withLock { state in
      state.addLane(of: work.owner)
      state.lanes[work.owner]?.append(work)
      defer { state.hasTurn = true }
      return !state.hasTurn
    }
  }

  /// Removes and returns the work that comes next; nil if there is none.
  func takeFirst() -> Reauthorization? {
    state.withLock { $0.takeFirst() }
  }

  /// Returns work that is not finished. It stays the first of its owner.
  func putBack(_ work: Reauthorization) {
    state.withLock { state in
      state.addLane(of: work.owner)
      state.lanes[work.owner]?.prepend(work)
    }
  }

  /// Ends a turn. Returns whether the caller must queue another one.
  func endTurn() -> Bool {
    state.withLock { state in
      state.hasTurn = !state.order.isEmpty
      return state.hasTurn
    }
  }

  /// Completes all work without authorizing anyone, because the engine is stopping.
  func endAll() {
    repeat {
      while let work = takeFirst() { work.abandon() }
      // Work may have been added meanwhile.
    } while endTurn()
  }
}

/// Listeners that are to be authorized again together.
struct Reauthorization: Sendable {
  enum Work: Sendable {
    /// Gives listeners other authorizations.
    case changes(ArraySlice<(id: ListenerID, authorization: ListenAuthorization?)>)
    /// Repeats the authorizations of a group, or all, after a change.
    case group(ObjectIdentifier?, after: @Sendable () -> Void)
    /// Repeats the authorizations of the cases that a group had at a change.
    case groupCases(Set<ListenAuthorizations.CaseID>.Iterator, of: ObjectIdentifier)
    /// Repeats the authorizations of cases. If `mayTakeLong`, verdicts that take many steps are asked for in the turn as
    /// well, and not beside the engine's thread later.
    case cases(ArraySlice<ListenAuthorizations.CaseID>, mayTakeLong: Bool)
    /// Searches for the cases that depend on unsearched places, and repeats their authorizations. Verdicts that take many
    /// steps are asked for beside the engine's thread.
    case search
    /// Removes listeners that were denied, and that get no further notifications.
    case removals(ArraySlice<Int>, from: Listeners)
  }

  /// The owner of a step of the queue.
  enum Owner: Hashable {
    /// The ends of logins, and changes of the rules.
    case revocations
    /// The server: the effects of commits.
    case server
    /// The server: the search for the cases of commits that concern many.
    case search
    /// The clients of a remote network that change their users.
    case network(String)
    /// A client on this machine that changes its user.
    case connection(ObjectIdentifier)

    /// Creates the owner of the work for a connection; nil for that of the server.
    init(_ group: TurnGroup?) {
      self =
        switch group {
        case nil: .server
        case let group?: group.network.map(Owner.network) ?? .connection(group.connection)
        }
    }
  }

  let owner: Owner
  var work: Work
  let completion: @Sendable () -> Void

  private static let removalsPerStep = 64

  /// Does the next step: authorizes one listener, or one case. A listener whose verdict takes many steps of the rules gets
  /// its authorization, and the verdict is asked for beside the engine's thread.
  ///
  /// - Parameter end: ends the listeners that may no longer listen.
  /// - Returns: whether that was the last step.
  mutating func step(
    _ authorizations: ListenAuthorizations, _ turn: inout AuthorizingTurn,
    _ end: (ListenAuthorizations.Denied) -> Void
  ) -> Bool {
    switch work {
    case .changes(var left):
      guard let (id, authorization) = left.popFirst() else { return true }
      work = .changes(left)
      guard let verdict = turn.verdict(of: authorization, for: id.number, owner, authorizations)
      else {
        return left.isEmpty
      }
      if verdict.isAllowed {
        authorizations.set(
          authorization, of: id.number, verdict, at: turn.time, after: turn.sequence)
      } else {
        end(authorizations.deny(id.number, after: turn.sequence))
      }
      return left.isEmpty
    case .group(let group, let change):
      change()
      // The verdicts of this turn may not hold after the change.
      turn.verdicts.removeAll()
      guard let group else {
        let cases = authorizations.waitForVerdicts(since: turn.sequence)
        work = .cases(cases[...], mayTakeLong: true)
        return cases.isEmpty
      }
      work = .groupCases(authorizations.cases(of: group).makeIterator(), of: group)
      return false
    case .groupCases(var left, let group):
      guard let id = left.next() else {
        authorizations.endAnnouncement(of: group)
        return true
      }
      authorizations.wait(id, of: group)
      if let verdict = turn.verdict(of: id, owner, authorizations, mayTakeLong: true) {
        end(
          authorizations.setVerdict(
            verdict, of: id, at: turn.time, after: turn.sequence, isLast: true))
      }
      work = .groupCases(left, of: group)
      return false
    case .cases(var left, let mayTakeLong):
      guard let id = left.popFirst() else { return true }
      if let verdict = turn.verdict(of: id, owner, authorizations, mayTakeLong: mayTakeLong) {
        end(
          authorizations.setVerdict(
            verdict, of: id, at: turn.time, after: turn.sequence, isLast: true))
      }
      work = .cases(left, mayTakeLong: mayTakeLong)
      return left.isEmpty
    case .search:
      switch authorizations.searchNext() {
      case .end: return true
      case .notFound: return false
      case .found(let id):
        if let verdict = turn.verdict(of: id, owner, authorizations, mayTakeLong: false) {
          end(
            authorizations.setVerdict(
              verdict, of: id, at: turn.time, after: turn.sequence, isLast: true))
        }
        return false
      }
    case .removals(let left, let listeners):
      for id in left.prefix(Reauthorization.removalsPerStep) { listeners.remove(id) }
      work = .removals(left.dropFirst(Reauthorization.removalsPerStep), from: listeners)
      return left.count <= Reauthorization.removalsPerStep
    }
  }

  /// Completes the work without authorizing anyone.
  func abandon() {
    if case .group(_, let change) = work { change() }
    completion()
  }
}

/// A turn of authorizing listeners, at one version of the tree.
struct AuthorizingTurn {
  let root: Node
  /// The last commit, after which the root is.
  let sequence: Int64
  let time: Int64
  var verdicts = SharedVerdicts()
  /// The cases whose verdicts take many steps, to be asked for beside the engine's thread, by the owner of the work.
  var longCases: [Reauthorization.Owner: [ListenAuthorizations.CaseID]] = [:]

  init(_ snapshot: Snapshot, _ time: Int64) {
    root = snapshot.root
    sequence = snapshot.sequence
    self.time = time
  }

  /// Returns the verdict of the next authorization of a listener. Nil if there is no such listener, or it has the
  /// authorization now and the verdict is asked for later.
  mutating func verdict(
    of authorization: ListenAuthorization?, for id: Int, _ owner: Reauthorization.Owner,
    _ authorizations: ListenAuthorizations
  ) -> ReadVerdict? {
    guard let authorization else { return ReadVerdict(isAllowed: true) }
    var stepsLeft = Engine.authorizingStepsAtOnceMax
    if let verdict = verdicts.verdict(of: authorization, root, time, stepsLeft: &stepsLeft) {
      return verdict
    }
    if let id = authorizations.set(authorization, of: id, waitingSince: sequence) {
      longCases[owner, default: []].append(id)
      return nil
    }
    // A group that checks nothing needs the verdict now.
    return authorizations.has(id) ? verdicts.verdict(of: authorization, root, time) : nil
  }

  /// Returns the next verdict of a case; nil if there is no such case, or its verdict is asked for later.
  mutating func verdict(
    of id: ListenAuthorizations.CaseID, _ owner: Reauthorization.Owner,
    _ authorizations: ListenAuthorizations, mayTakeLong: Bool
  ) -> ReadVerdict? {
    guard let authorization = authorizations.authorization(of: id) else { return nil }
    if mayTakeLong { return verdicts.verdict(of: authorization, root, time) }
    var stepsLeft = Engine.authorizingStepsAtOnceMax
    let verdict = verdicts.verdict(of: authorization, root, time, stepsLeft: &stepsLeft)
    if verdict == nil { longCases[owner, default: []].append(id) }
    return verdict
  }
}
