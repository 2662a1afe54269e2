public import CanopyTree
internal import Synchronization

/// The target of a listener: a location, the selection of its children, and the form of the events.
///
/// Listeners with the same target share one view: the events are computed once for all of them.
public struct Listening: Hashable, Sendable {
  /// The location.
  public var path: Path
  /// The selection of its children.
  public var query: Query
  /// The form.
  public var form: EventForm

  /// Creates a target.
  public init(_ path: Path, _ query: Query = .all, form: EventForm = .child) {
    self.path = path
    self.query = query
    self.form = form
  }
}

/// An event of a listener.
public enum ListenEvent: Sendable, Equatable {
  /// A child in the query's result has changed. (`EventForm.child`)
  case child(ChildChange)
  /// The query's result has changed, and the location is now this node. Unless the query selects all, the
  /// value is `Query.value(of:)` the node, which costs as much as the value is large. (`EventForm.value`)
  case value(Node)
  /// The present values of the locations that changed. Everything else below the listener's location is unchanged. That
  /// location is the root of the assignments. (`EventForm.sync`)
  case put([Assignment])
}

/// The starting point of a listener: the last commit of which it is not notified, and the tree after it.
public struct ListenStart: Sendable {
  /// The reasons for which a listener does not begin.
  public enum Refusal: Sendable, Equatable {
    /// Its authorization denies it.
    case denied
    /// Its owner has too many views.
    case tooManyViews
  }

  /// The location.
  public var node: Node { root.at(listening.path) }
  /// The sequence number of the commit.
  public let sequence: Int64
  /// The reason for which the listener does not begin; nil if it begins. With one, the root is absent.
  public let refusal: Refusal?
  /// Whether the listener was allowed only because of the data in the tree, or at this time: then it may not have
  /// been allowed to see earlier data.
  public let isConditional: Bool
  /// The location and query.
  public let listening: Listening
  let root: Node

  /// Creates the starting point of a listener that has begun and continues from a later snapshot.
  public init(_ listening: Listening, _ snapshot: Snapshot) {
    self.init(listening, snapshot, nil)
  }

  init(_ listening: Listening, _ snapshot: Snapshot, _ verdict: ReadVerdict?) {
    self.listening = listening
    root = snapshot.root
    sequence = snapshot.sequence
    refusal = nil
    isConditional = verdict.map { !$0.paths.isEmpty || $0.dependsOnTime } ?? false
  }

  init(_ refusal: Refusal, at sequence: Int64, _ listening: Listening) {
    self.listening = listening
    root = .absent
    self.sequence = sequence
    self.refusal = refusal
    isConditional = false
  }
}

extension Listening {
  /// Returns the changes of the view between two versions of the tree.
  ///
  /// - Complexity: O(changes), however large the value is, if the location keeps the index of the query's order. With
  ///   `beforeIsResult`, O(both results).
  ///
  /// - Parameters:
  ///   - old: the root before the commit.
  ///   - new: the root after it.
  ///   - assignments: the writes of the commit; only events of the form `sync` for a whole location need them.
  ///   - beforeIsResult: whether the old root has only the children that the query selects.
  func events(
    from old: Node, to new: Node, by assignments: [Assignment], beforeIsResult: Bool = false
  ) -> [ListenEvent] {
    let before = old.at(path)
    let after = new.at(path)
    // A result shares no page with the branch, so a comparison with the branch would visit all children.
    let compared = beforeIsResult ? query.value(of: after) : after
    switch form {
    case .child:
      return query.changes(from: before, to: compared).map(ListenEvent.child)
    case .value:
      let isSame =
        query.isUnbounded ? before == after : query.changes(from: before, to: compared).isEmpty
      return isSame ? [] : [.value(after)]
    case .sync:
      let puts =
        query.isUnbounded ? puts(before, after, assignments) : puts(before, compared)
      return puts.isEmpty ? [] : [.put(puts)]
    }
  }

  /// Returns the number of children that `events` may look at, besides those that were written one by one.
  /// O(assignments).
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
      count += passedChildren(in: before) + passedChildren(in: after)
    }
    return count
  }

  /// Returns the number of children that `events` may look at with `beforeIsResult`: those of both results, or all
  /// children if they are sorted first. O(log n)
  func childrenCompared(fromResult old: Node, to new: Node) -> Int {
    let after = new.at(path)
    let count = query.isIndexed(in: after) ? query.count(in: after) : after.childCount
    return old.at(path).childCount + count + passedChildren(in: after)
  }

  /// The children that a query may pass for each one that it selects, with the cost of a search: see
  /// `Query.passesChildren`.
  private static let passedForEachMax = 64

  /// Returns the number of children that the query may pass without selecting them. O(log n)
  private func passedChildren(in node: Node) -> Int {
    guard query.passesChildren(in: node) else { return 0 }
    return min(node.childCount, Listening.passedForEachMax * query.count(in: node))
  }

  /// Returns the writes at and below the location, relative to it.
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

  /// Returns the children that entered, changed or left the query's result.
  private func puts(_ before: Node, _ after: Node) -> [Assignment] {
    query.changes(from: before, to: after).filter { $0.kind != .moved }.map { change in
      Assignment(Path.root.child(change.key), change.kind == .removed ? .absent : change.node)
    }
  }
}
