public import CanopyTree
internal import Synchronization

/// What a listener listens to: a location, which of its children, and the form of the events.
///
/// Listeners with the same wish share one view: what changed is found once for all of them.
public struct Listening: Hashable, Sendable {
  /// The forms in which changes are told.
  public enum Form: Hashable, Sendable, CaseIterable {
    /// Each child that was removed, added, moved or changed.
    case child
    /// The whole value, whenever it has changed.
    case value
    /// What a copy needs to stay equal: which places have which values now.
    case sync
  }

  /// The location.
  public var path: Path
  /// Which of its children.
  public var query: Query
  /// The form.
  public var form: Form

  /// A wish to listen.
  public init(_ path: Path, _ query: Query = .all, form: Form = .child) {
    self.path = path
    self.query = query
    self.form = form
  }
}

/// Something that a listener is told.
public enum ListenEvent: Sendable, Equatable {
  /// A child of what the query shows has changed. (`Form.child`)
  case child(ChildChange)
  /// The value that the query shows has changed, and the location is now this node. Of a query that
  /// narrows it down, the value is `Query.value(of:)` the node, which takes as long as it is large.
  /// (`Form.value`)
  case value(Node)
  /// These places below the location have these values now, and all else is as it was; the location
  /// itself is the root. (`Form.sync`)
  case put([Assignment])
}

/// Where a listener begins: the last commit that it is not told of, and what that left.
public struct ListenStart: Sendable {
  /// The location.
  public var node: Node { root.at(listening.path) }
  /// The sequence number of the commit.
  public let sequence: Int64
  /// Whether the listener may not listen. Then it is not told what is there.
  public let isDenied: Bool
  /// Whether it may only by what the tree holds, or at this time: then it may not have been allowed to
  /// see what was there before.
  public let isConditional: Bool
  /// The location and query.
  public let listening: Listening
  let root: Node

  init(
    _ listening: Listening, _ snapshot: Snapshot,
    _ verdict: ListenVerdict? = nil
  ) {
    self.listening = listening
    root = snapshot.root
    sequence = snapshot.sequence
    isDenied = false
    isConditional = verdict.map { !$0.paths.isEmpty || $0.dependsOnTime } ?? false
  }

  init(deniedAt sequence: Int64, _ listening: Listening) {
    self.listening = listening
    root = .absent
    self.sequence = sequence
    isDenied = true
    isConditional = false
  }
}

extension Listening {
  /// Returns what a commit did to what this shows.
  ///
  /// The cost is that of what changed, where the location keeps the index of the query's order, however
  /// large the value is.
  ///
  /// - Parameters:
  ///   - old: the root before the commit.
  ///   - new: the root after it.
  func events(from old: Node, to new: Node, by assignments: [Assignment]) -> [ListenEvent] {
    let before = old.at(path)
    let after = new.at(path)
    switch form {
    case .child:
      return query.changes(from: before, to: after).map(ListenEvent.child)
    case .value:
      let isSame =
        query.isUnbounded ? before == after : query.changes(from: before, to: after).isEmpty
      return isSame ? [] : [.value(after)]
    case .sync:
      let puts =
        query.isUnbounded ? puts(before, after, assignments) : puts(before, after)
      return puts.isEmpty ? [] : [.put(puts)]
    }
  }

  /// Returns how many children `events` may have to look at, besides those that were written one by
  /// one. O(assignments).
  func childrenCompared(from old: Node, to new: Node, by assignments: [Assignment]) -> Int {
    let before = old.at(path)
    let after = new.at(path)
    var count = 0
    if assignments.contains(where: { path.hasPrefix($0.location.path) }) {
      count += before.childCount + after.childCount
    }
    if !query.isUnbounded || form == .child {
      // Without the index the children are sorted.
      for node in [before, after] where !query.isIndexed(in: node) { count += node.childCount }
    }
    return count
  }

  /// The places written below the location, relative to it.
  func puts(_ before: Node, _ after: Node, _ assignments: [Assignment]) -> [Assignment] {
    guard before != after else { return [] }
    var puts: [Assignment] = []
    for assignment in assignments {
      let location = assignment.location
      if let below = location.path.relative(to: path), !below.isRoot || location.isPriority {
        puts.append(
          Assignment(Location(below, isPriority: location.isPriority), assignment.value))
      } else if path.hasPrefix(location.path), !location.isPriority {
        return [Assignment(.root, after)]
      }
    }
    return puts
  }

  /// The children that came, changed or went from what a narrowed query shows.
  private func puts(_ before: Node, _ after: Node) -> [Assignment] {
    query.changes(from: before, to: after).filter { $0.kind != .moved }.map { change in
      Assignment(Path.root.child(change.key), change.kind == .removed ? .absent : change.node)
    }
  }
}
