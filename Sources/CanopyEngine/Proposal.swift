public import CanopyTree

/// What a transaction sees and may use while it decides what to write.
///
/// Lives only as long as the transaction's closure runs.
public struct Proposal {
  /// The root of the latest tree: all commits that were accepted before, durable or not. What is
  /// decided here becomes durable after them or not at all.
  public internal(set) var root: Node

  /// Milliseconds since 1970 by the server's clock.
  public let now: Int64

  var pushIDs: PushIDGenerator
  let random: @Sendable () -> UInt64

  /// A new key that sorts after all that this engine made before.
  public mutating func nextKey() -> Key {
    pushIDs.next(at: now, random: random)
  }
}

/// A write just before it is made, for whoever judges whether it may be.
public struct ProposedWrite: Sendable {
  /// What it sets, server values resolved.
  public let assignments: [Assignment]
  /// The root of the latest tree, with all commits that were accepted before.
  public let before: Node
  /// The root as it would be after the whole write.
  public let after: Node
  /// When it would be made: milliseconds since 1970, the time that server values were resolved with.
  public let time: Int64
}

/// What a transaction decided: what to write, and what to tell its caller once that is durable.
public struct Decision<Result: Sendable>: Sendable {
  /// What to write; nil for nothing.
  public var write: Write?
  /// What to tell.
  public var result: Result
  /// The on-disconnect write that this carries out. See `Commit.settles`.
  public var settles: DisconnectWriteID?
  /// Whether the write may be made; nil where it may without being asked. Called on the engine's task,
  /// with nothing in between it and the write: it must be brief.
  public var judge: (@Sendable (ProposedWrite) -> Bool)?
  /// Derives the places that follow from the write, once it is allowed; nil if nothing follows from any
  /// write. Returns all assignments of the commit, the write's own among them, in the order of their
  /// locations and without overlaps; or nil if nothing follows from this write. An error refuses the
  /// write. Called on the engine's task, like `judge`.
  public var derive: (@Sendable (ProposedWrite) throws -> [Assignment]?)?

  /// Creates a decision.
  public init(
    _ write: Write?, _ result: Result, settles: DisconnectWriteID? = nil,
    judge: (@Sendable (ProposedWrite) -> Bool)? = nil,
    derive: (@Sendable (ProposedWrite) throws -> [Assignment]?)? = nil
  ) {
    self.derive = derive
    self.write = write
    self.result = result
    self.settles = settles
    self.judge = judge
  }
}

/// A result, and the sequence number of the commit that it came with.
public struct Committed<Result: Sendable>: Sendable {
  /// What the transaction decided to tell.
  public var result: Result
  /// The sequence number of its commit; for a transaction that wrote nothing, that of the commit
  /// that it saw last.
  public var sequence: Int64
}
