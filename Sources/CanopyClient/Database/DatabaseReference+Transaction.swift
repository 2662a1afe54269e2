internal import CanopyTree

/// Transactions: changes that depend on what stands there, safe from others' changes at the same time.
extension DatabaseReference {
  /// Changes what stands here by a function of it.
  ///
  /// The function is called with what is known here, which is nil while nothing is known, and returns what
  /// is to stand here. The server takes that if what it was called with still stands there; otherwise the
  /// function is called again with what does, up to 25 times. So it must not do anything but compute. A
  /// plain write of this client to the same place takes the transaction's.
  ///
  /// - Parameter block: called on a queue of the library, perhaps several times.
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult
  ) {
    run(block, nil, withLocalEvents: true)
  }

  /// Changes what stands here by a function of it.
  ///
  /// - Parameters:
  ///   - block: called on a queue of the library, perhaps several times.
  ///   - completionBlock: called on the callback queue with a `DatabaseError`, if there was one; whether
  ///     the change was made; and what stands here now.
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult,
    andCompletionBlock completionBlock: @escaping ((any Error)?, Bool, DataSnapshot?) -> Void
  ) {
    run(block, answer(completionBlock), withLocalEvents: true)
  }

  /// Changes what stands here by a function of it.
  ///
  /// - Parameters:
  ///   - block: called on a queue of the library, perhaps several times.
  ///   - completionBlock: called on the callback queue.
  ///   - localEvents: whether observers here see what the function returned before the server has taken
  ///     it, and thus also what it does not take.
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult,
    andCompletionBlock completionBlock: (((any Error)?, Bool, DataSnapshot?) -> Void)?,
    withLocalEvents localEvents: Bool
  ) {
    run(block, completionBlock.map { answer($0) }, withLocalEvents: localEvents)
  }

  /// Changes what stands here by a function of it, and returns whether the change was made, and what stands
  /// here now.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult
  ) async throws -> (Bool, DataSnapshot) {
    try await withCheckedThrowingContinuation { continuation in
      run(
        block,
        { outcome, _ in
          if let error = outcome.error {
            continuation.resume(throwing: error)
          } else {
            continuation.resume(returning: (outcome.isCommitted, outcome.snapshot))
          }
        }, withLocalEvents: true)
    }
  }

  private func answer(
    _ block: @escaping ((any Error)?, Bool, DataSnapshot?) -> Void
  ) -> Answer<TransactionOutcome> {
    let callback = Callback<TransactionOutcome> { block($0.error, $0.isCommitted, $0.snapshot) }
    return { outcome, state in state.call { callback.body(outcome) } }
  }

  private func run(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult,
    _ completion: Answer<TransactionOutcome>?, withLocalEvents: Bool
  ) {
    let context = TransactionContext(reference: self, function: block, completion: completion)
    let path = Result { () throws(DatabaseError) in try writablePath() }
    database.repository.use { state in
      switch path {
      case .success(let path):
        state.runTransaction(context, at: path, withLocalEvents: withLocalEvents)
      case .failure(let error):
        let nothing = DataSnapshot(context.reference, .absent, order: .priority)
        let outcome = TransactionOutcome(error: error, isCommitted: false, snapshot: nothing)
        if let completion = context.completion { return completion(outcome, state) }
        state.fail(nil, error)
      }
    }
  }
}
