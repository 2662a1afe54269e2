/// Identifies an on-disconnect write in its store.
public typealias DisconnectWriteID = Int64

/// A write to make when a connection ends, as the store keeps it.
public struct DisconnectWrite: Sendable, Equatable {
  /// The id. A write that was added later has a greater id.
  public var id: DisconnectWriteID
  /// The id of the first write of its group. The writes of a connection are a group; they are made in one commit.
  public var group: DisconnectWriteID
  /// The caller who requested it, as text that only the session layer understands.
  public var identity: String
  /// The text of the request.
  public var request: String
  /// The paths at and below which it no longer applies.
  public var exceptions: [String]

  /// Creates a write.
  ///
  /// - Parameter group: nil for the first write of a group.
  public init(
    id: DisconnectWriteID, group: DisconnectWriteID? = nil, identity: String, request: String,
    exceptions: [String] = []
  ) {
    self.id = id
    self.group = group ?? id
    self.identity = identity
    self.request = request
    self.exceptions = exceptions
  }
}

/// A store of on-disconnect writes, from which they are made at the next start if the server ends first.
///
/// The store removes a write in the step that journals its commit (`Commit.completedDisconnectWrites`). So each is made
/// once, whenever the process dies.
public protocol DisconnectStore: Sendable {
  /// Returns the next writes after a group: whole groups in their order, and the writes of each in the order of their
  /// ids. At least one group if there is any.
  ///
  /// - Parameters:
  ///   - group: the last group of the page before.
  ///   - countMax: the number of writes after which the page ends with the group.
  ///   - bytesMax: the bytes of requests and exceptions after which the page ends with the group.
  func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite]

  /// Returns the ids of all writes.
  func disconnectWriteIDs() async throws -> Set<DisconnectWriteID>

  /// Adds a write, and changes or removes others, in one step, which is durable when this returns.
  ///
  /// Calls that wait for the disk at the same time should share one synchronization.
  ///
  /// - Parameters:
  ///   - request: the identity and the text of the new write; nil to add no write.
  ///   - group: the group of the new write; nil for a new group.
  ///   - exceptions: the writes that apply to fewer locations from now on, with their new exceptions.
  ///   - removed: the writes to remove.
  /// - Returns: the id of the new write.
  func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID?

  /// Replaces the identities of writes in one step, which is durable when this returns. Ignores writes that do not
  /// exist any more: they have been made or removed.
  ///
  /// - Parameter identities: the new identity of each write.
  func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws
}

/// A store of on-disconnect writes of several nodes. The methods of `DisconnectStore` concern the writes of this node.
///
/// Each node has a lease, which it renews. When the lease has run out, the node counts as gone, and exactly one other
/// node takes over its writes. The journal refuses a commit that completes a write which its node no longer has: see
/// `JournalError.disconnectWritesTaken`. So a write is made once, even if its node was only slow.
public protocol SharedDisconnectStore: DisconnectStore {
  /// Renews the lease of this node, or begins it.
  ///
  /// - Returns: false if the lease had run out since this process began it. Other nodes may have taken over writes then.
  func renewLease() async throws -> Bool

  /// Takes over writes of nodes whose lease has run out: whole groups, each by exactly one caller.
  ///
  /// - Parameters:
  ///   - countMax: the number of writes after which the page ends with the group.
  ///   - bytesMax: the bytes of requests and exceptions after which the page ends with the group.
  /// - Returns: the writes that this node has taken over, in the order of their groups and ids.
  func takeOverDisconnectWrites(countMax: Int, bytesMax: Int) async throws -> [DisconnectWrite]
}

extension DisconnectStore {
  /// Adds a write of a new group, and changes or removes others, as the other method does.
  @discardableResult
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    try await changeDisconnectWrites(
      adding: request, to: nil, exceptions: exceptions, removing: removed)
  }

  /// Returns all writes in the order of their groups and ids. There may be gigabytes of them.
  public func disconnectWrites() async throws -> [DisconnectWrite] {
    try await disconnectWrites(after: .min, countMax: .max, bytesMax: .max)
  }
}

extension DisconnectWrite {
  /// The bytes of the request and of the exceptions.
  public var bytes: Int {
    request.utf8.count + exceptions.reduce(0) { $0 + $1.utf8.count }
  }
}
