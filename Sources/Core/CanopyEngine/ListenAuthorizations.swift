public import CanopyTree
internal import Synchronization

/// The decision whether a listener may listen, and how long it holds.
public struct ListenVerdict: Sendable {
  /// Whether it may.
  public var isAllowed: Bool
  /// The places that the verdict depends on: it holds while nothing is written at, above or below them.
  public var paths: [Path]
  /// Whether it depends on the time as well. Then a commit repeats the authorization if the last one is a second
  /// old.
  public var dependsOnTime: Bool

  /// Creates a verdict.
  public init(isAllowed: Bool, paths: [Path] = [], dependsOnTime: Bool = false) {
    self.isAllowed = isAllowed
    self.paths = paths
    self.dependsOnTime = dependsOnTime
  }
}

/// Decides whether a listener may listen.
public struct ListenAuthorization: Sendable {
  /// The subject of a decision: the caller and the data that they ask for.
  ///
  /// Authorizations with the same subject give the same verdict for the same root and time. So they are asked once
  /// for all listeners that have it.
  public struct Subject: Hashable, Sendable {
    let caller: ObjectIdentifier?
    let path: Path
    let query: Query

    /// Creates a subject.
    ///
    /// - Parameters:
    ///   - caller: the login; nil for all clients without one.
    ///   - listening: the target, of which the form does not matter.
    public init(caller: ObjectIdentifier?, _ listening: Listening) {
      self.caller = caller
      path = listening.path
      query = listening.query
    }
  }

  /// The group that is authorized again together: see `Engine.reauthorize`.
  public var group: ObjectIdentifier?
  /// The subject; nil if no other authorization has the same.
  public var subject: Subject?
  /// Returns the verdict for a root and a time in milliseconds since 1970. The engine's thread calls it, so it
  /// must be brief.
  public var authorize: @Sendable (_ root: Node, _ time: Int64) -> ListenVerdict

  /// Creates an authorization.
  public init(
    group: ObjectIdentifier? = nil, subject: Subject? = nil,
    authorize: @escaping @Sendable (_ root: Node, _ time: Int64) -> ListenVerdict
  ) {
    self.group = group
    self.subject = subject
    self.authorize = authorize
  }
}

/// The authorizations of all listeners, found by the places that their verdicts depend on.
///
/// Listeners whose authorizations have the same subject share one case, and one verdict. A commit repeats the
/// verdicts that depend on a place at, above or below one that it writes. Finding them costs the length of the paths
/// and the cases found, however many listeners share them. A verdict that depends on nothing costs nothing. Only the
/// engine's thread uses it, except for `remove`.
final class ListenAuthorizations: Sendable {
  /// The number of a case.
  typealias CaseID = Int

  /// The listeners that may listen no longer, or that may go on after a pause.
  struct Decided {
    /// The listeners that may listen no longer.
    var denied: [Int] = []
    /// Notify all of them.
    var notices: [@Sendable () -> Void] = []
  }

  /// The closures by which a listener learns of verdicts.
  struct Notices {
    var denied: @Sendable () -> Void
    /// Nil if the listener cannot pause.
    var paused: (@Sendable (ListenPause) -> Void)?
  }

  fileprivate struct Entry {
    /// The case of its authorization; nil if it has none.
    var caseID: CaseID?
    let notices: Notices
  }

  /// One authorization, with all listeners that have it.
  fileprivate struct Case {
    let authorization: ListenAuthorization
    var verdict: ListenVerdict
    var listeners: Set<Int> = []
    /// The beginning of the pause of its listeners; nil if they do not pause.
    var pause: PauseStart?
  }

  fileprivate struct State {
    var entries: [Int: Entry] = [:]
    var cases: [CaseID: Case] = [:]
    var lastCase: CaseID = 0
    var subjects: [ListenAuthorization.Subject: CaseID] = [:]
    var groups: [ObjectIdentifier: Set<CaseID>] = [:]
    /// The cases by the places that their verdicts depend on.
    var places = PathTrie<Set<CaseID>>()
    var timed = TimedAuthorizations()
    /// The number of cases whose listeners pause.
    var pausedCount = 0
    /// The commits since the first of these pauses.
    var missed = MissedCommits()
  }

  private let state = Mutex(State())

  /// Whether no verdict depends on anything: then no commit repeats an authorization.
  var isIdle: Bool { state.withLock { $0.places.isEmpty && $0.timed.isEmpty } }

  /// The number of listeners with an authorization, and of the places that verdicts depend on.
  var counts: (authorizations: Int, places: Int) {
    state.withLock { state in
      (
        state.entries.values.count { $0.caseID != nil },
        state.cases.values.reduce(0) { $0 + $1.verdict.paths.count }
      )
    }
  }

