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
  /// The group that is authorized again together: see `Engine.reauthorize`.
  public var group: ObjectIdentifier?
  /// Returns the verdict for a root and a time in milliseconds since 1970. The engine's thread calls it, so it
  /// must be brief.
  public var authorize: @Sendable (_ root: Node, _ time: Int64) -> ListenVerdict

  /// Creates an authorization.
  public init(
    group: ObjectIdentifier? = nil,
    authorize: @escaping @Sendable (_ root: Node, _ time: Int64) -> ListenVerdict
  ) {
    self.group = group
    self.authorize = authorize
  }
}

/// The authorizations of all listeners, found by the places that their verdicts depend on.
///
/// A commit repeats the authorizations that depend on a place at, above or below one that it writes. Finding
/// them costs the length of the paths and the authorizations found. A verdict that depends on nothing
/// costs nothing. Only the engine's thread uses it, except for `remove`.
final class ListenAuthorizations: Sendable {
  private struct Entry {
    var authorization: ListenAuthorization?
    var denied: @Sendable () -> Void
    var verdict: ListenVerdict
  }

  private struct State {
    var entries: [Int: Entry] = [:]
    var groups: [ObjectIdentifier: Set<Int>] = [:]
    /// The listeners by the places that their verdicts depend on.
    var places = PathTrie<Set<Int>>()
    var timed = TimedAuthorizations()

    mutating func addDependencies(of id: Int, _ verdict: ListenVerdict, at time: Int64) {
      for path in verdict.paths {
        places.modify(at: path) { ids in
          ids = ids ?? []
          ids?.insert(id)
        }
      }
      if verdict.dependsOnTime { timed.insert(id, at: time) }
    }

    mutating func removeDependencies(of id: Int, _ verdict: ListenVerdict) {
      for path in verdict.paths {
        places.modify(at: path) { ids in
          ids?.remove(id)
          if ids?.isEmpty == true { ids = nil }
        }
      }
      timed.remove(id)
    }

    mutating func set(_ authorization: ListenAuthorization?, of id: Int) {
      guard let entry = entries[id] else { return }
      if let group = entry.authorization?.group {
        groups[group]?.remove(id)
        if groups[group]?.isEmpty == true { groups[group] = nil }
      }
      if let group = authorization?.group { groups[group, default: []].insert(id) }
      entries[id]?.authorization = authorization
    }
  }

  private let state = Mutex(State())

  /// Whether no verdict depends on anything: then no commit repeats an authorization.
  var isIdle: Bool { state.withLock { $0.places.isEmpty && $0.timed.isEmpty } }

  /// The number of listeners with an authorization, and of the places that verdicts depend on.
  var counts: (authorizations: Int, places: Int) {
    state.withLock { state in
      (
        state.entries.values.count { $0.authorization != nil },
        state.entries.values.reduce(0) { $0 + $1.verdict.paths.count }
      )
    }
  }

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
      state.entries[id] = Entry(authorization: nil, denied: denied, verdict: verdict)
      state.set(authorization, of: id)
      state.addDependencies(of: id, verdict, at: time)
    }
  }

  /// Gives a listener another authorization; nil for none. Call `authorize` next.
  func set(_ authorization: ListenAuthorization?, of id: Int) {
    state.withLock { $0.set(authorization, of: id) }
  }

  /// Forgets a listener. Safe to call from any thread.
  func remove(_ id: Int) {
    state.withLock { state in
      guard let entry = state.entries[id] else { return }
      state.set(nil, of: id)
      state.removeDependencies(of: id, entry.verdict)
      state.entries[id] = nil
    }
  }

  /// Returns the listeners whose authorizations are of a group; nil for all listeners.
  func ids(of group: ObjectIdentifier?) -> [Int] {
    state.withLock { state in
      guard let group else { return state.entries.keys.sorted() }
      return (state.groups[group] ?? []).sorted()
    }
  }

  /// Returns the listeners that a commit authorizes again. Call `authorize` for each of them.
  ///
  /// - Parameter time: the time of the commit.
  func takeIDs(concernedBy assignments: [Assignment], at time: Int64) -> [Int] {
    state.withLock { state in
      var ids = Set(state.timed.takeDue(at: time))
      for assignment in assignments {
        state.places.forEach(overlapping: assignment.location.path) { ids.formUnion($0) }
      }
      return ids.sorted()
    }
  }

  /// Authorizes a listener again. If it is denied, the listener is forgotten, and its `denied` is called.
  ///
  /// - Returns: whether it may go on.
  func authorize(_ id: Int, _ root: Node, _ time: Int64) -> Bool {
    guard let entry = state.withLock({ $0.entries[id] }) else { return false }
    let verdict =
      entry.authorization?.authorize(root, time) ?? ListenVerdict(isAllowed: true)
    guard verdict.isAllowed else {
      remove(id)
      entry.denied()
      return false
    }
    state.withLock { state in
      guard let old = state.entries[id]?.verdict else { return }
      state.removeDependencies(of: id, old)
      state.entries[id]?.verdict = verdict
      state.addDependencies(of: id, verdict, at: time)
    }
    return true
  }
}
