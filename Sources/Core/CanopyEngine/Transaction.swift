public import CanopyTree

/// A change of the tree that the engine carries out: it reads the latest tree, decides, and writes. No other write comes
/// in between.
///
///     struct Increment: Transaction {
///       func decide(_ proposal: inout Proposal) throws -> Decision<Void> {
///         Decision(try .set(Location("/n"), .node(next(after: proposal.root))), ())
///       }
///       func complete(_ outcome: Result<Committed<Void>, any Error>) { … }
///     }
///
/// The engine calls both methods on its thread: `decide` when it is the transaction's turn, and `complete` once, when
/// the outcome is known. All other writers wait meanwhile, so both must be brief. If the transaction is not accepted,
/// only `complete` is called, on the submitting thread.
///
/// If another engine has appended to the same journal first, the engine calls `decide` again, on a newer tree. Then
/// ``Proposal/isRepeat`` is true, and nothing of the earlier call is kept.
public protocol Transaction: Sendable {
  /// The outcome of a success.
  associatedtype Result: Sendable

  /// Identifies a write that its client may send again; nil for others. The engine answers a write that was
  /// made before with `RepeatedWrite`, and does not decide it.
  var origin: WriteOrigin? { get }

  /// The kind of the transaction, by which the log names one that takes too long.
  var name: StaticString { get }

  /// Returns the write to make, and the result to complete with when it is durable.
  ///
  /// - Throws: any error to refuse the transaction; nothing is written then.
  func decide(_ proposal: inout Proposal) throws -> Decision<Result>

  /// Takes the error of a transaction that is refused while its batch is decided, or `RepeatedWrite`: before any later
  /// request is decided, and before `complete`. Called on the engine's thread, and again if the batch is decided again.
  func refused(_ error: any Error)

  /// Takes the outcome, when the write and all commits before it are durable.
  ///
  /// - Parameter outcome: the result, or the error that `decide` threw, `RepeatedWrite`, or `EngineError`.
  func complete(_ outcome: Swift.Result<Committed<Result>, any Error>)
}

extension Transaction {
  /// Nil: the write is sent once.
  public var origin: WriteOrigin? { nil }

  /// The default name.
  public var name: StaticString { "transaction" }

  /// Does nothing, because `complete` is early enough.
  public func refused(_ error: any Error) {}
}

/// The latest tree, on which a transaction decides.
///
/// It cannot be copied, and the commit consumes it. So no reference to the tree is left then, and the commit changes
/// the pages of the tree in place.
public struct Proposal: ~Copyable {
  /// The root of the latest tree: all commits that were accepted before, durable or not. A decision
  /// becomes durable after them or not at all.
  public let root: Node

  /// The time of the server in milliseconds since 1970.
  public let now: Int64

  /// Whether the transaction was decided before, on a tree that lacked commits of another engine. A decision that
  /// charges its user, for example a share of a rate limit, must do so the first time only.
  public let isRepeat: Bool

  /// Identifies a write that its client may send again, if it was not made before.
  let origin: WriteOrigin?

  private let writer: WriterState

  init(root: Node, origin: WriteOrigin?, isRepeat: Bool, writer: WriterState) {
    self.root = root
    self.origin = origin
    self.isRepeat = isRepeat
    self.writer = writer
    now = writer.now()
  }

  /// Returns a new key that sorts after all that this engine made before.
  public mutating func nextKey() -> Key {
    // A name of its own: for the thread sanitizer, Swift 6.3.1 cannot compile a change through a property of `self`.
    let writer = writer
    return writer.pushIDs.next(at: now, random: writer.random)
  }
}

/// The decision of a transaction: the write, and the result that its caller gets when the write is durable.
public struct Decision<Result: Sendable>: Sendable {
  /// The write; nil to write nothing.
  public var write: Write?
  /// The result.
  public var result: Result
  /// The on-disconnect write that the write completes. See `Commit.completedDisconnectWrites`.
  public var completedDisconnectWrite: DisconnectWriteID?
  /// Authorizes the write and derives what follows from it; nil if every write is allowed and nothing follows.
  public var policy: (any WritePolicy)?
  /// Whether the write must not make the tree larger than its bound: see `TreeMemory`.
  public var isBounded = false

