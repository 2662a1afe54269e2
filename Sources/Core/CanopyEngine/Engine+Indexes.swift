public import CanopyTree
internal import Synchronization

extension Engine {
  /// The indexes of the current tree. O(1). Safe to call from any thread.
  public var indexPlan: IndexPlan { state.withLock { $0.current.indexPlan } }

  /// Ensures that a location keeps an index, which makes a query of its children cheap.
  ///
  /// O(n log n) for n children, once; writes wait meanwhile. Beyond `addedIndexesMax` it does nothing,
  /// and the query goes through all children.
  public func keepIndex(_ order: Order, at path: Path) async {
    await withCheckedContinuation { continuation in
      let isAccepted = enqueueBarrier(named: "index", keeping: order, at: path) {
        continuation.resume()
      }
      if !isAccepted { continuation.resume() }
    }
  }

  /// Ensures that a location keeps an index, without waiting for it.
  func keepIndexLater(_ order: Order, at path: Path) {
    _ = enqueueBarrier(named: "index", keeping: order, at: path) {}
  }

  /// The commits that were published while indexes are added to a copy of the tree.
  struct Indexing {
    let number: Int
    var missed: [[Assignment]] = []
  }

  /// The most commits that are applied to the copy while writes wait.
  private static let missedAtOnceMax = 64

  /// Ensures that every version from now on keeps the indexes of a plan as well.
  ///
  /// The indexes are added to a copy of the tree while commits go on; then those commits are applied to the copy. O(the
  /// children that the plan covers) in total; writes wait only for the last few commits. Of two calls at the same time
  /// the first one starts again.
  ///
  /// - Throws: `EngineError.stopped`.
  public func keepIndexes(of plan: IndexPlan) async throws(EngineError) {
    while true {
      let (start, number) = try beginIndexing()
      var wanted = start.indexPlan
      wanted.formUnion(plan)
      if wanted == start.indexPlan {
        return state.withLock { state in
          if state.indexing?.number == number { state.indexing = nil }
        }
      }
      var tree = Tree(root: start.root, indexPlan: wanted)
      while let missed = takeMissed(number, moreThan: Engine.missedAtOnceMax) {
        for assignments in missed { tree.apply(assignments) }
      }
      if await install(tree, for: start.indexPlan, number) { return }
    }
  }

  private func beginIndexing() throws(EngineError) -> (Tree, number: Int) {
    try state.withLock { state throws(EngineError) in
      if state.isStopping { throw .stopped }
      state.indexings += 1
      state.indexing = Indexing(number: state.indexings)
      return (state.current, state.indexings)
    }
  }

  /// Removes and returns the commits that were published since the last call; nil if there are at most `few`, or if
  /// another call of `keepIndexes` has begun.
  private func takeMissed(_ number: Int, moreThan few: Int) -> [[Assignment]]? {
    state.withLock { state in
      guard let indexing = state.indexing, indexing.number == number, indexing.missed.count > few
      else { return nil }
      state.indexing?.missed = []
      return indexing.missed
    }
  }

  /// Publishes a tree with the next batch, if the current tree still has the index plan from which it was made.
  private func install(_ tree: Tree, for plan: IndexPlan, _ number: Int) async -> Bool {
    await withCheckedContinuation { continuation in
      let request = IndexInstallation(tree, for: plan, number, in: self, continuation)
      if !enqueueOwn(request) { continuation.resume(returning: false) }
    }
  }
}

/// A request to replace the tree by a copy that has more indexes.
///
/// `@unchecked Sendable`: only the engine's thread uses `isInstalled`, the only variable.
private final class IndexInstallation: PendingRequest, @unchecked Sendable {
  private let tree: Tree
  private let plan: IndexPlan
  private let number: Int
  private let engine: Engine
  private let continuation: CheckedContinuation<Bool, Never>
  private var isInstalled = false

  var name: StaticString { "index" }

  init(
    _ tree: Tree, for plan: IndexPlan, _ number: Int, in engine: Engine,
    _ continuation: CheckedContinuation<Bool, Never>
  ) {
    self.tree = tree
    self.plan = plan
    self.number = number
    self.engine = engine
    self.continuation = continuation
  }

  func run(in batch: inout Batch) -> Bool {
    engine.assertOnThread()
    let missed = engine.state.withLock { state -> [[Assignment]]? in
      guard let indexing = state.indexing, indexing.number == number else { return nil }
      return indexing.missed
    }
    guard let missed, batch.tree.indexPlan == plan else { return true }
    var tree = tree
    for assignments in missed { tree.apply(assignments) }
    for commit in batch.commits { tree.apply(commit.assignments) }
    batch.tree = tree
    isInstalled = true
    return true
  }

  func rollBack() {
    isInstalled = false
  }

  func complete(_ failure: EngineError?) {
    engine.assertOnThread()
    engine.state.withLock { state in
      if state.indexing?.number == number { state.indexing = nil }
    }
    continuation.resume(returning: isInstalled && failure == nil)
  }
}
