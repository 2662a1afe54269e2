internal import CanopyTree
internal import Synchronization

/// Who listens where: views by location, found by walking the paths that a commit writes.
///
/// A commit concerns the views at each location that it writes, above it, and below it; but not those above
/// whose bounds exclude the key of the child that was written. Finding them costs the length of the path, a
/// comparison of keys for each view at or above the location, and the views found, however many others there
/// are. A view exists while it has listeners.
final class Listeners: Sendable {
  typealias Listener = @Sendable (Notification) -> Void

  /// One wish, and all who have it.
  final class View: Sendable {
    let listening: Listening
    /// The number of its first listener, by which views are told in order.
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

    /// Whether it was the last.
    fileprivate func remove(_ id: Int, _ group: ObjectIdentifier?) -> Bool {
      audience.withLock { audience in
        if let group {
          audience.groups[group]?.members.remove(id)
          if audience.groups[group]?.members.isEmpty == true { audience.groups[group] = nil }
        } else {
          audience.single[id] = nil
        }
        return audience.single.isEmpty && audience.groups.isEmpty
      }
    }

    func notify(_ notification: Notification) {
      // Called outside the lock: a listener may end another one, or itself.
      let (single, groups) = audience.withLock {
        (Array($0.single.values), Array($0.groups.values))
      }
      for listener in single { listener(notification) }
      for group in groups { group.listener(notification) }
    }
  }

  private struct Level {
    var views: [Listening: View] = [:]
    var children: [Key: Level] = [:]

    var isEmpty: Bool { views.isEmpty && children.isEmpty }

    /// Changes the level at a path and drops those that this leaves empty.
    mutating func modify<R>(at keys: ArraySlice<Key>, _ body: (inout Level) -> R) -> R {
      guard let key = keys.first else { return body(&self) }
      var child = children.removeValue(forKey: key) ?? Level()
      defer { if !child.isEmpty { children[key] = child } }
      return child.modify(at: keys.dropFirst(), body)
    }

    func collect(into views: inout [ObjectIdentifier: View]) {
      for view in self.views.values { views[ObjectIdentifier(view)] = view }
      for child in children.values { child.collect(into: &views) }
    }
  }

  private struct State {
    var root = Level()
    var wishes: [Int: (listening: Listening, group: ObjectIdentifier?)] = [:]
    var lastID = 0
  }

  private let state = Mutex(State())

  /// The number of listeners, and of the views that they share.
  var counts: (listeners: Int, views: Int) {
    state.withLock { state in
      var views: [ObjectIdentifier: View] = [:]
      state.root.collect(into: &views)
      return (state.wishes.count, views.count)
    }
  }

  /// Adds a listener, which is told what commits do that are published from now on.
  func add(
    _ listening: Listening, group: ObjectIdentifier?, _ listener: @escaping Listener
  ) -> Int {
    state.withLock { state in
      state.lastID += 1
      let id = state.lastID
      state.wishes[id] = (listening, group)
      state.root.modify(at: listening.path.keys[...]) { level in
        let view = level.views[listening] ?? View(listening, number: id)
        level.views[listening] = view
        view.add(id, group, listener)
      }
      return id
    }
  }

  /// Removes a listener, and its view if it was the last. Whether there was one.
  @discardableResult
  func remove(_ id: Int) -> Bool {
    state.withLock { state in
      guard let (listening, group) = state.wishes.removeValue(forKey: id) else { return false }
      state.root.modify(at: listening.path.keys[...]) { level in
        guard let view = level.views[listening] else { return }
        if view.remove(id, group) { level.views[listening] = nil }
      }
      return true
    }
  }

  /// The views that a commit concerns, each once, those that came first before the others.
  func views(concernedBy assignments: [Assignment]) -> [View] {
    state.withLock { state in
      guard !state.wishes.isEmpty else { return [] }
      var views: [ObjectIdentifier: View] = [:]
      for assignment in assignments { collect(assignment.location.path, state.root, &views) }
      return views.values.sorted { $0.number < $1.number }
    }
  }

  private func collect(
    _ path: Path, _ root: Level, _ views: inout [ObjectIdentifier: View]
  ) {
    var level = root
    for key in path.keys {
      // A child that a query surely does not show changes nothing for it.
      for view in level.views.values where view.listening.query.mayShow(key) {
        views[ObjectIdentifier(view)] = view
      }
      guard let child = level.children[key] else { return }
      level = child
    }
    level.collect(into: &views)
  }
}
