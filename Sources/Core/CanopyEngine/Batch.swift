internal import CanopyTree

/// The transactions that the engine carries out between two appends, their commits, and the tree after them.
struct Batch {
  /// The latest tree: all commits that were accepted before, durable or not.
  var tree: Tree
  /// The sequence number of its last commit.
  private(set) var sequence: Int64
  /// The commits of this batch, in order.
  private(set) var commits: [Commit] = []
  /// The changes that listeners may be notified of, in order.
  private(set) var changes: [Change] = []
  /// The requests that were carried out, or a part of them, in order.
  private(set) var requests: [any PendingRequest] = []
  /// An upper estimate of the bytes of the measured commits.
  private(set) var bytes = 0
  private var measured = 0
  /// The sequence number of the last commit before the batch.
  let first: Int64
  /// The number of indexes that could still be added before the batch. `Engine.fail` restores it.
  let indexesLeft: Int
  /// The bytes of large texts that the commits may still carry: see `CommitText.largeBytesMax`.
  var largeTextBytes = CommitText.largeBytesMax
  /// The bytes of the texts of the commits.
  var textBytes = 0
  /// Whether a request that may be refused has a large write, which takes long to free.
  var hasLargeRequests = false
  /// The locations of writes that were refused because their commits would not read back, for the log.
  var unstorable: [Location] = []
  /// The first location of the last write that was decided, for the log.
  var lastLocation: Location?
  let writer: WriterState
  /// The bound on the memory of the tree; nil for none.
  let memory: (any TreeMemory)?
  /// Whether the next request was decided before, in a batch that lost the race for its numbers. Then its user is not
  /// charged again.
  var isRepeat = false
  /// The mark of the last commit. The batch ends with it, so that all later commits are decided with it in force.
  private(set) var mark: CommitMark?
  /// The error with which every transaction is refused; nil in a batch that carries them out.
  private let refusal: EngineError?
  /// Whether every transaction is refused.
  var isRefusing: Bool { refusal != nil }

  init(
    tree: Tree, sequence: Int64, writer: WriterState, memory: (any TreeMemory)? = nil,
    refusal: EngineError? = nil
  ) {
    self.tree = tree
    self.sequence = sequence
    first = sequence
    indexesLeft = writer.indexesLeft
    self.writer = writer
    self.memory = memory
    self.refusal = refusal
  }

  /// Notes a request that was carried out, or a part of it. The engine calls its `complete` when the batch has an
  /// outcome.
  mutating func note(_ request: any PendingRequest) {
    // The parts of a request follow each other.
    if requests.last !== request { requests.append(request) }
  }

  /// Returns the latest tree for a decision, which `make` then carries out.
  ///
  /// - Parameter origin: identifies a write that its client may send again.
  /// - Throws: `RepeatedWrite` and `EngineError`.
  func propose(_ origin: WriteOrigin? = nil) throws -> Proposal {
    if let refusal { throw refusal }
    let origin = try origin.map { try writer.clientWrites.admit($0) }
    let proposal = Proposal(
      root: tree.root, origin: origin, isRepeat: isRepeat, writer: writer)
    // Keys would repeat after the last time that they can contain, and the next start refuses such a time.
    guard proposal.now < PushIDGenerator.timeMax else { throw EngineError.wrongTime }
    return proposal
  }

