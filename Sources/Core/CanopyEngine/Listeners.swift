internal import CanopyTree
internal import Synchronization

/// The listeners of an engine, as views by location: listeners to the same location with the same query and form
/// of events share a view. A view exists while it has listeners.
///
/// A commit concerns the views at each location that it writes, above it, and below it, but not those above whose
/// bounds exclude the key of the child that was written. Finding them costs the length of the path, and a
/// comparison of keys for each view at or above the location. The search ends when it has found, or looked at,
/// more than a commit may cost the writer: see `ConcernedViews`.
final class Listeners: Sendable {
  typealias Listener = @Sendable (Notification) -> Void

  /// One location, query and form, with all its listeners.
  final class View: Sendable {
    let listening: Listening
    /// The number of its first listener. Views are notified in this order.
    fileprivate let number: Int
    private let audience = Mutex(Audience())

    private struct Audience {
      var single: [Int: Listener] = [:]
      var groups: [ObjectIdentifier: (listener: Listener, members: Set<Int>)] = [:]
    }

    fileprivate init(_ listening: Listening, number: Int) {
      self.listening = listening
      self.number = number
    }

    fileprivate func add(_ id: Int, _ group: ObjectIdentifier?, _ listener: @escaping Listener) {
      audience.withLock { audience in
        guard let group else { return audience.single[id] = listener }
        audience.groups[group, default: (listener, [])].members.insert(id)
      }
    }

    /// Removes a listener. Returns whether any is left, and whether any without a group is left.
    fileprivate func remove(_ id: Int, _ group: ObjectIdentifier?) -> (
      isUsed: Bool, hasSingle: Bool
    ) {
      audience.withLock { audience in
        if let group {
          audience.groups[group]?.members.remove(id)
          if audience.groups[group]?.members.isEmpty == true { audience.groups[group] = nil }
        } else {
          audience.single[id] = nil
        }
        let hasSingle = !audience.single.isEmpty
        return (hasSingle || !audience.groups.isEmpty, hasSingle)
      }
    }

    /// Notifies the listeners without a group, and each group once.
    ///
    /// - Parameter groupsToo: whether to notify the groups.
    func notify(_ notification: Notification, groupsToo: Bool = true) {
      // Called outside the lock: a listener may end another one, or itself.
      let (single, groups) = audience.withLock {
        (Array($0.single.values), groupsToo ? Array($0.groups.values) : [])
      }
      for listener in single { listener(notification) }
      for group in groups { group.listener(notification) }
    }
  }

  fileprivate struct Entry {
    let listening: Listening
    let group: ObjectIdentifier?
    let owner: ListenerOwner?
  }

  fileprivate struct State {
    var views = PathTrie<[Listening: View]>()
    /// The views that have listeners without a group.
    var single = PathTrie<[Listening: View]>()
    var entries: [Int: Entry] = [:]
    var groups: [ObjectIdentifier: (group: any ListenerGroup, count: Int)] = [:]
    /// The views of each owner, with the number of its listeners.
    var owned: [String: [Listening: Int]] = [:]
    var lastID = 0
  }

  private let state = Mutex(State())
  /// The memory for the texts that notifications share.
  let derivedBytes = DerivedBytes()

  /// The number of listeners, and of the views that they share.
  var counts: (listeners: Int, views: Int) {
    state.withLock { state in
      var views = 0
      state.views.forEach { views += $0.count }
      return (state.entries.count, views)
    }
  }

  /// The number of owners with listeners.
  var ownerCount: Int { state.withLock { $0.owned.count } }

  /// Adds a listener, which is notified of the commits that are published from now on.
  ///
  /// - Returns: its number; nil if its owner has too many views.
  func add(
    _ listening: Listening, group: (any ListenerGroup)?, owner: ListenerOwner?,
    _ listener: @escaping Listener
  ) -> Int? {
    state.withLock { state in
      guard state.addView(listening, of: owner) else { return nil }
      state.lastID += 1
      let id = state.lastID
      let groupID = group.map { ObjectIdentifier($0) }
      state.entries[id] = Entry(listening: listening, group: groupID, owner: owner)
      if let group, let groupID { state.groups[groupID, default: (group, 0)].count += 1 }
      let view = state.views.modify(at: listening.path) { views in
        let view = views?[listening] ?? View(listening, number: id)
        views = views ?? [:]
        views?[listening] = view
        return view
      }
      view.add(id, groupID, listener)
      if group == nil {
        state.single.modify(at: listening.path) { views in
          views = views ?? [:]
          views?[listening] = view
        }
      }
      return id
    }
  }

  /// Moves a listener of a group to another group.
  ///
  /// - Parameter listener: the closure of that group for the view.
  func move(_ id: Int, to group: any ListenerGroup, _ listener: @escaping Listener) {
    state.withLock { state in
      guard let entry = state.entries[id], let old = entry.group,
        let view = state.views[entry.listening.path]?[entry.listening]
      else { return }
      let new = ObjectIdentifier(group)
      state.leaveGroup(old)
      state.groups[new, default: (group, 0)].count += 1
      state.entries[id] = Entry(listening: entry.listening, group: new, owner: entry.owner)
      _ = view.remove(id, old)
      view.add(id, new, listener)
    }
  }

  /// Removes a listener, and its view if it was the last. Returns whether it existed.
  @discardableResult
  func remove(_ id: Int) -> Bool {
    state.withLock { Listeners.remove(id, from: &$0) }
  }

