internal import CanopyTree

/// The commits that the engine's thread makes before it writes to the journal, and the tree that they lead to.
struct Batch {
  /// The latest tree: all commits that were accepted before, durable or not.
  var tree: Tree
  /// The sequence number of its last commit.
  private(set) var sequence: Int64
  /// The commits of this batch, in order.
  private(set) var commits: [Commit] = []
  /// The changes that listeners may be notified of, in order.
  private(set) var changes: [Change] = []
  /// The requests that were carried out, in order.
  private(set) var requests: [any PendingRequest] = []
  /// The bytes of the commits that were measured, or a little more.
  private(set) var bytes = 0
  private var measured = 0
  /// The sequence number of the last commit before the batch.
  let first: Int64
  /// The number of indexes that could still be added before the batch.
  let indexesLeft: Int
  /// The places of writes that were refused because their commits would not read back, for the log.
  private(set) var unstorable: [Location] = []
  /// The first place of the last write that was decided, for the log.
  private(set) var lastLocation: Location?
  private let writer: WriterState
  /// The reason for which every transaction is refused, in a batch that carries out none.
  private let refusal: EngineError?

  init(tree: Tree, sequence: Int64, writer: WriterState, refusal: EngineError? = nil) {
    self.tree = tree
    self.sequence = sequence
    first = sequence
    indexesLeft = writer.indexesLeft
    self.writer = writer
    self.refusal = refusal
  }

  /// Carries out a request. Its `complete` is to be called when the batch has an outcome.
  mutating func run(_ request: any PendingRequest) {
    request.run(in: &self)
    requests.append(request)
  }

  /// Decides, authorizes and makes a write.
  ///
  /// - Parameter origin: identifies a write that its client may send again.
  /// - Throws: the error of `decide`, `RepeatedWrite`, and `EngineError`; then nothing has changed.
  @discardableResult
  mutating func propose<Result: Sendable>(
    _ origin: WriteOrigin? = nil, _ decide: (inout Proposal) throws -> Decision<Result>
  ) throws -> Result {
    if let refusal { throw refusal }
    let origin = try origin.map { try writer.clientWrites.admit($0) }
    var proposal = Proposal(root: tree.root, writer: writer)
    let decision = try decide(&proposal)
    let time = proposal.now
    // The proposal's reference would have every page on the way to a change copied.
    _ = consume proposal
    guard let write = decision.write, let first = write.items.first else { return decision.result }
    lastLocation = first.location
    try make(write, at: time, origin, decision)
    return decision.result
  }

  /// Makes a write: resolves it, authorizes it, and adds its commit.
  ///
  /// - Throws: `EngineError.denied` and `.unstorable`, and the error of `Decision.derive`; then nothing has changed.
  private mutating func make<Result>(
    _ write: Write, at time: Int64, _ origin: WriteOrigin?, _ decision: Decision<Result>
  ) throws {
    var assignments = write.resolved(in: tree.root, at: time)
    let isChecked = decision.authorize != nil || decision.derive != nil
    // Looked for once: here, or when it is known that the write is allowed and what follows from it.
    var views = isChecked ? ConcernedViews() : writer.listeners.views(concernedBy: assignments)
    // Held only if it is needed: a second reference has the pages on the way copied.
    let isHeld = isChecked || !views.isEmpty || !writer.authorizations.isIdle
    let before = isHeld ? tree : nil
    var beforeImage = tree.beforeImage(of: assignments)
    var journaled = tree.apply(assignments)
    if isChecked, let before {
      do {
        if let derived = try check(assignments, from: before, at: time, decision) {
          // From the beginning: so two copies of one thing share their memory afterwards as well.
          assignments = derived
          tree = before
          beforeImage = tree.beforeImage(of: derived)
          journaled = tree.apply(derived)
        }
      } catch {
        tree = before
        throw error
      }
      views = writer.listeners.views(concernedBy: assignments)
    }
    let text: CommitText?
    do {
      text = try writer.text(of: journaled, beforeImage: beforeImage)
    } catch {
      if let before { tree = before } else { tree.apply(beforeImage) }
      unstorable += journaled.map(\.location)
      throw error
    }
    sequence += 1
    let commit = Commit(
      sequence: sequence, time: time, assignments: journaled, beforeImage: beforeImage,
      completedDisconnectWrite: decision.completedDisconnectWrite,
      keyTime: writer.pushIDs.time > time ? writer.pushIDs.time : nil,
      origin: origin, text: text)
    commits.append(commit)
    if let write = commit.clientWrite { writer.clientWrites.note(write) }
    if let before, !views.isEmpty || !writer.authorizations.isIdle {
      changes.append(Change(commit: commit, views: views, before: before.root, after: tree.root))
    }
  }

  /// Authorizes a write that was applied, and derives what follows from it.
  ///
  /// - Returns: all assignments of the commit; nil if nothing follows.
  /// - Throws: `EngineError.denied`, and the error of `Decision.derive`.
  private func check<Result>(
    _ assignments: [Assignment], from before: Tree, at time: Int64, _ decision: Decision<Result>
  ) throws -> [Assignment]? {
    let write = ProposedWrite(
      assignments: assignments, before: before.root, after: tree.root, time: time)
    guard decision.authorize?(write) ?? true else { throw EngineError.denied }
    return try decision.derive?(write)
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

/// A commit that may concern listeners, with the roots before and after it.
struct Change {
  let commit: Commit
  /// The views at, above and below the places that it writes.
  let views: ConcernedViews
  let before: Node
  let after: Node
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
