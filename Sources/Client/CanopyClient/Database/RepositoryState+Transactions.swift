internal import CanopyTree
internal import DequeModule

/// The outcome of a transaction, with the current value.
struct TransactionOutcome: Sendable {
  var error: DatabaseError?
  var isCommitted: Bool
  var snapshot: DataSnapshot
}

/// A transaction of the application.
struct TransactionContext: Sendable {
  var reference: DatabaseReference
  var function: @Sendable (MutableData) -> TransactionResult
  var completion: Answer<TransactionOutcome>?
  /// The error of the function's result, if it was invalid.
  var problem: DatabaseError?
}

/// Transactions: their functions run on a separate queue, which uses the state in the meantime. So a
/// function sees the local value at the time of its transaction, and a later write follows it.
extension RepositoryState {
  func runTransaction(_ context: TransactionContext, at path: Path, withLocalEvents: Bool) {
    if let ending { return refuse(context, ending) }
    connectIfWanted()
    let (id, effects) = tree.beginTransaction(at: path, hasLocalEvents: withLocalEvents)
    transactions[id] = context
    perform(effects)
  }

  /// Calls the functions of transactions, on the queue for that, and takes their results.
  func runTransactions() {
    while let run = transactionRuns.popFirst() {
      guard let context = transactions[run.id], tree.needs(run) else { continue }
      let result = context.function(MutableData(context.reference.key, run.current))
      let (value, problem) = result.outcome
      transactions[run.id]?.problem = problem
      perform(
        tree.transactionRan(run.id, attempt: run.attempt, returning: value, at: clock.now))
    }
  }

  /// Ends a transaction with an error, without a value.
  func refuse(_ context: TransactionContext, _ error: DatabaseError) {
    guard let completion = context.completion else { return fail(nil, error) }
    let nothing = DataSnapshot(context.reference, .absent, order: .priority)
    completion(TransactionOutcome(error: error, isCommitted: false, snapshot: nothing), self)
  }

  func finish(_ end: TransactionEnd) {
    guard let context = transactions.removeValue(forKey: end.id) else { return }
    let snapshot = DataSnapshot(context.reference, end.node, order: .priority)
    guard let completion = context.completion else { return }
    var outcome = TransactionOutcome(error: nil, isCommitted: false, snapshot: snapshot)
    switch end.outcome {
    case .committed: outcome.isCommitted = true
    case .aborted: outcome.error = context.problem
    case .overridden:
      outcome.error = DatabaseError(
        .overriddenBySet, "a write of this client to the same location replaced the transaction")
    case .tooManyConflicts:
      outcome.error = DatabaseError(
        .maxRetries, "the data changed each time that the transaction was tried; try again later")
    case .cancelled:
      outcome.error = DatabaseError(
        .writeCanceled, "the transaction was dropped with the writes that were outstanding")
    case .refused(let error): outcome.error = DatabaseError(error)
    }
    completion(outcome, self)
  }
}
