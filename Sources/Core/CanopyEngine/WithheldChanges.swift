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
/// that `append` returns cover the memory, with the pages and packed branches around these values. Values that the commits
/// write are in the tree, and take no memory here.
public struct WithheldChanges: Sendable {
  private let listening: Listening
  /// The value at the location that the client knows: only the selected children if the query has bounds.
  private let shown: Node
  /// The locations that the commits wrote; nil if there were too many.
  private var written: Set<Location>? = []
  /// The memory of the shown value that the tree does not share any more.
  private var replaced = ReplacedMemory()
  private var time: Int64
  /// The last commit.
  private var sequence: Int64
  /// The memory of the list of selected children, until it is counted.
  private var listBytes: Int

  /// The most children of a query's result that are kept.
  static let childrenMax = 4_096
  /// The most locations that are kept.
  static let locationsMax = 8_192

  /// Begins with the version before a commit.
  ///
  /// - Returns: nil if the query has bounds and selects too many children.
  /// - Complexity: O(1), or O(result) if the query has bounds; see also `childrenSorted`.
  public init?(before change: CommittedChange, for listening: Listening) {
    let (query, node) = (listening.query, change.before.at(listening.path))
    guard query.isUnbounded || query.count(in: node) <= WithheldChanges.childrenMax else {
      return nil
    }
    self.listening = listening
    shown = query.value(of: node)
    time = change.time
    sequence = change.sequence
    listBytes = query.isUnbounded ? 0 : shown.childCount * WithheldChanges.childBytes
  }

  /// Returns the number of children that the initializer sorts, because the location does not keep the index of the
  /// query. O(1)
  public static func childrenSorted(
    before change: CommittedChange, for listening: Listening
  ) -> Int {
    let (query, node) = (listening.query, change.before.at(listening.path))
    return query.isUnbounded || query.isIndexed(in: node) ? 0 : node.childCount
  }

  /// Adds a commit.
  ///
  /// - Returns: the bytes by which the memory may have grown: those of the values that the listener shows and that no
  ///   earlier commit replaced, and of what a write copies around them.
  /// - Complexity: O(locations), of which there is a bounded number, and O(children) of the replaced values up to the
  ///   bytes that may be held.
  public mutating func append(_ change: CommittedChange) -> Int {
    time = change.time
    sequence = change.sequence
    var bytes = listBytes
    listBytes = 0
    guard written != nil else { return bytes }
    if change.locationCount <= CommittedChange.locationsMax {
      for location in change.locations where listening.isConcerned(by: location) {
        guard written?.insert(location).inserted == true else { continue }
        bytes += WithheldChanges.bytes(of: location) + bytesShown(at: location)
      }
      guard let count = written?.count, count > WithheldChanges.locationsMax else { return bytes }
    }
    // Everything that is shown may be replaced from now on.
    written = nil
    replaced = ReplacedMemory()
    return bytes + shown.heldBytes(atMost: WithheldChanges.heldBytesMax)
  }

  /// Returns the memory that only the shown value has after a write at a location.
  private mutating func bytesShown(at location: Location) -> Int {
    replaced.count(
      location.path.relative(to: listening.path) ?? .root, isPriority: location.isPriority,
      in: shown,
      isList: !listening.query.isUnbounded, atMost: WithheldChanges.heldBytesMax)
  }

  /// The bytes up to which a replaced value is measured. A larger one counts with these.
  private static let heldBytesMax = 64 * 1024 * 1024

  /// An estimate of the memory for a location.
  private static func bytes(of location: Location) -> Int {
    location.path.keys.reduce(128) { $0 + $1.utf8Count + 64 }
  }

  /// The memory of a child in the list of selected children.
  private static let childBytes = 64

  /// Returns the bytes of a commit that a client does not read.
  public static func bytes(of change: CommittedChange) -> Int {
    change.heldBytes + 1024
  }

  /// Whether a version of the tree has all the commits.
  public func isContained(in snapshot: Snapshot) -> Bool { snapshot.sequence >= sequence }

  /// Returns one change that stands for the commits.
  ///
  /// Its events cost O(both results) if the query has bounds and the location keeps its index. Without bounds they cost
  /// O(log n) for each child that differs.
  ///
  /// - Parameter snapshot: a version after them, and after no other commit that concerns the listener.
  public func change(to snapshot: Snapshot) -> CommittedChange {
    assert(isContained(in: snapshot), "a withheld commit would be lost")
    var before = Tree()
    before.apply([Assignment(listening.path, shown)])
    return CommittedChange(
      from: before.root, isResult: !listening.query.isUnbounded, to: snapshot, at: time,
      locations: written ?? [Location(.root)])
  }
}
