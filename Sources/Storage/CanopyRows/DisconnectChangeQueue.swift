package import CanopyEngine

/// A change of the on-disconnect writes. See the methods of `DisconnectStore`.
package struct DisconnectChange: Sendable {
  package var added: (identity: String, request: String)?
  /// The group of the added write; nil for a new group.
  package var group: DisconnectWriteID?
  package var exceptions: [DisconnectWriteID: [String]]
  package var removed: [DisconnectWriteID]
  /// The new identities of writes.
  package var identities: [DisconnectWriteID: String]

  /// Creates a change.
  package init(
    added: (identity: String, request: String)? = nil, group: DisconnectWriteID? = nil,
    exceptions: [DisconnectWriteID: [String]] = [:], removed: [DisconnectWriteID] = [],
    identities: [DisconnectWriteID: String] = [:]
  ) {
    self.added = added
    self.group = group
    self.exceptions = exceptions
    self.removed = removed
    self.identities = identities
  }

  /// The bytes of the texts to write.
  package var bytes: Int {
    let texts = exceptions.values.reduce(added?.request.utf8.count ?? 0) { sum, paths in
      paths.reduce(sum) { $0 + $1.utf8.count }
    }
    return identities.values.reduce(texts) { $0 + $1.utf8.count }
  }
}

/// The changes that wait for a transaction, in the order in which they came.
///
/// One task makes them. It begins with the first change and ends when no change is left.
package struct DisconnectChangeQueue<Waiter: Sendable> {
  /// A change, and its caller.
  package struct Waiting: Sendable {
    package let change: DisconnectChange
    package let waiter: Waiter
  }

  /// The changes, and the bytes of their texts, after which a group ends, so that the journal does not wait long for
  /// its transaction.
  private static var groupMax: (changes: Int, bytes: Int) { (256, 256 * 1024) }

  private var waiting: [Waiting] = []
  /// Whether a task makes the changes.
  package private(set) var isBeingMade = false

  /// Creates an empty queue.
  package init() {}

  /// The number of changes that wait.
  package var count: Int { waiting.count }

  /// Adds a change. Returns whether the caller must begin to make the changes.
  package mutating func add(_ change: DisconnectChange, _ waiter: Waiter) -> Bool {
    waiting.append(Waiting(change: change, waiter: waiter))
    defer { isBeingMade = true }
    return !isBeingMade
  }

  /// Removes and returns the next group; nil when no change waits. Then `add` asks its caller to begin again.
  package mutating func takeGroup() -> [Waiting]? {
    let (changesMax, bytesMax) = DisconnectChangeQueue.groupMax
    var bytes = 0
    var count = 0
    while count < min(waiting.count, changesMax), bytes < bytesMax {
      bytes += waiting[count].change.bytes
      count += 1
    }
    guard count > 0 else {
      isBeingMade = false
      return nil
    }
    defer { waiting.removeFirst(count) }
    return Array(waiting.prefix(count))
  }
}
