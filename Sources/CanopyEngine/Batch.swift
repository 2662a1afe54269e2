internal import CanopyTree

/// What the engine's task carries out before it writes to the journal: a tree of its own, and the
/// commits that lead there.
struct Batch {
  /// The latest tree: all commits that were accepted before, durable or not.
  var tree: Tree
  /// The sequence number of its last commit.
  private(set) var sequence: Int64
  /// The commits of this batch, in order.
  private(set) var commits: [Commit] = []
  /// Bytes of the commits that were measured, or a little more.
  private(set) var bytes = 0
  private var measured = 0
  /// The sequence number of the last commit before the batch.
  let first: Int64
  /// The indexes that could still be added before the batch.
  let indexesLeft: Int
  /// The places of writes that were refused because their commits would not read back, for the log.
  private(set) var unstorable: [Location] = []
  /// The first place of the last write that was decided, for the log.
  private(set) var lastLocation: Location?
  private let writer: Writer
  /// The reason for which every transaction is refused, in a batch that carries out none.
  private let refusal: EngineError?

  init(tree: Tree, sequence: Int64, writer: Writer, refusal: EngineError? = nil) {
    self.tree = tree
    self.sequence = sequence
    first = sequence
    indexesLeft = writer.indexesLeft
    self.writer = writer
    self.refusal = refusal
  }

  /// Carries out a transaction.
  ///
  /// - Parameter origin: which write of which client it is.
  /// - Throws: what `decide` throws, `RepeatedWrite`, and `EngineError`; then nothing has changed.
  @discardableResult
  mutating func propose<Result: Sendable>(
    _ decide: (inout Proposal) throws -> Decision<Result>, once origin: WriteOrigin? = nil
  ) throws -> Result {
    if let refusal { throw refusal }
    let origin = try origin.map { try writer.clientWrites.admit($0) }
    var proposal = Proposal(
      root: tree.root, now: writer.now(), pushIDs: writer.pushIDs, random: writer.random)
    defer { writer.pushIDs = proposal.pushIDs }
    let decision = try decide(&proposal)
    guard let write = decision.write, let first = write.items.first else { return decision.result }
    lastLocation = first.location
    let time = proposal.now
    let assignments = write.resolved(in: tree.root, at: time)
    // The proposal's reference would have every page on the way to a change copied.
    proposal.root = .absent
    let beforeImage: [Assignment]
    let journaled: [Assignment]
    // Held only where the judge needs it: a second reference has the pages on the way copied.
    var judged: Tree?
    if let judge = decision.judge {
      let before = tree
      journaled = tree.apply(assignments)
      let write = ProposedWrite(
        assignments: assignments, before: before.root, after: tree.root, time: time)
      guard judge(write) else {
        tree = before
        throw EngineError.denied
      }
      beforeImage = before.beforeImage(of: assignments)
      judged = before
    } else {
      beforeImage = tree.beforeImage(of: assignments)
      journaled = tree.apply(assignments)
    }
    let text: CommitText?
    do throws(EngineError) {
      text = try writer.text(of: journaled, beforeImage: beforeImage)
    } catch {
      if let judged { tree = judged } else { tree.apply(beforeImage) }
      unstorable += journaled.map(\.location)
      throw error
    }
    sequence += 1
    let commit = Commit(
      sequence: sequence, time: time, assignments: journaled, beforeImage: beforeImage,
      settles: decision.settles,
      keyTime: proposal.pushIDs.time > time ? proposal.pushIDs.time : nil,
      origin: origin, text: text)
    commits.append(commit)
    if let write = commit.clientWrite { writer.clientWrites.note(write) }
    return decision.result
  }

  /// Adds the size of the commits that were not measured yet. O(their size, up to the bound of a batch).
  ///
  /// Not done for a write that is alone, so that it costs nothing there.
  mutating func measure() {
    for commit in commits[measured...] {
      bytes += commit.estimatedBytes(upTo: Engine.batchBytesMax)
    }
    measured = commits.count
  }

  /// Keeps an index from now on, unless the tree has it or there may be no more.
  mutating func keepIndex(_ order: Order, at path: Path) {
    guard refusal == nil, writer.indexesLeft > 0, !Query.isIndexed(by: order, tree.root.at(path))
    else { return }
    tree.keepIndex(order, at: path.keys)
    writer.indexesLeft -= 1
  }
}

extension Commit {
  /// Returns the bytes of JSON of the assignments and of the before-image, as far as it is journaled.
  func estimatedBytes(upTo bytesMax: Int) -> Int {
    bytesMax - Commit.left(of: bytesMax, after: assignments) + BeforeImageCodec.bytesMax
      - Commit.left(of: BeforeImageCodec.bytesMax, after: beforeImage ?? [])
  }

  private static func left(of bytesMax: Int, after assignments: [Assignment]) -> Int {
    var budget = bytesMax
    for assignment in assignments {
      budget -= assignment.location.path.keys.reduce(0) { $0 + $1.utf8Count + 1 }
      guard assignment.value.fits(budget: &budget) else { return 0 }
    }
    return budget
  }
}

/// What the engine's task keeps from batch to batch. Used on that task alone.
final class Writer {
  let now: @Sendable () -> Int64
  let random: @Sendable () -> UInt64
  /// Keys of commits that fail are not made again.
  var pushIDs: PushIDGenerator
  /// Those of the latest tree, durable or not.
  var clientWrites: ClientWrites
  /// Indexes that may be added to those of the plan.
  var indexesLeft: Int
  /// Requests that were taken from the queue and are not carried out yet, the first of them last.
  var taken: [Engine.Request] = []
  /// The version of the tree before the last batch, and its commits, if they are large: see `RetiredTrees`.
  var retired: (tree: Tree, commits: [Commit])?
  /// Holds the text of one commit at a time.
  private var scratch = JSONOutput(capacity: 4096)
  /// Bytes of text up to which its memory is kept for the next commit.
  private static let scratchBytesMax = 256 * 1024

  init(
    now: @escaping @Sendable () -> Int64, random: @escaping @Sendable () -> UInt64,
    pushIDs: PushIDGenerator, clientWrites: ClientWrites, indexesLeft: Int
  ) {
    self.now = now
    self.random = random
    self.pushIDs = pushIDs
    self.clientWrites = clientWrites
    self.indexesLeft = indexesLeft
  }

  /// Returns the text of a commit; nil if it is too large to be carried to the journal.
  ///
  /// - Throws: `EngineError.unstorable` when it does not read back.
  func text(
    of assignments: [Assignment], beforeImage: [Assignment]
  ) throws(EngineError) -> CommitText? {
    defer { if scratch.count > Writer.scratchBytesMax { scratch = JSONOutput(capacity: 4096) } }
    return try CommitText.carried(assignments, beforeImage: beforeImage, scratch: &scratch)
  }
}
