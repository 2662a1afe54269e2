/// Identifies an on-disconnect write in its store.
public typealias DisconnectWriteID = Int64

/// A write to make when a connection ends, as the store keeps it.
public struct DisconnectWrite: Sendable, Equatable {
  /// The id. A write that was added later has a greater id.
  public var id: DisconnectWriteID
  /// The caller who requested it, as text that only the session layer understands.
  public var identity: String
  /// The text of the request.
  public var request: String
  /// The paths at and below which it no longer applies.
  public var exceptions: [String]

  /// Creates a write.
  public init(
    id: DisconnectWriteID, identity: String, request: String, exceptions: [String] = []
  ) {
    self.id = id
    self.identity = identity
    self.request = request
    self.exceptions = exceptions
  }
}

/// A store of on-disconnect writes, from which they are made at the next start if the server ends first.
///
/// The store removes a write in the step that journals its commit (`Commit.completedDisconnectWrite`). So each is made
/// once, whenever the process dies.
public protocol DisconnectStore: Sendable {
  /// Returns the next writes after an id, in the order of their ids; at least one if there is any.
  ///
  /// - Parameters:
  ///   - id: the id of the last write of the page before.
  ///   - countMax: the most writes to return.
  ///   - bytesMax: the bytes of requests and exceptions after which the page ends.
  func disconnectWrites(
    after id: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite]

  /// Returns the ids of all writes.
  func disconnectWriteIDs() async throws -> Set<DisconnectWriteID>

  /// Adds a write, and changes or removes others, in one step, which is durable when this returns.
  ///
  /// Calls that wait for the disk at the same time should share one synchronisation.
  ///
  /// - Parameters:
  ///   - request: the identity and the text of the new write; nil to add no write.
  ///   - exceptions: the writes that apply to fewer locations from now on, with their new exceptions.
  ///   - removed: the writes to remove.
  /// - Returns: the id of the new write.
  func changeDisconnectWrites(
    adding request: (identity: String, request: String)?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID?
}

extension DisconnectStore {
  /// Returns all writes in the order of their ids. There may be gigabytes of them.
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