  /// The number of different authorizations.
  var caseCount: Int { state.withLock { $0.cases.count } }

  /// The number of authorizations whose listeners pause.
  var pausedCount: Int { state.withLock { $0.pausedCount } }

  /// Adds a listener that may listen. If other listeners with its authorization pause, their pause ends.
  ///
  /// - Parameters:
  ///   - snapshot: the snapshot of the verdict, the current one.
  ///   - time: the time of the verdict.
  ///   - notices: `denied` is called once, when it may no longer listen.
  func add(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ListenVerdict,
    in snapshot: Snapshot, at time: Int64, _ notices: Notices
  ) -> Decided {
    state.withLock { state in
      var decided = Decided()
      state.entries[id] = Entry(notices: notices)
      state.join(id, authorization, verdict, in: snapshot, at: time, &decided)
      return decided
    }
  }

  /// Gives a listener another authorization; nil for none. If it pauses, its pause ends.
  ///
  /// - Parameters:
  ///   - verdict: the verdict of that authorization, which allows it.
  ///   - snapshot: the snapshot of the verdict, the current one.
  ///   - time: the time of the verdict.
  func set(
    _ authorization: ListenAuthorization?, of id: Int, _ verdict: ListenVerdict,
    in snapshot: Snapshot, at time: Int64
  ) -> Decided {
    state.withLock { state in
      var decided = Decided()
      guard let entry = state.entries[id] else { return decided }
      if let caseID = entry.caseID, let pause = state.cases[caseID]?.pause {
        let change = state.change(since: pause, in: snapshot)
        if let paused = entry.notices.paused { decided.notices.append { paused(.ended(change)) } }
      }
      state.leave(id)
      state.join(id, authorization, verdict, in: snapshot, at: time, &decided)
      return decided
    }
  }

  /// Forgets a listener. Safe to call from any thread.
  func remove(_ id: Int) {
    state.withLock { state in
      state.leave(id)
      state.entries[id] = nil
    }
  }

  /// Forgets a listener that may listen no longer.
  func deny(_ id: Int) -> Decided {
    state.withLock { state in
      state.leave(id)
      guard let entry = state.entries.removeValue(forKey: id) else { return Decided() }
      return Decided(denied: [id], notices: [entry.notices.denied])
    }
  }

  /// Returns the cases of a group; nil for all. Call `authorize` for each of them.
  func cases(of group: ObjectIdentifier?) -> [CaseID] {
    state.withLock { state in
      guard let group else { return state.cases.keys.sorted() }
      return (state.groups[group] ?? []).sorted()
    }
  }

  /// Returns the cases that a commit authorizes again. Call `pause` and `authorize` for each of them.
  ///
  /// - Parameter time: the time of the commit.
  func takeCases(concernedBy assignments: [Assignment], at time: Int64) -> [CaseID] {
    state.withLock { state in
      var ids = Set(state.timed.takeDue(at: time))
      for assignment in assignments {
        state.places.forEach(overlapping: assignment.location.path) { ids.formUnion($0) }
      }
      return ids.sorted()
    }
  }

  /// Authorizes the listeners of a case again, once for all of them. If they are denied, they are forgotten. If they
  /// may listen and pause, their pause ends.
  ///
  /// - Returns: the listeners that may not go on, in the order in which they began.
  func authorize(_ id: CaseID, in snapshot: Snapshot, at time: Int64) -> Decided {
    guard let authorization = state.withLock({ $0.cases[id]?.authorization }) else {
      return Decided()
    }
    let verdict = authorization.authorize(snapshot.root, time)
    return state.withLock { state in
      var decided = Decided()
      guard let found = state.cases[id] else { return decided }
      guard verdict.isAllowed else {
        state.removeCase(id, found)
        for listener in found.listeners.sorted() {
          guard let entry = state.entries.removeValue(forKey: listener) else { continue }
          decided.denied.append(listener)
          decided.notices.append(entry.notices.denied)
        }
        return decided
      }
      state.endPause(of: id, in: snapshot, &decided)
      state.setVerdict(verdict, of: id, at: time)
      return decided
    }
  }

  // MARK: Pauses

  /// The state of a case that a commit concerns.
  enum Standing {
    /// Its listeners pause already, and wait to be authorized.
    case paused
    /// Its listeners pause from now on. Call `authorize` between later commits.
    case pauses
    /// It is to be authorized now.
    case due
  }

