public import CanopyTree
internal import Synchronization

/// The authorizations of all listeners, found by the locations that their verdicts depend on.
///
/// Listeners whose authorizations have the same subject share one case, and one verdict. A commit repeats the
/// verdicts that depend on a location at, above or below one that it writes. Finding them costs the length of the paths
/// plus the cases found, however many listeners share them. A verdict that depends on nothing costs nothing. A case
/// that is found while it waits is hidden from later commits until it is authorized. So commits find a case twice at
/// most for each verdict.
///
/// If too many verdicts depend on the places that a commit changes, the engine's thread only notes the places: see
/// `UnsearchedPlaces`. It goes through all cases in later turns, and searches for those that depend on them.
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
    /// The cases before and after it in the order in which they were added; nil at an end.
    var previous: CaseID?
    var next: CaseID?
  }

  fileprivate struct State {
    var entries: [Int: Entry] = [:]
    var cases: [CaseID: Case] = [:]
    /// The number of the latest case that was added.
    var lastCase: CaseID = 0
    /// The first and the last of all cases in the order in which they were added.
    var firstCase: CaseID?
    var finalCase: CaseID?
    /// The most cases that are looked at for a commit.
    let looksMax: Int
    /// The places of the search that is under way; none if none is.
    var unsearched = UnsearchedPlaces()
    /// The places that have changed since this search began. The next search is for them.
    var unsearchedNext = UnsearchedPlaces()
    /// The next case of the search; nil at its end.
    var searched: CaseID?
    /// The cases with listeners whose groups check nothing. The server itself has these, so there are few.
    var unchecking: Set<CaseID> = []
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

  private let state: Mutex<State>
  /// The last commit whose events are to be checked; `.max` while a case waits, or is to wait. So an event loop asks for
  /// the listeners of a view only if there is anything to check.
  private let uncheckedUpTo = Atomic<Int64>(0)

  /// Creates an empty set.
  ///
  /// - Parameter looksMax: the most cases that are looked at for a commit.
  init(looksMax: Int = UnsearchedPlaces.looksMax) {
    state = Mutex(State(looksMax: looksMax))
  }

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
      let mayWait =
        state.waitingCases > 0 || !state.announced.isEmpty || !state.unsearched.isEmpty
      uncheckedUpTo.store(mayWait ? .max : state.lastUnchecked, ordering: .releasing)
      return result
    }
  }

  /// Adds a listener that may listen.
  ///
  /// - Parameters:
  ///   - time: the time of the verdict.
  ///   - sequence: the last commit before it.
  ///   - isChecked: whether the group of the listener checks its authorization before it delivers events.
  ///   - denied: called once, when it may no longer listen.
  func add(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ReadVerdict, at time: Int64,
    after sequence: Int64, isChecked: Bool, denied: @escaping @Sendable () -> Void
  ) {
    change { state in
      state.entries[id] = Entry(isChecked: isChecked, denied: denied)
      guard let authorization else { return }
      let caseID = state.join(id, authorization)
      state.setVerdict(verdict, of: caseID, at: time, after: sequence)
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
      state.setVerdict(verdict, of: caseID, at: time, after: sequence)
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
  /// commits, until `endAnnouncement`. Safe to call from any thread. O(1).
  ///
  /// - Parameter sequence: the last commit whose events need no check.
  func announceChange(of group: ObjectIdentifier, after sequence: Int64) {
    change { state in
      // A verdict that was found before the change is old from now on, not only from the turn of the group on.
      state.otherChanges += 1
      state.announced.add(group, after: sequence)
    }
  }

  /// Lets all cases wait to be authorized again, after a change of something besides the tree. Returns them. Call
  /// `setVerdict` for each of them.
  ///
  /// - Parameter sequence: the last commit before the change.
  func waitForVerdicts(since sequence: Int64) -> [CaseID] {
    change { state in
      state.otherChanges += 1
      let ids = state.cases.keys.sorted()
      for id in ids { state.wait(id, since: sequence) }
      return ids
    }
  }

  /// Returns the cases of a group after an announced change. Call `wait` and `setVerdict` for each of them, and then
  /// `endAnnouncement`. O(1), because a connection may have very many.
  func cases(of group: ObjectIdentifier) -> Set<CaseID> {
    change { state in
      state.otherChanges += 1
      return state.groups[group] ?? []
    }
  }

  /// Lets a case wait to be authorized again after an announced change of its group.
  func wait(_ id: CaseID, of group: ObjectIdentifier) {
    change { state in
      if let sequence = state.announced.sequence(of: group) { state.wait(id, since: sequence) }
    }
  }

  /// Ends an announced change, after the cases that its group had have been authorized again.
  func endAnnouncement(of group: ObjectIdentifier) {
    change { _ = $0.announced.endWait(of: group) }
  }

  /// Returns the cases that a commit authorizes again. Call `setVerdict` or `postpone` for those to be repeated now,
  /// before the commit is published, and `setVerdict` later for the others, which wait until then.
  ///
  /// - Parameters:
  ///   - sequence: the number of the commit.
  ///   - time: the time of the commit.
  ///   - room: the number of cases that may be repeated now. It is reduced by those that are. A case with a listener whose
  ///     group checks nothing is repeated now in any case.
  /// - Returns: these cases, the number of cases that were looked at, and whether the caller must begin a search with
  ///   `searchNext`. If the assignments are sorted, each case is looked at once for each location of its verdict, however
  ///   many assignments there are.
  func takeCases(
    concernedBy assignments: [Assignment], of sequence: Int64, at time: Int64, room: inout Int
  ) -> (now: [CaseID], later: [CaseID], looks: Int, beginsSearch: Bool) {
    change { state in
      var ids = Set(state.timed.takeDue(at: time))
      var looks = ids.count
      let beginsSearch = state.find(assignments, after: sequence - 1, &ids, &looks)
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
      return (now, later, looks, beginsSearch)
    }
  }

  /// A step of the search for the cases that depend on unsearched places.
  enum SearchStep: Equatable {
    /// The case waits. Call `setVerdict` for it.
    case found(CaseID)
    /// No case was found in this step.
    case notFound
    /// All cases have been searched.
    case end
  }

  /// Goes on with the search for the cases that depend on unsearched places.
  func searchNext() -> SearchStep {
    change { state in
      for _ in 0..<ListenAuthorizations.searchedMax {
        guard let id = state.searched, let found = state.cases[id] else {
          state.unsearched = state.unsearchedNext
          state.unsearchedNext = UnsearchedPlaces()
          state.searched = state.firstCase
          return state.unsearched.isEmpty ? .end : .notFound
        }
        state.searched = found.next
        if state.unsearched.overlap(found.verdict.paths) {
          state.wait(id, since: state.unsearched.since)
          return .found(id)
        }
      }
      return .notFound
    }
  }

  /// The most cases that a step of the search looks at.
  private static let searchedMax = 64

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
      state.setVerdict(verdict, of: id, at: time, after: sequence)
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
      var unsearched: [CaseID: Int64?] = [:]
      for (position, id) in ids.enumerated() {
        guard let id, let entry = state.entries[id],
          let (authorization, caseID) = state.check(of: entry, at: sequence, &unsearched)
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
  /// Adds a listener to the case of its authorization, and returns the case. A new case has no verdict yet.
  fileprivate mutating func join(
    _ id: Int, _ authorization: ListenAuthorization
  ) -> ListenAuthorizations.CaseID {
    let caseID = findOrAddCase(authorization)
    cases[caseID]?.listeners.insert(id)
    if entries[id]?.isChecked == false {
      cases[caseID]?.uncheckingListeners += 1
      unchecking.insert(caseID)
    }
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
      authorization: authorization, verdict: ReadVerdict(isAllowed: true), previous: finalCase)
    if let finalCase { cases[finalCase]?.next = lastCase } else { firstCase = lastCase }
    finalCase = lastCase
    if let subject = authorization.subject { subjects[subject] = lastCase }
    if let group = authorization.group { groups[group, default: []].insert(lastCase) }
    return lastCase
  }

  fileprivate mutating func leave(_ id: Int) {
    guard let caseID = entries[id]?.caseID else { return }
    entries[id]?.caseID = nil
    cases[caseID]?.listeners.remove(id)
    if entries[id]?.isChecked == false { cases[caseID]?.uncheckingListeners -= 1 }
    guard let left = cases[caseID] else { return }
    if left.uncheckingListeners == 0 { unchecking.remove(caseID) }
    if left.listeners.isEmpty { removeCase(caseID, left) }
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
    unchecking.remove(id)
    // Not those of `removed`, which may be a copy from before.
    let (previous, next) = (cases[id]?.previous, cases[id]?.next)
    if let previous { cases[previous]?.next = next } else { firstCase = next }
    if let next { cases[next]?.previous = previous } else { finalCase = previous }
    if searched == id { searched = next }
    cases[id] = nil
  }

  /// Finds the cases whose verdicts depend on a location at, above or below one of some assignments. If they are too many,
  /// notes the places instead, and finds only those that may not wait.
  ///
  /// - Parameters:
  ///   - sequence: the last commit before the assignments.
  ///   - ids: receives the cases.
  ///   - looks: is increased by the number of cases that were looked at.
  /// - Returns: whether a search must begin.
  fileprivate mutating func find(
    _ assignments: [Assignment], after sequence: Int64,
    _ ids: inout Set<ListenAuthorizations.CaseID>,
    _ looks: inout Int
  ) -> Bool {
    let paths = assignments.lazy.map(\.location.path)
    // A place of the present search is looked at as any other, because cases that were searched may depend on it.
    let isCovering = !unsearchedNext.isEmpty
    let others = isCovering ? paths.filter { [unsearchedNext] in !unsearchedNext.contains($0) } : []
    let isComplete =
      isCovering ? find(overlapping: others, &ids, &looks) : find(overlapping: paths, &ids, &looks)
    if isComplete, !isCovering || others.count == assignments.count { return false }
    let begins = unsearched.isEmpty
    assert(!begins || !isCovering, "the next search waits for the present one")
    if begins {
      unsearched.add(paths, since: sequence)
      searched = firstCase
    } else if !isComplete {
      unsearchedNext.add(paths, since: sequence)
    }
    ids.formUnion(unchecking.filter { cases[$0].flatMap(unsearchedSince) != nil })
    return begins
  }

  /// Adds the cases that depend on locations at, above or below some paths. If they are too many, adds none, and returns
  /// false.
  private func find(
    overlapping paths: some Sequence<Path>, _ ids: inout Set<ListenAuthorizations.CaseID>,
    _ looks: inout Int
  ) -> Bool {
    var (found, left) = (ids, looksMax)
    let isComplete = places.visit(overlapping: paths) { ids in
      looks += min(ids.count, left + 1)
      left -= min(ids.count, left + 1)
      guard left >= 0 else { return false }
      found.formUnion(ids)
      return true
    }
    if isComplete { ids = found }
    return isComplete
  }

  /// Returns the last commit before the unsearched changes of places on which the verdict of a case depends; nil if it
  /// depends on no such place.
  fileprivate func unsearchedSince(_ found: ListenAuthorizations.Case) -> Int64? {
    if unsearched.overlap(found.verdict.paths) { return unsearched.since }
    return unsearchedNext.overlap(found.verdict.paths) ? unsearchedNext.since : nil
  }

  fileprivate mutating func wait(_ id: ListenAuthorizations.CaseID, since sequence: Int64) {
    guard let found = cases[id] else { return }
    if found.waitsSince == nil { waitingCases += 1 }
    cases[id]?.waitsSince = min(found.waitsSince ?? .max, sequence)
  }

  /// Returns the last commit before the change after which a case waits, or is to wait; nil if it does neither.
  private func waitsSince(_ found: ListenAuthorizations.Case) -> Int64? {
    waitsSince(found, unsearched: unsearchedSince(found))
  }

  private func waitsSince(_ found: ListenAuthorizations.Case, unsearched: Int64?) -> Int64? {
    var since = found.waitsSince ?? .max
    if let announced = announced.sequence(of: found.authorization.group) {
      since = min(since, announced)
    }
    if let unsearched { since = min(since, unsearched) }
    return since == .max ? nil : since
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
  ///
  /// - Parameter known: the results of `unsearchedSince` until now. Many listeners may have the same case.
  fileprivate func check(
    of entry: ListenAuthorizations.Entry, at sequence: Int64,
    _ known: inout [ListenAuthorizations.CaseID: Int64?]
  ) -> (ListenAuthorization?, ListenAuthorizations.CaseID?)? {
    if let end = entry.end {
      if sequence > end.sequence { return (nil, nil) }
      return sequence <= max(end.uncheckedUpTo, entry.uncheckedUpTo)
        ? (end.authorization, end.caseID) : nil
    }
    guard let caseID = entry.caseID, let found = cases[caseID] else { return nil }
    if sequence <= max(found.uncheckedUpTo, entry.uncheckedUpTo) {
      return (found.authorization, caseID)
    }
    var since: Int64?
    if !unsearched.isEmpty {
      since = known[caseID, default: unsearchedSince(found)]
      known.updateValue(since, forKey: caseID)
    }
    return sequence > waitsSince(found, unsearched: since) ?? .max
      ? (found.authorization, caseID) : nil
  }

  fileprivate mutating func setVerdict(
    _ verdict: ReadVerdict, of id: ListenAuthorizations.CaseID, at time: Int64,
    after sequence: Int64
  ) {
    guard let found = cases[id] else { return }
    let old = found.verdict
    if unsearchedSince(found) != nil {
      // The loops may have events up to this commit, and the verdict may depend on other places.
      cases[id]?.uncheckedUpTo = max(found.uncheckedUpTo, sequence)
      lastUnchecked = max(lastUnchecked, sequence)
    }
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