  /// Makes the write of a decision: resolves it, authorizes it, and adds its commit.
  ///
  /// - Parameter proposal: the proposal of the decision. It ends here, because its second reference to the tree would
  ///   make `apply` copy the pages on the path.
  /// - Returns: see `Committed.priorityBytes`.
  /// - Throws: `EngineError.denied`, `.commitTooLarge`, `.unstorable` and `.treeFull`, and the error of
  ///   `WritePolicy.derive`; then nothing has changed.
  @discardableResult
  mutating func make<Result>(
    _ decision: Decision<Result>, of proposal: consuming Proposal
  ) throws -> Int {
    let (time, origin) = (proposal.now, proposal.origin)
    _ = consume proposal
    guard var write = decision.write, let first = write.assignments.first else { return 0 }
    lastLocation = first.location
    try checkOwnership(decision.completedDisconnectWrite)
    let policy = decision.policy
    if let policy, write.isLarge {
      hasLargeRequests = true
      if policy.denies(write, before: tree.root, at: time) { throw EngineError.denied }
    }
    var assignments = write.resolve(in: tree.root, at: time)
    try checkPriorities(above: assignments)
    // Looked up once: here, or after the authorization, when all assignments are known.
    var views =
      policy != nil ? ConcernedViews() : writer.listeners.views(concernedBy: assignments)
    // The old tree is kept only if it is needed: a second reference makes `apply` copy the pages on the path.
    let isHeld =
      policy != nil || !views.isEmpty || !writer.authorizations.isIdle
      || memory?.isNearBound == true
    let before = isHeld ? tree : nil
    let added = tree.addedMemoryMax
    var beforeImage = tree.beforeImage(of: assignments)
    var journaled = tree.apply(assignments, of: write, countsMemory: memory != nil)
    if let policy, let before {
      if let derived = try authorize(assignments, by: policy, over: before, at: time) {
        assignments = derived
        beforeImage = before.beforeImage(of: derived)
        journaled = tree.apply(derived, of: write, countsMemory: memory != nil)
      }
      views = writer.listeners.views(concernedBy: assignments)
    }
    let text: CommitText?
    let growth: TreeGrowth?
    let counted = (largeTextBytes, textBytes)
    do {
      text = try writer.text(
        of: journaled, from: write, beforeImage: beforeImage, largeBytes: &largeTextBytes,
        bytes: &textBytes)
      growth = try self.growth(
        of: write.assignments, since: added, isBounded: decision.isBounded, from: before,
        beforeImage)
    } catch {
      (largeTextBytes, textBytes) = counted
      if let before { tree = before } else { tree.apply(beforeImage) }
      if error == .unstorable { unstorable += journaled.map(\.location) }
      throw error
    }
    let keyTime = keyTime(of: time)
    var commit = Commit(
      sequence: sequence + 1, time: time, assignments: journaled, beforeImage: beforeImage,
      completedDisconnectWrites: isPlanted(.disconnectWritesTwice)
        ? [] : decision.completedDisconnectWrite.map { [$0] } ?? [],
      keyTime: keyTime, origin: origin, note: writer.note(keyTime: keyTime), text: text)
    commit.treeGrowth = growth
    add(commit, concerning: views, over: before)
    // The assignment of a write without another one is not a priority that follows from it.
    return journaled.count > 1 ? journaled.priorityBytes(besides: assignments) : 0
  }

  /// Authorizes assignments that were just applied. If nothing else follows from them, the tree stays as it is.
  ///
  /// - Parameter before: the tree before the assignments, which is restored if others follow from them.
  /// - Returns: all assignments to apply instead, if others follow. They are applied from the start, so that two copies
  ///   of a value still share their memory.
  /// - Throws: `EngineError.denied`, and the error of `WritePolicy.derive`; then the tree is `before` again.
  mutating func authorize(
    _ assignments: [Assignment], by policy: any WritePolicy, over before: Tree, at time: Int64
  ) throws -> [Assignment]? {
    let proposed = ProposedWrite(
      assignments: assignments, before: before.root, after: tree.root, time: time,
      isRepeat: isRepeat)
    do {
      guard policy.allows(proposed) else { throw EngineError.denied }
      let derived = try policy.derive(proposed)
      if let derived {
        tree = before
        try checkPriorities(above: derived)
      }
      return derived
    } catch {
      tree = before
      throw error
    }
  }

  /// Checks, before any other work, that few priorities follow from assignments that are not applied yet.
  ///
  /// - Throws: `EngineError.commitTooLarge`.
  func checkPriorities(above assignments: [Assignment]) throws(EngineError) {
    let countMax = assignments.count + Limits.commitPrioritiesMax
    guard tree.hasPriorities(above: assignments, atMost: countMax) else { throw .commitTooLarge }
  }

  /// Returns `Commit.keyTime` for a commit of this time.
  func keyTime(of time: Int64) -> Int64? {
    writer.pushIDs.time > time ? writer.pushIDs.time : nil
  }

