public import CanopyTree
internal import Synchronization

/// Decides whether a listener may listen.
public struct ListenAuthorization: Sendable {
  /// The subject of a decision: the caller and the data that they ask for.
  ///
  /// Authorizations with the same subject give the same verdict for the same root and time. So one evaluation
  /// serves all listeners with that subject.
  public struct Subject: Hashable, Sendable {
    let caller: ObjectIdentifier?
    let path: Path
    /// The query, if it is not the one for all children.
    private var query: QueryBox?
    /// Whether the subject is that of all queries.
    private var isOfAllQueries = false

    /// Creates a subject.
    ///
    /// - Parameters:
    ///   - caller: the login; nil for all clients without one.
    ///   - listening: the target; its form is ignored.
    public init(caller: ObjectIdentifier?, _ listening: Listening) {
      self.caller = caller
      path = listening.path
      query = listening.query == .all ? nil : QueryBox(listening.query)
    }

    /// The subject of a verdict that does not depend on the query.
    var ofAllQueries: Subject {
      var subject = self
      subject.query = nil
      subject.isOfAllQueries = true
      return subject
    }

    /// A query in an object of its own. It is large, and few listeners have one.
    private final class QueryBox: Hashable, Sendable {
      let query: Query

      init(_ query: Query) { self.query = query }

      static func == (first: QueryBox, second: QueryBox) -> Bool { first.query == second.query }

      func hash(into hasher: inout Hasher) { hasher.combine(query) }
    }
  }

  /// The group that is authorized again together: see `Engine.reauthorize`.
  public var group: ObjectIdentifier?
  /// The subject; nil if no other authorization has the same.
  public var subject: Subject?
  /// Returns the verdict for a root and a time in milliseconds since 1970 if it takes at most `stepsLeft` steps of the
  /// rules, and reduces them by those that it takes. Returns nil if it takes more, and never with `Int.max`.
  public var authorizeBriefly: Briefly

  /// Returns a verdict if it takes few steps.
  public typealias Briefly =
    @Sendable (_ root: Node, _ time: Int64, _ stepsLeft: inout Int) -> ReadVerdict?

  /// Creates an authorization.
  public init(
    group: ObjectIdentifier? = nil, subject: Subject? = nil,
    authorizeBriefly: @escaping Briefly
  ) {
    self.group = group
    self.subject = subject
    self.authorizeBriefly = authorizeBriefly
  }

  /// Creates an authorization whose verdicts take few steps.
  public init(
    group: ObjectIdentifier? = nil, subject: Subject? = nil,
    authorize: @escaping @Sendable (_ root: Node, _ time: Int64) -> ReadVerdict
  ) {
    self.init(group: group, subject: subject) { root, time, _ in authorize(root, time) }
  }

  /// Returns the verdict, however many steps it takes. The rules have a bound of their own, with which they decide.
  public func authorize(_ root: Node, _ time: Int64) -> ReadVerdict {
    var stepsLeft = Int.max
    return authorizeBriefly(root, time, &stepsLeft) ?? ReadVerdict(isAllowed: false)
  }
}

/// The authorizations of all listeners, found by the locations that their verdicts depend on.
///
/// Listeners whose authorizations have the same subject share one case, and one verdict. A commit repeats the
/// verdicts that depend on a location at, above or below one that it writes. Finding them costs the length of the paths
/// plus the cases found, however many listeners share them. A verdict that depends on nothing costs nothing. A case
/// that is found while it waits is hidden from later commits until it is authorized. So commits find a case twice at
/// most for each verdict.
///
/// A commit may concern the verdicts of very many listeners. The engine's thread repeats a few of them at once, and the
/// others in later turns. Until then the cases wait, and event loops check: they repeat the authorization for each
/// commit before they deliver its events. So no listener gets events that it may not get, and no writer waits for the
/// verdicts about all listeners. A verdict that takes many steps is postponed for the same reason.
///
/// Only the engine's thread uses it, except for `remove`, `announceChange` and the checks of event loops.
final class ListenAuthorizations: Sendable {
  /// The number of a case.
  typealias CaseID = Int

