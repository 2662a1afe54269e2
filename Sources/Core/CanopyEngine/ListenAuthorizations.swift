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

  /// The listeners that may listen no longer.
  struct Denied {
    var ids: [Int] = []
    /// Notify them.
    var notices: [@Sendable () -> Void] = []
  }

  fileprivate struct Entry {
    /// The case of its authorization; nil if it has none.
    var caseID: CaseID?
    var denied: @Sendable () -> Void
  }

  /// One authorization, with all listeners that have it.
  fileprivate struct Case {
    let authorization: ListenAuthorization
    var verdict: ListenVerdict
    var listeners: Set<Int> = []
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

  /// Adds a listener that may listen.
  ///
  /// - Parameters:
  ///   - time: the time of the verdict.
  ///   - denied: called once, when it may no longer listen.
  func add(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ListenVerdict, at time: Int64,
    denied: @escaping @Sendable () -> Void
  ) {
    state.withLock { state in
      state.entries[id] = Entry(denied: denied)
      state.join(id, authorization, verdict, at: time)
    }
  }

  /// Gives a listener another authorization; nil for none.
  ///
  /// - Parameters:
  ///   - verdict: the verdict of that authorization, which allows it.
  ///   - time: the time of the verdict.
  func set(
    _ authorization: ListenAuthorization?, of id: Int, _ verdict: ListenVerdict, at time: Int64
  ) {
    state.withLock { state in
      guard state.entries[id] != nil else { return }
      state.leave(id)
      state.join(id, authorization, verdict, at: time)
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
  func deny(_ id: Int) -> Denied {
    state.withLock { state in
      state.leave(id)
      guard let entry = state.entries.removeValue(forKey: id) else { return Denied() }
      return Denied(ids: [id], notices: [entry.denied])
    }
  }

  /// Returns the cases of a group; nil for all. Call `authorize` for each of them.
  func cases(of group: ObjectIdentifier?) -> [CaseID] {
    state.withLock { state in
      guard let group else { return state.cases.keys.sorted() }
      return (state.groups[group] ?? []).sorted()
    }
  }

  /// Returns the cases that a commit authorizes again. Call `authorize` for each of them.
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

  /// Authorizes the listeners of a case again, once for all of them. If they are denied, they are forgotten.
  ///
  /// - Returns: the listeners that may not go on, in the order in which they began.
  func authorize(_ id: CaseID, _ root: Node, _ time: Int64) -> Denied {
    guard let authorization = state.withLock({ $0.cases[id]?.authorization }) else {
      return Denied()
    }
    let verdict = authorization.authorize(root, time)
    return state.withLock { state in
      guard let found = state.cases[id] else { return Denied() }
      guard verdict.isAllowed else {
        state.removeCase(id, found)
        var denied = Denied()
        for listener in found.listeners.sorted() {
          guard let entry = state.entries.removeValue(forKey: listener) else { continue }
          denied.ids.append(listener)
          denied.notices.append(entry.denied)
        }
        return denied
      }
      state.setVerdict(verdict, of: id, at: time)
      return Denied()
    }
  }
}

extension ListenAuthorizations.State {
  /// Adds a listener to the case of its authorization, with the latest verdict.
  fileprivate mutating func join(
    _ id: Int, _ authorization: ListenAuthorization?, _ verdict: ListenVerdict, at time: Int64
  ) {
    guard let authorization else { return }
    let caseID = findOrAddCase(authorization)
    cases[caseID]?.listeners.insert(id)
    entries[id]?.caseID = caseID
    setVerdict(verdict, of: caseID, at: time)
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