  /// Adds a commit whose assignments were applied to the tree.
  ///
  /// - Parameters:
  ///   - views: the views that it concerns.
  ///   - before: the tree before the commit; not needed if it concerns no views, and no authorizations depend on it.
  mutating func add(_ commit: Commit, concerning views: ConcernedViews, over before: Tree?) {
    assert(commit.sequence == sequence + 1, "commits are numbered without gaps")
    sequence = commit.sequence
    commits.append(commit)
    if !isPlanted(.writeNotRemembered), let write = commit.clientWrite {
      writer.clientWrites.note(write)
    }
    if let before, !views.isEmpty || !writer.authorizations.isIdle {
      // Listeners may keep the change for long, and do not need the text.
      changes.append(
        Change(commit: commit.withoutText, views: views, before: before.root, after: tree.root))
    }
  }

  /// Finds the views again that the commits concern. While the journal could not say whether it has the batch, listeners
  /// may have begun with the tree before it.
  ///
  /// - Parameter before: the tree before the batch.
  mutating func findViews(since before: Tree) {
    var tree = before
    changes = commits.map { commit in
      let (views, root) = (writer.listeners.views(concernedBy: commit.assignments), tree.root)
      tree.apply(commit.assignments)
      return Change(commit: commit.withoutText, views: views, before: root, after: tree.root)
    }
  }

  /// Adds a commit that changes nothing but has a mark, and ends the batch.
  mutating func add(_ mark: CommitMark) throws {
    let proposal = try propose()
    let keyTime = keyTime(of: proposal.now)
    let commit = Commit(
      sequence: sequence + 1, time: proposal.now, assignments: [], beforeImage: [],
      keyTime: keyTime, note: writer.note(keyTime: keyTime, mark))
    add(commit, concerning: ConcernedViews(), over: nil)
    self.mark = mark
  }

  /// Checks that no other node has taken over an on-disconnect write. The node that has taken it over makes it.
  ///
  /// - Throws: `EngineError.takenOver`.
  func checkOwnership(_ id: DisconnectWriteID?) throws(EngineError) {
    guard !writer.takenDisconnectWrites.isEmpty, let id,
      writer.takenDisconnectWrites.contains(id)
    else { return }
    throw .takenOver
  }

  /// Adds the size of the commits that were not measured yet. O(1) for a commit with a text, else O(its size, up to the
  /// bound of a batch).
  ///
  /// The engine does not call this after the last request, so that a single write does not pay for it.
  mutating func measure() {
    for commit in commits[measured...] {
      bytes += commit.textBytes
    }
    measured = commits.count
  }

  /// Keeps an index from now on, unless the tree has it or the bound of added indexes is reached.
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
  /// The views at, above and below the locations that it writes.
  let views: ConcernedViews
  let before: Node
  let after: Node
}

extension Commit {
  /// The bytes of the assignments and of the before-image in the journal.
  ///
  /// O(1) if the commit carries its text. Otherwise it is an estimate, which stops at the bound of a batch.
  public var textBytes: Int { text?.byteCount ?? estimatedBytes(upTo: Engine.batchBytesMax) }

  /// The bytes of the assignments less those of the before-image, or less the most that one may have if it is too large;
  /// 0 if the commit does not carry its text. O(1)
  public var textGrowth: Int {
    guard let text else { return 0 }
    let isLeftOut = beforeImage != nil && !text.hasBeforeImage
    return text.growth - (isLeftOut ? BeforeImageCodec.bytesMax : 0)
  }

  /// Returns the bytes of JSON of the assignments and of the before-image, as far as it is journaled.
  func estimatedBytes(upTo bytesMax: Int) -> Int { estimatedValues(upTo: bytesMax).json }

  /// Returns the bytes of the assignments and of the before-image, as far as it is journaled. The memory is that of the
  /// values that were measured before the bound.
  func estimatedValues(upTo bytesMax: Int) -> ValueBytes {
    var bytes = Commit.bytes(of: assignments, upTo: bytesMax)
    bytes += Commit.bytes(of: beforeImage ?? [], upTo: BeforeImageCodec.bytesMax)
    return bytes
  }

  private static func bytes(of assignments: [Assignment], upTo bytesMax: Int) -> ValueBytes {
    var budget = ByteBudget(bytesMax)
    for assignment in assignments {
      budget.rest -= assignment.location.path.keys.reduce(0) { $0 + $1.utf8Count + 1 }
      guard assignment.value.fits(budget: &budget) else {
        return ValueBytes(json: bytesMax, memory: budget.memory)
      }
    }
    return budget.used
  }
}