  /// Begins the pause of the listeners of a case that a commit concerns.
  ///
  /// - Parameters:
  ///   - start: the commit.
  ///   - isLate: whether the case is not authorized now, if its listeners can pause.
  ///   - notices: gets the notices of the listeners.
  func pause(_ id: CaseID, from start: PauseStart, isLate: Bool, _ decided: inout Decided)
    -> Standing
  {
    state.withLock { state in
      guard let found = state.cases[id] else { return .due }
      if found.pause != nil { return .paused }
      guard isLate else { return .due }
      var notices: [@Sendable (ListenPause) -> Void] = []
      for listener in found.listeners.sorted() {
        guard let paused = state.entries[listener]?.notices.paused else { return .due }
        notices.append(paused)
      }
      state.cases[id]?.pause = start
      state.pausedCount += 1
      decided.notices += notices.map { notice in { notice(.began) } }
      return .pauses
    }
  }

  /// Notes a commit for the listeners that pause.
  func noteMissed(_ commit: Commit) {
    state.withLock { state in
      guard state.pausedCount > 0 else { return }
      state.missed.note(commit.assignments, at: commit.sequence)
    }
  }
}

extension ListenAuthorizations.State {
  /// Adds a listener to the case of its authorization, with the latest verdict.
  fileprivate mutating func join(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ListenVerdict,
    in snapshot: Snapshot, at time: Int64, _ decided: inout ListenAuthorizations.Decided
  ) {
    guard let authorization else { return }
    let caseID = findOrAddCase(authorization)
    // The verdict is that of the whole case.
    endPause(of: caseID, in: snapshot, &decided)
    cases[caseID]?.listeners.insert(id)
    entries[id]?.caseID = caseID
    setVerdict(verdict, of: caseID, at: time)
  }

  /// Ends the pause of the listeners of a case, if they pause: they may go on.
  fileprivate mutating func endPause(
    of id: ListenAuthorizations.CaseID, in snapshot: Snapshot,
    _ decided: inout ListenAuthorizations.Decided
  ) {
    guard let found = cases[id], let pause = found.pause else { return }
    let change = change(since: pause, in: snapshot)
    for listener in found.listeners.sorted() {
      guard let paused = entries[listener]?.notices.paused else { continue }
      decided.notices.append { paused(.ended(change)) }
    }
    cases[id]?.pause = nil
    forgetPause()
  }

  /// Returns the commits since a pause began, as one change.
  fileprivate func change(since pause: PauseStart, in snapshot: Snapshot) -> CommittedChange {
    CommittedChange(
      from: pause.root, to: snapshot, writing: missed.locations(since: pause.sequence))
  }

  private mutating func forgetPause() {
    pausedCount -= 1
    if pausedCount == 0 { missed = MissedCommits() }
  }

  private mutating func findOrAddCase(
    _ authorization: ListenAuthorization
  ) -> ListenAuthorizations.CaseID {
    if let subject = authorization.subject, let id = subjects[subject] { return id }
    lastCase += 1
    cases[lastCase] = ListenAuthorizations.Case(
      authorization: authorization, verdict: ListenVerdict(isAllowed: true))
    if let subject = authorization.subject { subjects[subject] = lastCase }
    if let group = authorization.group { groups[group, default: []].insert(lastCase) }
    return lastCase
  }

  fileprivate mutating func leave(_ id: Int) {
    guard let caseID = entries[id]?.caseID else { return }
    entries[id]?.caseID = nil
    cases[caseID]?.listeners.remove(id)
    if let left = cases[caseID], left.listeners.isEmpty { removeCase(caseID, left) }
  }

  fileprivate mutating func removeCase(
    _ id: ListenAuthorizations.CaseID, _ removed: ListenAuthorizations.Case
  ) {
    removeDependencies(of: id, removed.verdict)
    if cases[id]?.pause != nil { forgetPause() }
    if let subject = removed.authorization.subject { subjects[subject] = nil }
    if let group = removed.authorization.group {
      groups[group]?.remove(id)
      if groups[group]?.isEmpty == true { groups[group] = nil }
    }
    cases[id] = nil
  }

  fileprivate mutating func setVerdict(
    _ verdict: ListenVerdict, of id: ListenAuthorizations.CaseID, at time: Int64
  ) {
    guard let old = cases[id]?.verdict else { return }
    cases[id]?.verdict = verdict
    if old.paths == verdict.paths, !old.dependsOnTime, !verdict.dependsOnTime { return }
    removeDependencies(of: id, old)
    for path in verdict.paths {
      places.modify(at: path) { ids in
        ids = ids ?? []
        ids?.insert(id)
      }
    }
    if verdict.dependsOnTime { timed.insert(id, at: time) }
  }

  private mutating func removeDependencies(
    of id: ListenAuthorizations.CaseID, _ verdict: ListenVerdict
  ) {
    for path in verdict.paths {
      places.modify(at: path) { ids in
        ids?.remove(id)
        if ids?.isEmpty == true { ids = nil }
      }
    }
    timed.remove(id)
  }
}
