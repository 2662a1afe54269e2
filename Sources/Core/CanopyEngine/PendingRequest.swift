internal import CanopyTree

/// A request in the engine's queue.
///
/// The engine's thread calls `run` once, in the order of the queue, and then `complete` once.
protocol PendingRequest: AnyObject, Sendable {
  /// The kind of the request, for the log.
  var name: StaticString { get }
  /// Changes the batch.
  func run(in batch: inout Batch)
  /// Takes the outcome of the batch: nil if it is durable and published.
  func complete(_ failure: EngineError?)
}

/// A transaction in the queue.
///
/// `@unchecked` because of `decided`: only the engine's thread uses it.
final class PendingTransaction<Body: Transaction>: PendingRequest, @unchecked Sendable {
  private let transaction: Body
  private var decided: Result<Committed<Body.Result>, any Error>?

  var name: StaticString { transaction.name }

  init(_ transaction: Body) {
    self.transaction = transaction
  }

  func run(in batch: inout Batch) {
    assert(decided == nil, "a transaction is decided once")
    decided = Result {
      let result = try batch.propose(transaction.origin) { proposal throws in
        try transaction.decide(&proposal)
      }
      return Committed(result: result, sequence: batch.sequence)
    }
  }

  func complete(_ failure: EngineError?) {
    transaction.complete(failure.map { .failure($0) } ?? decided ?? .failure(EngineError.stopped))
  }
}

/// Writes that are made one after the other, a commit each, without other commits in between.
///
/// `@unchecked` because of `denied`: only the engine's thread uses it.
final class PendingWrites: PendingRequest, @unchecked Sendable {
  private let decisions: [Decision<Void>]
  private let completion: @Sendable (Result<[Int], EngineError>) -> Void
  private var denied: [Int] = []

  var name: StaticString { "writes" }

  init(
    _ decisions: [Decision<Void>],
    completion: @escaping @Sendable (Result<[Int], EngineError>) -> Void
  ) {
    self.decisions = decisions
    self.completion = completion
  }

  func run(in batch: inout Batch) {
    for (index, decision) in decisions.enumerated() {
      do { try batch.propose { _ in decision } } catch { denied.append(index) }
    }
  }

  func complete(_ failure: EngineError?) {
    completion(failure.map { .failure($0) } ?? .success(denied))
  }
}

/// A step of the engine itself between two batches. It runs when all commits before it are published or have
/// failed; the published tree then has the index.
final class Barrier: PendingRequest {
  private let order: Order
  private let path: Path
  private let body: @Sendable () -> Void

  let name: StaticString

  init(
    named name: StaticString, keeping order: Order, at path: Path,
    _ body: @escaping @Sendable () -> Void
  ) {
    self.name = name
    self.order = order
    self.path = path
    self.body = body
  }

  func run(in batch: inout Batch) {
    batch.keepIndex(order, at: path)
  }

  func complete(_ failure: EngineError?) {
    body()
  }
}
