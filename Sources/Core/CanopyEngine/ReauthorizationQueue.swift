internal import CanopyTree
internal import DequeModule
internal import Synchronization

/// The listeners that wait to be authorized again, in the order in which that was asked for.
///
/// All of them together have one turn between two batches, however many connections and logins ask for it. Otherwise
/// each connection would add a turn of its own, and writers would wait for all of them.
///
/// Only the engine's thread takes work out. Any thread may add some.
final class ReauthorizationQueue: Sendable {
  private struct State {
    var waiting: Deque<Reauthorization> = []
    /// Whether a turn is queued or under way.
    var hasTurn = false
  }

  private let state = Mutex(State())

  /// Adds work. Returns whether the caller must queue a turn.
  func add(_ work: Reauthorization) -> Bool {
    state.withLock { state in
      state.waiting.append(work)
      defer { state.hasTurn = true }
      return !state.hasTurn
    }
  }

  /// Removes and returns the work that comes next; nil if there is none.
  func takeFirst() -> Reauthorization? {
    state.withLock { $0.waiting.popFirst() }
  }

  /// Returns work that is not finished to the front.
  func putBack(_ work: Reauthorization) {
    state.withLock { $0.waiting.prepend(work) }
  }

  /// Ends a turn. Returns whether the caller must queue another one.
  func endTurn() -> Bool {
    state.withLock { state in
      state.hasTurn = !state.waiting.isEmpty
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
    /// Repeats the authorizations of cases.
    case cases(ArraySlice<ListenAuthorizations.CaseID>)
    /// Removes listeners that were denied, and that get no further notifications.
    case removals(ArraySlice<Int>, from: Listeners)
  }

  var work: Work
  let completion: @Sendable () -> Void

  private static let removalsPerStep = 64

  /// Does the next step: authorizes one listener, or one case.
  ///
  /// - Parameter end: ends the listeners that may no longer listen.
  /// - Returns: whether that was the last step.
  mutating func step(
    _ authorizations: ListenAuthorizations, _ verdicts: inout SharedVerdicts,
    _ end: (ListenAuthorizations.Denied) -> Void
  ) -> Bool {
    switch work {
    case .changes(var left):
      guard let (id, authorization) = left.popFirst() else { return true }
      let verdict = verdicts.verdict(of: authorization)
      if verdict.isAllowed {
        authorizations.set(
          authorization, of: id.number, verdict, at: verdicts.time, after: verdicts.sequence)
      } else {
        end(authorizations.deny(id.number, after: verdicts.sequence))
      }
      work = .changes(left)
      return left.isEmpty
    case .group(let group, let change):
      change()
      // The verdicts of this turn may not hold after the change.
      verdicts.removeAll()
      let cases = authorizations.cases(of: group)
      authorizations.wait(cases, since: verdicts.sequence)
      work = .cases(cases[...])
      return cases.isEmpty
    case .cases(var left):
      guard let id = left.popFirst() else { return true }
      end(
        authorizations.authorize(
          id, verdicts.root, verdicts.time, after: verdicts.sequence, isLast: true))
      work = .cases(left)
      return left.isEmpty
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

/// The verdicts of one turn, each asked for once.
struct SharedVerdicts {
  let root: Node
  /// The last commit, after which the root is.
  let sequence: Int64
  let time: Int64
  /// The authorization is kept, so that no other caller gets the identity of one that is gone.
  private var verdicts:
    [ListenAuthorization.Subject: (verdict: ListenVerdict, of: ListenAuthorization)] = [:]

  init(_ snapshot: Snapshot, _ time: Int64) {
    root = snapshot.root
    sequence = snapshot.sequence
    self.time = time
  }

  /// Returns the verdict of an authorization. A listener without one may listen.
  mutating func verdict(of authorization: ListenAuthorization?) -> ListenVerdict {
    guard let authorization else { return ListenVerdict(isAllowed: true) }
    guard let subject = authorization.subject else { return authorization.authorize(root, time) }
    if let known = verdicts[subject] { return known.verdict }
    let verdict = authorization.authorize(root, time)
    verdicts[subject] = (verdict, authorization)
    return verdict
  }

  mutating func removeAll() {
    verdicts = [:]
  }
}