  /// The listeners that may listen no longer.
  struct Denied {
    var ids: [Int] = []
    /// Notify them.
    var notices: [@Sendable () -> Void] = []
  }

  fileprivate struct Entry {
    /// The case of its authorization; nil if it has none.
    var caseID: CaseID?
    /// Whether the group of the listener checks its authorization before it delivers events.
    let isChecked: Bool
    /// The last commit whose events are to be checked even if the present case does not wait, because the previous case
    /// of the listener waited.
    var uncheckedUpTo: Int64 = 0
    /// The end of the listener, until its event loop has dropped it.
    var end: End?
    var denied: @Sendable () -> Void
  }

  /// The end of a listener whose event loop may have events from before.
  fileprivate struct End {
    let caseID: CaseID
    let authorization: ListenAuthorization
    /// The last commit whose events the listener may get.
    let sequence: Int64
    /// The last commit whose events are to be checked.
    let uncheckedUpTo: Int64
  }

  /// One authorization, with all listeners that have it.
  fileprivate struct Case {
    let authorization: ListenAuthorization
    var verdict: ReadVerdict
    var listeners: Set<Int> = []
    /// The number of listeners whose groups do not check authorizations.
    var uncheckingListeners = 0
    /// The last commit before the change after which the case waits to be authorized again; nil if it does not wait.
    /// The events of later commits are to be checked.
    var waitsSince: Int64?
    /// The last commit whose events are to be checked because the case waited then.
    var uncheckedUpTo: Int64 = 0
    /// Whether commits do not find the case by the locations of its verdict. Only a case that waits is hidden, because
    /// it is authorized again in a later turn anyway.
    var isHidden = false
  }

  fileprivate struct State {
    var entries: [Int: Entry] = [:]
    var cases: [CaseID: Case] = [:]
    var lastCase: CaseID = 0
    var subjects: [ListenAuthorization.Subject: CaseID] = [:]
    var groups: [ObjectIdentifier: Set<CaseID>] = [:]
    /// The cases that are not hidden, by the locations that their verdicts depend on.
    var places = PathTrie<Set<CaseID>>()
    var timed = TimedAuthorizations()
    /// The groups whose cases are to wait when it is their turn on the engine's thread.
    var announced = AnnouncedChanges()
    /// The number of cases that wait to be authorized again.
    var waitingCases = 0
    /// The last commit whose events are to be checked when no case waits.
    var lastUnchecked: Int64 = 0
    /// The number of changes of something besides the tree.
    var otherChanges = 0
  }

  private let state = Mutex(State())
  /// The last commit whose events are to be checked; `.max` while a case waits, or is to wait. So an event loop asks for
  /// the listeners of a view only if there is anything to check.
  private let uncheckedUpTo = Atomic<Int64>(0)

  /// Whether no verdict depends on anything: then no commit repeats an authorization.
  var isIdle: Bool { state.withLock { $0.places.isEmpty && $0.timed.isEmpty } }

  /// The number of listeners with an authorization, and of the locations that verdicts depend on.
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

  /// Changes the state, and publishes what event loops must know of it.
  private func change<R>(_ body: (inout State) -> R) -> R {
    state.withLock { state in
      let result = body(&state)
      let mayWait = state.waitingCases > 0 || !state.announced.isEmpty
      uncheckedUpTo.store(mayWait ? .max : state.lastUnchecked, ordering: .releasing)
      return result
    }
  }

  /// Adds a listener that may listen.
  ///
  /// - Parameters:
  ///   - time: the time of the verdict.
  ///   - isChecked: whether the group of the listener checks its authorization before it delivers events.
  ///   - denied: called once, when it may no longer listen.
  func add(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ReadVerdict, at time: Int64,
    isChecked: Bool, denied: @escaping @Sendable () -> Void
  ) {
    change { state in
      state.entries[id] = Entry(isChecked: isChecked, denied: denied)
      state.join(id, authorization, verdict, at: time)
    }
  }

