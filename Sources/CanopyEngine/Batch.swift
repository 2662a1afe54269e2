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
  private(set) var makers: Makers

  /// What a transaction gets besides the tree.
  struct Makers {
    let now: @Sendable () -> Int64
    let random: @Sendable () -> UInt64
    var pushIDs: PushIDGenerator
    /// Indexes that may be added to those of the plan.
    var indexesLeft: Int
  }

  init(tree: Tree, sequence: Int64, makers: Makers) {
    self.tree = tree
    self.sequence = sequence
    self.makers = makers
  }

  /// Carries out a transaction.
  ///
  /// - Throws: what `decide` throws, and `EngineError.denied`; then nothing has changed.
  @discardableResult
  mutating func propose<Result: Sendable>(
    _ decide: (inout Proposal) throws -> Decision<Result>
  ) throws -> Result {
    var proposal = Proposal(
      root: tree.root, now: makers.now(), pushIDs: makers.pushIDs, random: makers.random)
    defer { makers.pushIDs = proposal.pushIDs }
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
    commits.append(
      Commit(
        sequence: sequence, time: time, assignments: journaled, beforeImage: beforeImage,
        settles: decision.settles))
    return decision.result
  }

  /// Keeps an index from now on, unless the tree has it or there may be no more.
  mutating func keepIndex(_ order: Order, at path: Path) {
    guard makers.indexesLeft > 0, !Query.isIndexed(by: order, tree.root.at(path)) else { return }
    tree.keepIndex(order, at: path.keys)
    makers.indexesLeft -= 1
  }
}