  /// Creates a decision.
  public init(
    _ write: Write?, _ result: Result, completedDisconnectWrite: DisconnectWriteID? = nil,
    policy: (any WritePolicy)? = nil, isBounded: Bool = false
  ) {
    self.write = write
    self.result = result
    self.completedDisconnectWrite = completedDisconnectWrite
    self.policy = policy
    self.isBounded = isBounded
  }

  /// Returns the same decision with another result.
  public func map<Other: Sendable>(_ transform: (Result) -> Other) -> Decision<Other> {
    Decision<Other>(
      write, transform(result), completedDisconnectWrite: completedDisconnectWrite, policy: policy,
      isBounded: isBounded)
  }
}

/// The policy by which the rules check a write: authorizes the write, and derives the values that follow from it.
///
/// The engine's thread calls the methods just before the write is made, in the order in which they are declared here,
/// so they must be brief.
public protocol WritePolicy: Sendable {
  /// Whether the write is denied for a reason that the written data cannot change. Then the engine does not apply it.
  ///
  /// The engine asks only for large writes: applying a small one is as cheap.
  ///
  /// - Parameters:
  ///   - before: the root of the latest tree.
  ///   - time: the time of the write in milliseconds since 1970.
  func denies(_ write: Write, before: Node, at time: Int64) -> Bool

  /// Whether the write may be made.
  func allows(_ write: ProposedWrite) -> Bool

  /// Returns all assignments of the commit of an allowed write, those of the write among them, in the order of their
  /// locations and without overlaps; nil if nothing follows from this write.
  ///
  /// - Throws: an error to refuse the write.
  func derive(_ write: ProposedWrite) throws -> [Assignment]?
}

extension WritePolicy {
  /// False: the data decides.
  public func denies(_ write: Write, before: Node, at time: Int64) -> Bool { false }

  /// Nil: nothing follows from any write.
  public func derive(_ write: ProposedWrite) throws -> [Assignment]? { nil }
}

extension Write {
  /// The number of locations, and the bytes of JSON of one value, up to which a write is small.
  private static let smallMax = (locations: 8, bytes: 1_024)

  /// Whether applying the write costs much more than evaluating rules for it. O(1).
  public var isLarge: Bool {
    assignments.count > Write.smallMax.locations
      || assignments.contains {
        $0.value.isBranch && !$0.value.fits(bytes: Write.smallMax.bytes)
      }
  }
}

/// A write that is about to be made, for its `WritePolicy`.
public struct ProposedWrite: Sendable {
  /// The assignments, with server values resolved.
  public let assignments: [Assignment]
  /// The root of the latest tree, with all commits that were accepted before.
  public let before: Node
  /// The root after the whole write, without derived values.
  public let after: Node
  /// The time of the write in milliseconds since 1970, with which server values were resolved.
  public let time: Int64
  /// See ``Proposal/isRepeat``.
  public internal(set) var isRepeat = false
}

/// A result, and the sequence number of the commit that it came with.
public struct Committed<Result: Sendable>: Sendable {
  /// The result of the decision.
  public var result: Result
  /// The sequence number of the commit. For a transaction that wrote nothing, the sequence number of the last commit
  /// that it saw.
  public var sequence: Int64
  /// The bytes of the priorities that the commit adds to those of the write: the priorities of the branches above the
  /// written locations, each with its location.
  public var priorityBytes = 0
  /// The bytes that the commit adds to the memory of the tree by unpacking branches, besides those of the write itself:
  /// see `Tree.unpackedBytes`.
  public var unpackedBytes = 0
}

/// A transaction made of closures.
struct ClosureTransaction<Result: Sendable>: Transaction {
  let origin: WriteOrigin?
  let name: StaticString
  let body: @Sendable (inout Proposal) throws -> Decision<Result>
  let completion: @Sendable (Swift.Result<Committed<Result>, any Error>) -> Void

  func decide(_ proposal: inout Proposal) throws -> Decision<Result> { try body(&proposal) }

  func complete(_ outcome: Swift.Result<Committed<Result>, any Error>) { completion(outcome) }
}