  /// Gives a listener another authorization; nil for none.
  ///
  /// - Parameters:
  ///   - verdict: the verdict of that authorization, which allows it.
  ///   - time: the time of the verdict.
  ///   - sequence: the last commit before it.
  func set(
    _ authorization: ListenAuthorization?, of id: Int, _ verdict: ReadVerdict, at time: Int64,
    after sequence: Int64
  ) {
    change { state in
      guard let caseID = state.move(id, to: authorization, after: sequence) else { return }
      state.setVerdict(verdict, of: caseID, at: time)
    }
  }

  /// Gives a listener another authorization before its verdict is known. Its case waits for that, and event loops check.
  ///
  /// - Parameter sequence: the last commit before the change.
  /// - Returns: the case. Call `setVerdict` for it. Nil if there is no such listener, or if its group checks nothing; then
  ///   nothing has changed.
  func set(
    _ authorization: ListenAuthorization, of id: Int, waitingSince sequence: Int64
  ) -> CaseID? {
    change { state in
      guard state.entries[id]?.isChecked == true,
        let caseID = state.move(id, to: authorization, after: sequence)
      else { return nil }
      state.wait(caseID, since: sequence)
      return caseID
    }
  }

  /// Whether there is a listener with a number.
  func has(_ id: Int) -> Bool { state.withLock { $0.entries[id] != nil } }

  /// Forgets a listener. Safe to call from any thread.
  func remove(_ id: Int) {
    change { state in
      state.leave(id)
      state.entries[id] = nil
    }
  }

  /// Forgets a listener that may listen no longer.
  ///
  /// - Parameter sequence: the last commit before.
  func deny(_ id: Int, after sequence: Int64) -> Denied {
    change { state in
      state.lastUnchecked = max(state.lastUnchecked, sequence)
      let end = state.entries[id]?.caseID.flatMap { state.end(of: $0, after: sequence) }
      state.leave(id)
      var denied = Denied()
      state.deny(id, end, &denied)
      return denied
    }
  }

  /// Notes that something besides the tree has changed for a group. From now on event loops check the events of later
  /// commits. `waitForVerdicts` must follow. Safe to call from any thread. O(1).
  ///
  /// - Parameter sequence: the last commit whose events need no check.
  func announceChange(of group: ObjectIdentifier, after sequence: Int64) {
    change { state in
      // A verdict that was found before the change is old from now on, not only from the turn of the group on.
      state.otherChanges += 1
      state.announced.add(group, after: sequence)
    }
  }

  /// Lets the cases of a group wait to be authorized again, or all for nil, after a change of something besides the tree.
  /// Returns them. Call `setVerdict` for each of them.
  ///
  /// - Parameter sequence: the last commit before the change, unless it was announced.
  func waitForVerdicts(of group: ObjectIdentifier?, since sequence: Int64) -> [CaseID] {
    change { state in
      state.otherChanges += 1
      let announced = group.flatMap { state.announced.endWait(of: $0) }
      let ids = group.map { (state.groups[$0] ?? []).sorted() } ?? state.cases.keys.sorted()
      for id in ids { state.wait(id, since: announced ?? sequence) }
      return ids
    }
  }

  /// Returns the cases that a commit authorizes again. Call `setVerdict` or `postpone` for those to be repeated now,
  /// before the commit is published, and `setVerdict` later for the others, which wait until then.
  ///
  /// - Parameters:
  ///   - sequence: the number of the commit.
  ///   - time: the time of the commit.
  ///   - room: the number of cases that may be repeated now. It is reduced by those that are. A case with a listener whose
  ///     group checks nothing is repeated now in any case.
  /// - Returns: these cases, and the number of cases that were looked at. If the assignments are sorted, each case is
  ///   looked at once for each location of its verdict, however many assignments there are.
  func takeCases(
    concernedBy assignments: [Assignment], of sequence: Int64, at time: Int64, room: inout Int
  ) -> (now: [CaseID], later: [CaseID], looks: Int) {
    change { state in
      var ids = Set(state.timed.takeDue(at: time))
      var looks = ids.count
      state.places.forEach(overlapping: assignments.lazy.map(\.location.path)) {
        looks += $0.count
        ids.formUnion($0)
      }
      var (now, later): ([CaseID], [CaseID]) = ([], [])
      for id in ids.sorted() {
        guard let found = state.cases[id] else { continue }
        if found.uncheckingListeners > 0 || (room > 0 && found.waitsSince == nil) {
          room = max(0, room - 1)
          now.append(id)
        } else if found.waitsSince == nil {
          state.wait(id, since: sequence - 1)
          later.append(id)
        } else {
          state.hide(id)
        }
      }
      return (now, later, looks)
    }
  }

