internal import CanopyTree

/// A request in the engine's queue.
///
/// The engine's thread calls `run` in the order of the queue until the request is finished. A request that is not
/// finished at the end of a batch goes on in a later one, after the turns of other owners. The thread calls `complete`
/// once for each batch that has a part of the request.
protocol PendingRequest: AnyObject, Sendable {
  /// The kind of the request, for the log.
  var name: StaticString { get }
  /// Carries out the request or its next part: changes the batch. Returns whether the request is finished; otherwise it
  /// is called again.
  func run(in batch: inout Batch) -> Bool
  /// Takes the outcome of the batch: nil if it is durable and published.
  func complete(_ failure: EngineError?)
  /// Undoes the calls of `run` since the last `complete`: the batch lost the race for its numbers, and is decided again.
  func rollBack()
}

/// A transaction in the queue.
///
/// `@unchecked Sendable`: only the engine's thread uses `decided`, the only variable.
final class PendingTransaction<Body: Transaction>: PendingRequest, @unchecked Sendable {
  private let transaction: Body
  private var decided: Result<Committed<Body.Result>, any Error>?

  var name: StaticString { transaction.name }

  init(_ transaction: Body) {
    self.transaction = transaction
  }

  func run(in batch: inout Batch) -> Bool {
    assert(decided == nil, "a transaction is decided once")
    decided = Result {
      var proposal = try batch.propose(transaction.origin)
      let decision = try transaction.decide(&proposal)
      let unpacked = batch.tree.unpackedBytes
      let priorityBytes = try batch.make(decision, of: proposal)
      return Committed(
        result: decision.result, sequence: batch.sequence, priorityBytes: priorityBytes,
        unpackedBytes: batch.tree.unpackedBytes - unpacked)
    }
    if case .failure(let error)? = decided { transaction.refused(error) }
    return true
  }

  func rollBack() {
    decided = nil
  }

  func complete(_ failure: EngineError?) {
    transaction.complete(failure.map { .failure($0) } ?? decided ?? .failure(EngineError.stopped))
  }
}

/// Groups of writes that are made one after the other, a commit for each group.
///
/// A call of `run` makes one commit. So the bound on the time of a batch applies to each commit and not to their sum,
/// and the writes of other owners come in between. After a failure no further write is made, because a later try must
/// keep their order.
///
/// `@unchecked Sendable`: only the engine's thread uses the variables.
final class PendingWrites: PendingRequest, @unchecked Sendable {
  private let decisions: [Decision<Void>]
  /// The index after the last write of each group.
  private let ends: [Int]
  /// The number of groups that are done.
  private var groupsDone = 0
  private let completion: @Sendable (WritesOutcome) -> Void
  /// The number of writes that were made or denied, in a durable batch or in the present one.
  private var next = 0
  private var errors: [Int: any Error] = [:]
  /// The failure that stopped the writes, besides one of the journal.
  private var stop: EngineError?
  /// The number of writes whose batch is durable.
  private var decided = 0
  /// See `WritesOutcome.unpackedBytes`: those of the durable batches, and with the present one.
  private var unpackedBytes = (decided: 0, all: 0)
  private var isComplete = false

  var name: StaticString { "writes" }

  init(
    _ groups: [[Decision<Void>]],
    completion: @escaping @Sendable (WritesOutcome) -> Void
  ) {
    decisions = groups.flatMap { $0 }
    var end = 0
    ends = groups.map {
      end += $0.count
      return end
    }
    self.completion = completion
  }

  func run(in batch: inout Batch) -> Bool {
    while groupsDone < ends.count, ends[groupsDone] <= next { groupsDone += 1 }
    guard !isComplete, groupsDone < ends.count else { return true }
    let unpacked = batch.tree.unpackedBytes
    let progress = batch.makeTogether(decisions[next..<ends[groupsDone]])
    unpackedBytes.all += batch.tree.unpackedBytes - unpacked
    errors.merge(progress.errors) { $1 }
    next += progress.count
    stop = progress.failure
    return next == decisions.count || stop != nil
  }

  func rollBack() {
    next = decided
    unpackedBytes.all = unpackedBytes.decided
    groupsDone = 0
    errors = errors.filter { $0.key < decided }
    stop = nil
  }

  func complete(_ failure: EngineError?) {
    guard !isComplete else { return }
    if failure == nil { (decided, unpackedBytes.decided) = (next, unpackedBytes.all) }
    let failure = failure ?? stop
    guard failure != nil || decided == decisions.count else { return }
    isComplete = true
    completion(
      WritesOutcome(
        decided: decided, errors: errors.filter { $0.key < decided }, failure: failure,
        unpackedBytes: unpackedBytes.decided))
  }
}

/// A step of the engine itself between two batches. It runs when all commits before it are published or have
/// failed; the published tree then has the index.
final class Barrier: PendingRequest {
  private let order: Order
  private let path: Path
  private let body: @Sendable () -> Void

  let name: StaticString
  /// The owner that is charged for the time of the step.
  let owner: WriteOwner

  init(
    named name: StaticString, keeping order: Order, at path: Path, of owner: WriteOwner = .server,
    _ body: @escaping @Sendable () -> Void
  ) {
    self.name = name
    self.owner = owner
    self.order = order
    self.path = path
    self.body = body
  }

  func run(in batch: inout Batch) -> Bool {
    batch.keepIndex(order, at: path)
    return true
  }

  func rollBack() {}

  func complete(_ failure: EngineError?) {
    body()
  }
}
