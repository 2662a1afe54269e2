public import CanopyTree
internal import Synchronization

/// One commit, or several successive ones, from which the events of any view can be computed.
///
/// Listeners in a group receive it when a commit concerns many views: finding and notifying them is then the
/// work of the group's event loop, not of the writer. An event loop that is behind merges the changes that wait
/// for it. Its listeners then receive the difference between the oldest and the newest tree, with the sequence
/// number of the newest commit.
///
/// It keeps two versions of the tree in memory.
public final class CommittedChange: Sendable {
  /// The sequence number of the last commit.
  public let sequence: Int64
  /// The time of the last commit, in milliseconds since 1970.
  let time: Int64
  /// An estimate of the bytes that the commits wrote and replaced. A merged change counts its locations only,
  /// as the values between the two versions are gone.
  public let bytes: Int
  /// An estimate of the memory of these values, or `bytes` if that is more.
  public let heldBytes: Int
  /// The root of the tree before them.
  let before: Node
  /// The root of the tree after the commits.
  let after: Node
  private let written: Written
  /// Whether `before` has only the children that the query of the listener selects.
  private let beforeIsResult: Bool

  private enum Written: Sendable {
    /// The assignments of one commit, in order.
    case assignments([Assignment])
    /// The locations that several commits wrote.
    case locations(Set<Location>)
  }

  /// The most locations that a merged change keeps. With more it stands for a write of the whole tree.
  static let locationsMax = 1_024
  /// An estimate of the memory for one location.
  private static let locationBytes = 128

  /// - Parameters:
  ///   - bytes: an estimate of the bytes that the commit wrote and replaced.
  ///   - memory: an estimate of the memory of these values.
  init(_ change: Change, bytes: Int, memory: Int = 0) {
    sequence = change.commit.sequence
    time = change.commit.time
    self.bytes = bytes
    heldBytes = max(bytes, memory)
    before = change.before
    after = change.after
    written = .assignments(change.commit.assignments)
    beforeIsResult = false
  }

  /// Creates one change from several, which are successive for every view that they concern.
  ///
  /// - Precondition: there is at least one.
  public init(merging changes: [CommittedChange]) {
    precondition(!changes.isEmpty, "there is nothing to merge")
    assert(zip(changes, changes.dropFirst()).allSatisfy { $0.sequence < $1.sequence })
    sequence = changes[changes.count - 1].sequence
    time = changes[changes.count - 1].time
    before = changes[0].before
    after = changes[changes.count - 1].after
    var locations: Set<Location> = []
    for change in changes where locations.count <= CommittedChange.locationsMax {
      locations.formUnion(change.locations.prefix(CommittedChange.locationsMax + 1))
    }
    if locations.count > CommittedChange.locationsMax { locations = [Location(.root)] }
    bytes = locations.count * CommittedChange.locationBytes
    heldBytes = bytes
    written = .locations(locations)
    beforeIsResult = false
  }

  /// Creates the difference between two versions for a listener.
  ///
  /// - Parameters:
  ///   - before: the root of the older version; what the listener does not show may be absent.
  ///   - isResult: whether it has only the children that the query of the listener selects.
  ///   - time: the time of the last commit, in milliseconds since 1970.
  ///   - locations: the locations that the commits wrote and that concern the listener.
  init(
    from before: Node, isResult: Bool, to snapshot: Snapshot, at time: Int64,
    locations: Set<Location>
  ) {
    sequence = snapshot.sequence
    self.time = time
    self.before = before
    after = snapshot.root
    bytes = locations.count * CommittedChange.locationBytes
    heldBytes = bytes
    written = .locations(locations)
    beforeIsResult = isResult
  }

  /// The bytes from which on the versions of the tree are mostly freed on another thread. The loop that is last to deliver
  /// the events may hold the only references to the values that were replaced.
  private static let releasedBytesMax = 16 * 1024

  deinit {
    guard heldBytes > CommittedChange.releasedBytesMax || isMerged else { return }
    RetiredTrees.free((before, after, written))
  }

  /// Whether it stands for several commits, whose values are not measured.
  var isMerged: Bool {
    if case .locations = written { true } else { false }
  }

  /// The number of locations that the commits wrote.
  var locationCount: Int {
    switch written {
    case .assignments(let assignments): assignments.count
    case .locations(let locations): locations.count
    }
  }

  var locations: [Location] {
    switch written {
    case .assignments(let assignments): assignments.map(\.location)
    case .locations(let locations): Array(locations)
    }
  }

  /// The paths with a view above, at or below them for every view that the commits concern; a bounded number.
  public var paths: [Path] {
    let locations = locations
    guard locations.count > CommittedChange.pathsMax, let first = locations.first else {
      return locations.map(\.path)
    }
    // Many paths would lead to the same views again and again: the children of the location above all of them are
    // fewer.
    var count = first.path.count
    for location in locations {
      while !location.path.hasPrefix(first.path.prefix(count)) { count -= 1 }
    }
    let top = first.path.prefix(count)
    var children: Set<Path> = []
    for location in locations {
      guard location.path.count > count, children.count < CommittedChange.locationsMax else {
        return [top]
      }
      children.insert(location.path.prefix(count + 1))
    }
    return children.sorted()
  }

  private static let pathsMax = 16

  /// Returns a child of a location before and after the commits. O(depth).
  public func child(_ key: Key, of path: Path) -> (before: Node, after: Node) {
    (before.at(path).child(key), after.at(path).child(key))
  }

  /// Creates the notification of a view. O(1); its events are computed when they are asked for.
  public func notification(for listening: Listening) -> Notification {
    Notification(listening, self)
  }

  /// Returns the number of children that `events` may look at, besides those that one commit wrote one by one.
  /// O(locations).
  func childrenCompared(for listening: Listening) -> Int {
    switch written {
    case .assignments(let assignments):
      return listening.childrenCompared(from: before, to: after, by: assignments)
    case .locations where beforeIsResult:
      return listening.childrenCompared(fromResult: before, to: after)
    case .locations(let locations):
      // Many commits may have written more locations than one commit can.
      return locations.count
        + listening.childrenCompared(
          from: before, to: after, by: locations.map { Assignment($0, .absent) })
    }
  }

  /// Returns the events of a view: see `Listening.events`.
  func events(for listening: Listening) -> [ListenEvent] {
    switch written {
    case .assignments(let assignments):
      return listening.events(from: before, to: after, by: assignments)
    case .locations(let locations):
      guard listening.form == .sync, listening.query.isUnbounded else {
        return listening.events(
          from: before, to: after, by: [], beforeIsResult: beforeIsResult)
      }
      guard before.at(listening.path) != after.at(listening.path) else { return [] }
      return listening.changes(
        to: after, by: locations.union(lostPriorities(below: listening.path)))
    }
  }

  /// Returns the priorities at and below a path that differ between the two versions, at and above the locations
  /// that the commits wrote. A node that is removed with its last child loses its priority, although no commit
  /// writes that, and a later commit may create the node again.
  private func lostPriorities(below path: Path) -> [Location] {
    var priorities: [Location] = []
    for location in locations where location.path.hasPrefix(path) {
      for count in path.count...location.path.count {
        let place = location.path.prefix(count)
        if before.at(place).priority != after.at(place).priority {
          priorities.append(Location(place, isPriority: true))
        }
      }
    }
    return priorities
  }
}
