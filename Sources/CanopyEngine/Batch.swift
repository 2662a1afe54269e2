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
  private let writer: Writer

  init(tree: Tree, sequence: Int64, writer: Writer) {
    self.tree = tree
    self.sequence = sequence
    self.writer = writer
  }

  /// Carries out a transaction.
  ///
  /// - Parameter origin: which write of which client it is.
  /// - Throws: what `decide` throws, `RepeatedWrite`, and `EngineError`; then nothing has changed.
  @discardableResult
  mutating func propose<Result: Sendable>(
    _ decide: (inout Proposal) throws -> Decision<Result>, once origin: WriteOrigin? = nil
  ) throws -> Result {
    if let origin { try writer.clientWrites.check(origin) }
    var proposal = Proposal(
      root: tree.root, now: writer.now(), pushIDs: writer.pushIDs, random: writer.random)
    defer { writer.pushIDs = proposal.pushIDs }
    let decision = try decide(&proposal)
    guard let write = decision.write, !write.items.isEmpty else { return decision.result }
    let time = proposal.now
    let assignments = write.resolved(in: tree.root, at: time)
    // The proposal's reference would have every page on the way to a change copied.
    proposal.root = .absent
    let beforeImage: [Assignment]
    let journaled: [Assignment]
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
    } else {
      beforeImage = tree.beforeImage(of: assignments)
      journaled = tree.apply(assignments)
    }
    sequence += 1
    let commit = Commit(
      sequence: sequence, time: time, assignments: journaled, beforeImage: beforeImage,
      settles: decision.settles,
      keyTime: proposal.pushIDs.time > time ? proposal.pushIDs.time : nil,
      origin: origin)
    commits.append(commit)
    if let write = commit.clientWrite { writer.clientWrites.note(write) }
    return decision.result
  }

  /// Keeps an index from now on, unless the tree has it or there may be no more.
  mutating func keepIndex(_ order: Order, at path: Path) {
    guard writer.indexesLeft > 0, !Query.isIndexed(by: order, tree.root.at(path)) else { return }
    tree.keepIndex(order, at: path.keys)
    writer.indexesLeft -= 1
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
}
