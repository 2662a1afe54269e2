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
  /// What the query shows is now this. (`Form.value`)
  case value(Node)
  /// These places below the location have these values now, and all else is as it was; the location
  /// itself is the root. (`Form.sync`)
  case put([Assignment])
}

/// What one commit did to one view: made once and handed to all its listeners.
public final class Notification: Sendable {
  /// The sequence number of the commit.
  public let sequence: Int64
  /// What happened, in the order in which it is told.
  public let events: [ListenEvent]
  private let derived = Mutex<[ObjectIdentifier: any Sendable]>([:])

  init(sequence: Int64, events: [ListenEvent]) {
    self.sequence = sequence
    self.events = events
  }

  /// What `make` makes of this, made once, by whoever asks first, and shared by all: the text that
  /// every subscriber is sent.
  ///
  /// - Parameter make: the same for all that ask for the type. Others wait for it.
  public func shared<Value: Sendable>(_ make: () -> Value) -> Value {
    derived.withLock { derived in
      if let value = derived[ObjectIdentifier(Value.self)] as? Value { return value }
      let value = make()
      derived[ObjectIdentifier(Value.self)] = value
      return value
    }
  }
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
    _ listening: Listening, _ snapshot: (root: Node, sequence: Int64),
    _ verdict: ListenVerdict? = nil
  ) {
    self.listening = listening
    root = snapshot.root
    sequence = snapshot.sequence
    isDenied = false
    isConditional = verdict.map { !$0.places.isEmpty || $0.dependsOnTime } ?? false
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
  /// What a commit did to what this shows.
  ///
  /// The cost is that of what changed, where the location keeps the index of the query's order; for
  /// values, also that of collecting what a narrowed query shows.
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
      if query.isUnbounded { return before == after ? [] : [.value(after)] }
      if query.changes(from: before, to: after).isEmpty { return [] }
      return [.value(query.value(of: after))]
    case .sync:
      let puts =
        query.isUnbounded ? puts(before, after, assignments) : puts(before, after)
      return puts.isEmpty ? [] : [.put(puts)]
    }
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
