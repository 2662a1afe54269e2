/// What tells an on-disconnect write from all others of its store.
public typealias DisconnectWriteID = Int64

/// A write to be made when a connection ends, as it is kept.
public struct DisconnectWrite: Sendable, Equatable {
  /// Its id; of two, the one that was asked for later has the greater.
  public var id: DisconnectWriteID
  /// Who asked for it, in the form of whoever keeps it.
  public var identity: String
  /// What was asked for: the text of the request.
  public var request: String
  /// Paths at and below which it no longer applies.
  public var exceptions: [String]

  /// A write.
  public init(
    id: DisconnectWriteID, identity: String, request: String, exceptions: [String] = []
  ) {
    self.id = id
    self.identity = identity
    self.request = request
    self.exceptions = exceptions
  }
}

/// Where on-disconnect writes are kept, so that they are made also when it is the server that ends.
///
/// One that has been carried out is forgotten in the step that journals its commit
/// (`Commit.completedDisconnectWrite`): so each is carried out once, whenever the process dies.
public protocol DisconnectStore: Sendable {
  /// Returns the next writes after one, in the order of their ids; at least one if there is any.
  ///
  /// - Parameters:
  ///   - id: the id of the last write of the page before.
  ///   - countMax: the most writes to return.
  ///   - bytesMax: the bytes of requests and exceptions after which the page ends.
  func disconnectWrites(
    after id: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite]

  /// Returns the ids of all writes that are kept.
  func disconnectWriteIDs() async throws -> Set<DisconnectWriteID>

  /// Keeps a write, and changes or forgets others, in one step, which lasts when this returns.
  ///
  /// - Parameters:
  ///   - request: the text of the new one; nil for none.
  ///   - exceptions: those that apply less from now on, with all their exceptions.
  ///   - removed: those that do not apply at all from now on.
  /// - Returns: the id of the new one.
  func changeDisconnectWrites(
    adding request: (identity: String, request: String)?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID?
}

extension DisconnectStore {
  /// Returns all writes that are kept, in the order of their ids. There may be gigabytes of them.
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