  /// Lets a case wait that was to be authorized again before a commit is published, because that takes many steps.
  ///
  /// - Returns: false if the case may not wait, because the group of a listener checks nothing.
  func postpone(_ id: CaseID, until sequence: Int64) -> Bool {
    change { state in
      guard let found = state.cases[id], found.uncheckingListeners == 0 else { return false }
      state.wait(id, since: sequence - 1)
      return true
    }
  }

  /// Returns the authorization of a case; nil if it has no listeners any more.
  func authorization(of id: CaseID) -> ListenAuthorization? {
    state.withLock { $0.cases[id]?.authorization }
  }

  /// The number of changes of something besides the tree until now: a verdict from before such a change may not hold after
  /// it.
  var otherChanges: Int { state.withLock { $0.otherChanges } }

  /// Returns the authorization of a case that waits, and the number of changes of something besides the tree until now:
  /// a verdict from before such a change may not hold after it. Nil if the case does not wait.
  func waiting(_ id: CaseID) -> (authorization: ListenAuthorization, otherChanges: Int)? {
    state.withLock { state in
      guard let found = state.cases[id], found.waitsSince != nil else { return nil }
      return (found.authorization, state.otherChanges)
    }
  }

  /// Gives a case its next verdict, which holds for all of its listeners. If they are denied, they are forgotten.
  ///
  /// - Parameters:
  ///   - time: the time of the verdict.
  ///   - sequence: the commit of the verdict.
  ///   - isLast: whether that commit is published, and no later one. Then the case waits no longer.
  /// - Returns: the listeners that may not go on, in the order in which they began.
  func setVerdict(
    _ verdict: ReadVerdict, of id: CaseID, at time: Int64, after sequence: Int64, isLast: Bool
  ) -> Denied {
    change { state in
      guard let found = state.cases[id] else { return Denied() }
      guard verdict.isAllowed else {
        state.lastUnchecked = max(state.lastUnchecked, sequence)
        // The events of this commit follow if it is not published.
        let end = state.end(of: id, after: isLast ? sequence : sequence - 1)
        state.removeCase(id, found)
        var denied = Denied()
        for listener in found.listeners.sorted() { state.deny(listener, end, &denied) }
        return denied
      }
      if isLast { state.endWaiting(id, after: sequence) }
      state.setVerdict(verdict, of: id, at: time)
      return Denied()
    }
  }

  // MARK: Checks of event loops

  /// Whether the events of a commit may have to be checked. Safe to call from any thread.
  func mayBeUnchecked(at sequence: Int64) -> Bool {
    sequence <= uncheckedUpTo.load(ordering: .acquiring)
  }

  /// Returns the checks before the events of a commit are delivered, each with the positions of its listeners. Safe to
  /// call from any thread. O(listeners).
  func checks(of ids: [Int?], at sequence: Int64) -> [ListenCheck] {
    state.withLock { state in
      var checks: [ListenCheck] = []
      var positions: [CaseID?: Int] = [:]
      for (position, id) in ids.enumerated() {
        guard let id, let entry = state.entries[id],
          let (authorization, caseID) = state.check(of: entry, at: sequence)
        else { continue }
        if let found = positions[caseID] {
          checks[found].listeners.append(position)
        } else {
          positions[caseID] = checks.count
          checks.append(ListenCheck(authorization: authorization, listeners: [position]))
        }
      }
      return checks
    }
  }
}

