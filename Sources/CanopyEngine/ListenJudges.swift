public import CanopyTree
internal import Synchronization

/// Whether a listener may listen, and how long that is certain.
public struct ListenVerdict: Sendable {
  /// Whether it may.
  public var isAllowed: Bool
  /// As long as nothing is written at, above or below these places, the answer stays the same.
  public var places: [Path]
  /// Whether it changes with time as well; then it is asked with every commit.
  public var dependsOnTime: Bool

  /// A verdict.
  public init(isAllowed: Bool, places: [Path] = [], dependsOnTime: Bool = false) {
    self.isAllowed = isAllowed
    self.places = places
    self.dependsOnTime = dependsOnTime
  }
}

/// Who says whether a listener may listen.
public struct ListenJudge: Sendable {
  /// What those have in common that are asked anew together: see `Engine.judgeAnew`.
  public var group: ObjectIdentifier?
  /// Gets the root and the time, milliseconds since 1970. Called on the engine's task: it must be
  /// brief.
  public var verdict: @Sendable (_ root: Node, _ time: Int64) -> ListenVerdict

  /// A judge.
  public init(
    group: ObjectIdentifier? = nil,
    verdict: @escaping @Sendable (_ root: Node, _ time: Int64) -> ListenVerdict
  ) {
    self.group = group
    self.verdict = verdict
  }
}

/// The judges of all listeners, found by what their verdicts depend on.
///
/// A commit asks those anew that looked at a place which it writes, at, above or below it: finding
/// them costs the length of the paths and the judges found. A listener whose verdict depends on
/// nothing costs nothing. Asked and changed on the engine's task alone, but for `remove`.
final class ListenJudges: Sendable {
  private struct Entry {
    var judge: ListenJudge?
    var denied: @Sendable () -> Void
    var verdict: ListenVerdict
  }

  private struct State {
    var entries: [Int: Entry] = [:]
    var groups: [ObjectIdentifier: Set<Int>] = [:]
    var places = PlaceIndex()
    /// Those that are asked with every commit.
    var timed: Set<Int> = []

    mutating func depend(_ id: Int, on verdict: ListenVerdict) {
      for place in verdict.places { places.insert(id, at: place) }
      if verdict.dependsOnTime { timed.insert(id) }
    }

    mutating func undepend(_ id: Int, on verdict: ListenVerdict) {
      for place in verdict.places { places.remove(id, at: place) }
      timed.remove(id)
    }

    mutating func setJudge(_ judge: ListenJudge?, of id: Int) {
      guard let entry = entries[id] else { return }
      if let group = entry.judge?.group {
        groups[group]?.remove(id)
        if groups[group]?.isEmpty == true { groups[group] = nil }
      }
      if let group = judge?.group { groups[group, default: []].insert(id) }
      entries[id]?.judge = judge
    }
  }

  private let state = Mutex(State())

  /// Whether no commit asks anybody: then there is nothing to look for.
  var isIdle: Bool { state.withLock { $0.places.isEmpty && $0.timed.isEmpty } }

  /// The number of listeners that have a judge, and of the places that verdicts depend on.
  var counts: (judges: Int, places: Int) {
    state.withLock { state in
      (
        state.entries.values.count { $0.judge != nil },
        state.entries.values.reduce(0) { $0 + $1.verdict.places.count }
      )
    }
  }

  /// Adds a listener that may listen.
  ///
  /// - Parameter denied: called once, when it no longer may.
  func add(
    _ id: Int, _ judge: ListenJudge?, _ verdict: ListenVerdict,
    denied: @escaping @Sendable () -> Void
  ) {
    state.withLock { state in
      state.entries[id] = Entry(judge: nil, denied: denied, verdict: verdict)
      state.setJudge(judge, of: id)
      state.depend(id, on: verdict)
    }
  }

  /// Gives a listener another judge; nil for none. It is to be asked then.
  func setJudge(_ judge: ListenJudge?, of id: Int) {
    state.withLock { $0.setJudge(judge, of: id) }
  }

  /// Forgets a listener. From any thread.
  func remove(_ id: Int) {
    state.withLock { state in
      guard let entry = state.entries[id] else { return }
      state.setJudge(nil, of: id)
      state.undepend(id, on: entry.verdict)
      state.entries[id] = nil
    }
  }

  /// All listeners, or those whose judges are of a group.
  func ids(of group: ObjectIdentifier?) -> [Int] {
    state.withLock { state in
      guard let group else { return state.entries.keys.sorted() }
      return (state.groups[group] ?? []).sorted()
    }
  }

  /// The listeners whose judges a commit asks anew.
  func ids(concernedBy assignments: [Assignment]) -> [Int] {
    state.withLock { state in
      var ids = state.timed
      for assignment in assignments { state.places.collect(assignment.location.path, into: &ids) }
      return ids.sorted()
    }
  }

  /// Asks a listener's judge. If it denies, the listener is forgotten, and told by its `denied`.
  ///
  /// - Returns: whether it may go on.
  func ask(_ id: Int, _ root: Node, _ time: Int64) -> Bool {
    guard let entry = state.withLock({ $0.entries[id] }) else { return false }
    let verdict = entry.judge?.verdict(root, time) ?? ListenVerdict(isAllowed: true)
    guard verdict.isAllowed else {
      remove(id)
      entry.denied()
      return false
    }
    state.withLock { state in
      guard let old = state.entries[id]?.verdict else { return }
      state.undepend(id, on: old)
      state.entries[id]?.verdict = verdict
      state.depend(id, on: verdict)
    }
    return true
  }
}

/// Numbers by places: those at a place, above it and below it.
struct PlaceIndex {
  private struct Level {
    var ids: Set<Int> = []
    var children: [Key: Level] = [:]

    var isEmpty: Bool { ids.isEmpty && children.isEmpty }

    mutating func modify(at keys: ArraySlice<Key>, _ body: (inout Set<Int>) -> Void) {
      guard let key = keys.first else { return body(&ids) }
      var child = children.removeValue(forKey: key) ?? Level()
      child.modify(at: keys.dropFirst(), body)
      if !child.isEmpty { children[key] = child }
    }

    func collect(into all: inout Set<Int>) {
      all.formUnion(ids)
      for child in children.values { child.collect(into: &all) }
    }
  }

  private var root = Level()

  var isEmpty: Bool { root.isEmpty }

  mutating func insert(_ id: Int, at place: Path) {
    root.modify(at: place.keys[...]) { $0.insert(id) }
  }

  mutating func remove(_ id: Int, at place: Path) {
    root.modify(at: place.keys[...]) { $0.remove(id) }
  }

  /// Adds what stands at a place, above it and below it.
  func collect(_ place: Path, into all: inout Set<Int>) {
    var level = root
    for key in place.keys {
      all.formUnion(level.ids)
      guard let child = level.children[key] else { return }
      level = child
    }
    level.collect(into: &all)
  }
}
