internal import CanopyTree

/// The commits of which a listener is not notified while its client reads more slowly than they come.
///
/// It keeps the version that the client knows, and the locations that the commits wrote. The difference between that
/// version and a later one leads to the events of all commits, as if they were one. The client misses intermediate
/// values, but no change.
///
///     var withheld = WithheldChanges(before: change, for: listening)
///     bytes += withheld?.append(change) ?? 0
///     let merged = withheld?.change(to: snapshot)
///
/// It keeps only values that the listener shows: a commit that replaces one of them concerns the listener, so the bytes
/// that `append` returns cover the memory.
public struct WithheldChanges: Sendable {
  private let listening: Listening
  /// The value at the location that the client knows: only the selected children if the query has bounds.
  private let shown: Node
  /// The locations that the commits wrote; nil if there were too many.
  private var written: Set<Location>? = []
  private var time: Int64

  /// The most children of a query's result that are kept.
  static let childrenMax = 4_096

  /// Begins with the version before a commit.
  ///
  /// - Returns: nil if the query has bounds and selects too many children.
  /// - Complexity: O(1), or O(result) if the query has bounds.
  public init?(before change: CommittedChange, for listening: Listening) {
    let node = change.before.at(listening.path)
    let query = listening.query
    guard query.isUnbounded || query.count(in: node) <= WithheldChanges.childrenMax else {
      return nil
    }
    self.listening = listening
    shown = query.value(of: node)
    time = change.time
  }

  /// Adds a commit.
  ///
  /// - Returns: the bytes by which the memory may have grown. A commit that writes only locations that earlier ones wrote
  ///   replaces no value that is kept.
  /// - Complexity: O(locations), of which there is a bounded number.
  public mutating func append(_ change: CommittedChange) -> Int {
    time = change.time
    var isNew = false
    if change.locationCount > CommittedChange.locationsMax { written = nil }
    if written != nil {
      for location in change.locations where listening.isConcerned(by: location) {
        if written?.insert(location).inserted == true { isNew = true }
      }
      if let count = written?.count, count > CommittedChange.locationsMax { written = nil }
    }
    return isNew || written == nil ? WithheldChanges.bytes(of: change) : 0
  }

  /// Returns the bytes of a commit as `append` counts them.
  public static func bytes(of change: CommittedChange) -> Int {
    change.heldBytes + commitBytes
  }

  /// An estimate of the memory for the branches above the values that a commit replaces, and for its locations.
  private static let commitBytes = 1024

  /// Returns one change that stands for the commits.
  ///
  /// - Parameter snapshot: a version after them, and after no other commit that concerns the listener.
  public func change(to snapshot: Snapshot) -> CommittedChange {
    var before = Tree()
    before.apply([Assignment(listening.path, shown)])
    return CommittedChange(
      from: before.root, to: snapshot, at: time, locations: written ?? [Location(.root)])
  }
}