  /// Removes listeners: all without a group, and so many of the others.
  ///
  /// - Returns: the listeners that are left.
  func remove(_ ids: [Int], ofGroupsAtMost countMax: Int) -> [Int] {
    state.withLock { state in
      var count = 0
      return ids.filter { id in
        guard let entry = state.entries[id] else { return false }
        if entry.group != nil {
          if count >= countMax { return true }
          count += 1
        }
        Listeners.remove(id, from: &state)
        return false
      }
    }
  }

  @discardableResult
  private static func remove(_ id: Int, from state: inout State) -> Bool {
    guard let entry = state.entries.removeValue(forKey: id) else { return false }
    state.removeView(entry.listening, of: entry.owner)
    if let group = entry.group { state.leaveGroup(group) }
    let listening = entry.listening
    guard let view = state.views[listening.path]?[listening] else { return true }
    let left = view.remove(id, entry.group)
    if !left.isUsed { remove(listening, from: &state.views) }
    if entry.group == nil, !left.hasSingle { remove(listening, from: &state.single) }
    return true
  }

  private static func remove(_ listening: Listening, from trie: inout PathTrie<[Listening: View]>) {
    trie.modify(at: listening.path) { views in
      views?[listening] = nil
      if views?.isEmpty == true { views = nil }
    }
  }

  /// Returns the views that a commit concerns, each once, in the order of their first listeners.
  func views(concernedBy assignments: [Assignment]) -> ConcernedViews {
    state.withLock { state in
      guard !state.entries.isEmpty else { return ConcernedViews() }
      var views: [ObjectIdentifier: View] = [:]
      var looks = 0
      for assignment in assignments {
        let isComplete = state.views.visit(overlapping: assignment.location.path) { next, level in
          for view in level.values {
            looks += 1
            guard looks <= ConcernedViews.looksMax, views.count <= ConcernedViews.countMax else {
              return false
            }
            // A child that the bounds of a query exclude changes nothing for it.
            if let next, !view.listening.query.mayShow(next) { continue }
            views[ObjectIdentifier(view)] = view
          }
          return true
        }
        if !isComplete { break }
      }
      let isMany = looks > ConcernedViews.looksMax || views.count > ConcernedViews.countMax
      return ConcernedViews(
        found: views.values.sorted { $0.number < $1.number }, isMany: isMany, looks: looks)
    }
  }

  /// Returns the views with listeners without a group that a commit concerns. The server itself has these
  /// listeners, so there are few.
  func singleViews(concernedBy assignments: [Assignment]) -> [View] {
    state.withLock { state in
      guard !state.single.isEmpty else { return [] }
      var views: [ObjectIdentifier: View] = [:]
      state.single.forEach(overlapping: assignments.lazy.map(\.location.path)) { level in
        for view in level.values { views[ObjectIdentifier(view)] = view }
      }
      return views.values.sorted { $0.number < $1.number }
    }
  }

  /// The groups with listeners.
  var groups: [any ListenerGroup] { state.withLock { $0.groups.values.map(\.group) } }
}

extension Listeners.State {
  /// Notes that a listener has left its group.
  fileprivate mutating func leaveGroup(_ group: ObjectIdentifier) {
    groups[group]?.count -= 1
    if groups[group]?.count == 0 { groups[group] = nil }
  }

  /// Counts a listener of an owner. Returns whether the owner may have its view.
  fileprivate mutating func addView(_ listening: Listening, of owner: ListenerOwner?) -> Bool {
    guard let owner else { return true }
    let views = owned[owner.name]
    guard views?[listening] != nil || (views?.count ?? 0) < owner.viewsMax else { return false }
    owned[owner.name, default: [:]][listening, default: 0] += 1
    return true
  }

  fileprivate mutating func removeView(_ listening: Listening, of owner: ListenerOwner?) {
    guard let name = owner?.name, let count = owned[name]?[listening] else { return }
    owned[name]?[listening] = count > 1 ? count - 1 : nil
    if owned[name]?.isEmpty == true { owned[name] = nil }
  }
}

/// The views that a commit concerns, as far as they were searched for.
///
/// A client chooses how many different queries it listens to, so a search for all would let it hold the writer.
/// If there are more views than `countMax`, or more were looked at than `looksMax`, each event loop gets the
/// commit and searches its own views.
struct ConcernedViews {
  /// The most views that the writer notifies of one commit, one by one.
  static let countMax = 64
  /// The most views that the writer looks at for one commit.
  static let looksMax = 1_024

  /// The views that were found.
  var found: [Listeners.View] = []
  /// Whether there may be more.
  var isMany = false
  /// The number of views that were looked at.
  var looks = 0

  /// Whether the commit surely concerns no view.
  var isEmpty: Bool { found.isEmpty && !isMany }
}

/// The listeners of one event loop. Many connections with the same view cost the engine one call.
public protocol ListenerGroup: BatchObserver {
  /// Takes a commit that concerns too many views to notify them one by one. Called on the engine's thread, so it
  /// must be brief. The group searches its own listeners.
  func notify(_ change: CommittedChange)

  /// Whether the group checks authorizations before it delivers the events of a commit: see `Engine.checks`. Then the
  /// verdicts about many listeners may be repeated after a commit is published. Otherwise they are repeated before.
  var checksAuthorizations: Bool { get }
}

extension ListenerGroup {
  /// The default: false.
  public var checksAuthorizations: Bool { false }
}

/// The client network for which listeners are counted.
public struct ListenerOwner: Sendable {
  /// Identifies the owner.
  public var name: String
  /// The most views that it may have at one time.
  public var viewsMax: Int

  /// Creates an owner.
  public init(_ name: String, viewsMax: Int) {
    self.name = name
    self.viewsMax = viewsMax
  }
}