/// A check of some listeners before events are delivered to them.
public struct ListenCheck: Sendable {
  /// The authorization to be repeated; nil if the listeners have been denied.
  let authorization: ListenAuthorization?
  /// The positions of the listeners in the `ids` passed to `checks`.
  public fileprivate(set) var listeners: [Int]

  /// Whether the listeners may get the events of a commit.
  public func allows(_ change: CommittedChange) -> Bool { verdict(after: change).isAllowed }

  /// Returns the verdict about the events of a commit, however many steps it takes.
  public func verdict(after change: CommittedChange) -> ReadVerdict {
    authorization?.authorize(change.after, change.time) ?? ReadVerdict(isAllowed: false)
  }
}

extension ListenAuthorizations.State {
  /// Adds a listener to the case of its authorization, with the latest verdict.
  fileprivate mutating func join(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ReadVerdict, at time: Int64
  ) {
    guard let authorization else { return }
    setVerdict(verdict, of: join(id, authorization), at: time)
  }

  /// Adds a listener to the case of its authorization, and returns the case. A new case has no verdict yet.
  fileprivate mutating func join(
    _ id: Int, _ authorization: ListenAuthorization
  ) -> ListenAuthorizations.CaseID {
    let caseID = findOrAddCase(authorization)
    cases[caseID]?.listeners.insert(id)
    if entries[id]?.isChecked == false { cases[caseID]?.uncheckingListeners += 1 }
    entries[id]?.caseID = caseID
    return caseID
  }

  /// Moves a listener from its case to that of another authorization. Returns that case; nil for none.
  ///
  /// - Parameter sequence: the last commit until now.
  fileprivate mutating func move(
    _ id: Int, to authorization: ListenAuthorization?, after sequence: Int64
  ) -> ListenAuthorizations.CaseID? {
    guard let entry = entries[id] else { return nil }
    // The event loop may have events that the former authorization would deny. Only this number of the former case is
    // kept: a copy of the case would make the removal of the listener copy the set of all listeners.
    let last = entry.caseID.map { lastToCheck(of: $0, after: sequence) } ?? 0
    leave(id)
    let caseID = authorization.map { join(id, $0) }
    entries[id]?.uncheckedUpTo = max(entry.uncheckedUpTo, last)
    lastUnchecked = max(lastUnchecked, last)
    return caseID
  }

  private mutating func findOrAddCase(
    _ authorization: ListenAuthorization
  ) -> ListenAuthorizations.CaseID {
    if let subject = authorization.subject, let id = subjects[subject] { return id }
    lastCase += 1
    cases[lastCase] = ListenAuthorizations.Case(
      authorization: authorization, verdict: ReadVerdict(isAllowed: true))
    if let subject = authorization.subject { subjects[subject] = lastCase }
    if let group = authorization.group { groups[group, default: []].insert(lastCase) }
    return lastCase
  }

  fileprivate mutating func leave(_ id: Int) {
    guard let caseID = entries[id]?.caseID else { return }
    entries[id]?.caseID = nil
    cases[caseID]?.listeners.remove(id)
    if entries[id]?.isChecked == false { cases[caseID]?.uncheckingListeners -= 1 }
    if let left = cases[caseID], left.listeners.isEmpty { removeCase(caseID, left) }
  }

  fileprivate mutating func removeCase(
    _ id: ListenAuthorizations.CaseID, _ removed: ListenAuthorizations.Case
  ) {
    removeDependencies(of: id, removed.verdict)
    if removed.waitsSince != nil { waitingCases -= 1 }
    assert(waitingCases >= 0, "a waiting case was removed twice")
    if let subject = removed.authorization.subject { subjects[subject] = nil }
    if let group = removed.authorization.group {
      groups[group]?.remove(id)
      if groups[group]?.isEmpty == true { groups[group] = nil }
    }
    cases[id] = nil
  }

  fileprivate mutating func wait(_ id: ListenAuthorizations.CaseID, since sequence: Int64) {
    guard let found = cases[id] else { return }
    if found.waitsSince == nil { waitingCases += 1 }
    cases[id]?.waitsSince = min(found.waitsSince ?? .max, sequence)
  }

  /// Returns the last commit before the change after which a case waits, or is to wait; nil if it does neither.
  private func waitsSince(_ found: ListenAuthorizations.Case) -> Int64? {
    guard let announced = self.announced.sequence(of: found.authorization.group) else {
      return found.waitsSince
    }
    return min(announced, found.waitsSince ?? .max)
  }

  /// Returns the last commit whose events are to be checked for the listeners that have had a case until now.
  ///
  /// - Parameter sequence: the last commit until now.
  fileprivate func lastToCheck(
    of id: ListenAuthorizations.CaseID, after sequence: Int64
  ) -> Int64 {
    guard let found = cases[id] else { return 0 }
    return waitsSince(found) == nil ? found.uncheckedUpTo : sequence
  }

  /// Hides a case that waits from commits, until it has its next verdict.
  fileprivate mutating func hide(_ id: ListenAuthorizations.CaseID) {
    guard let found = cases[id] else { return }
    assert(found.waitsSince != nil, "a case that does not wait must be found")
    removeDependencies(of: id, found.verdict)
    cases[id]?.isHidden = true
  }

  fileprivate mutating func endWaiting(_ id: ListenAuthorizations.CaseID, after sequence: Int64) {
    guard let found = cases[id], found.waitsSince != nil else { return }
    cases[id]?.waitsSince = nil
    waitingCases -= 1
    // The loops may still have events up to this commit.
    cases[id]?.uncheckedUpTo = sequence
    lastUnchecked = max(lastUnchecked, sequence)
  }

  /// Returns the end of the listeners of a case that is denied.
  ///
  /// If the case waits, the listeners get no events of the commits since then: the rules may have changed again when
  /// the loop would check them.
  ///
  /// - Parameter sequence: the last commit before the denial.
  fileprivate func end(
    of id: ListenAuthorizations.CaseID, after sequence: Int64
  ) -> ListenAuthorizations.End? {
    guard let found = cases[id] else { return nil }
    return ListenAuthorizations.End(
      caseID: id, authorization: found.authorization, sequence: waitsSince(found) ?? sequence,
      uncheckedUpTo: found.uncheckedUpTo)
  }

  /// Forgets a listener that may listen no longer. One whose group checks events is kept until the event loop has
  /// dropped it: until `remove`.
  fileprivate mutating func deny(
    _ id: Int, _ end: ListenAuthorizations.End?, _ denied: inout ListenAuthorizations.Denied
  ) {
    guard let entry = entries[id] else { return }
    denied.ids.append(id)
    denied.notices.append(entry.denied)
    guard entry.isChecked, let end else { return entries[id] = nil }
    entries[id]?.caseID = nil
    entries[id]?.end = end
  }

  /// Returns the authorization to be repeated before a listener gets the events of a commit, with its case; nil for
  /// none. The authorization is nil if the listener may not get them.
  fileprivate func check(
    of entry: ListenAuthorizations.Entry, at sequence: Int64
  ) -> (ListenAuthorization?, ListenAuthorizations.CaseID?)? {
    if let end = entry.end {
      if sequence > end.sequence { return (nil, nil) }
      return sequence <= max(end.uncheckedUpTo, entry.uncheckedUpTo)
        ? (end.authorization, end.caseID) : nil
    }
    guard let caseID = entry.caseID, let found = cases[caseID] else { return nil }
    let isUnchecked =
      sequence <= max(found.uncheckedUpTo, entry.uncheckedUpTo)
      || sequence > waitsSince(found) ?? .max
    return isUnchecked ? (found.authorization, caseID) : nil
  }

  fileprivate mutating func setVerdict(
    _ verdict: ReadVerdict, of id: ListenAuthorizations.CaseID, at time: Int64
  ) {
    guard let found = cases[id] else { return }
    let old = found.verdict
    cases[id]?.verdict = verdict
    cases[id]?.isHidden = false
    if old.paths == verdict.paths, !old.dependsOnTime, !verdict.dependsOnTime, !found.isHidden {
      return
    }
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
    of id: ListenAuthorizations.CaseID, _ verdict: ReadVerdict
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
