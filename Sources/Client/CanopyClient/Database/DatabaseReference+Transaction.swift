internal import CanopyTree

/// Transactions: changes that depend on the current value, safe from concurrent changes.
extension DatabaseReference {
  /// Changes this location by a function of its value.
  ///
  /// The function receives the local value, which is `NSNull` if none is known, and returns the new
  /// one. It runs before all later operations of this database, which wait for it. The server accepts
  /// its result if the location still has the received value; otherwise the function is called again
  /// with the current one, up to 25 times. It must therefore have no side effects.
  ///
  /// A plain write of this client to the same location, or to one above or below, follows the result
  /// of a transaction that waits for no other. If the server does not accept that result, the
  /// transaction is not tried again but fails with `overriddenBySet`; so do transactions that still
  /// wait for others.
  ///
  /// - Parameter block: called on a queue of the library, perhaps several times. It must not wait for
  ///   another operation of the database.
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult
  ) {
    run(block, nil, withLocalEvents: true)
  }

  /// Changes this location by a function of its value.
  ///
  /// - Parameters:
  ///   - block: called on a queue of the library, perhaps several times.
  ///   - completionBlock: receives a `DatabaseError` or nil, whether the change was committed, and
  ///     the current value, on the callback queue.
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult,
    @_inheritActorContext andCompletionBlock completionBlock:
      @escaping @Sendable @isolated(any) ((any Error)?, Bool, DataSnapshot?) -> Void
  ) {
    run(block, answer(completionBlock), withLocalEvents: true)
  }

  /// Changes this location by a function of its value.
  ///
  /// - Parameters:
  ///   - block: called on a queue of the library, perhaps several times.
  ///   - completionBlock: called on the callback queue.
  ///   - localEvents: whether observers see the new value before the server accepts it, and thus
  ///     also values that it refuses.
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult,
    @_inheritActorContext andCompletionBlock completionBlock: (
      @Sendable @isolated(any) ((any Error)?, Bool, DataSnapshot?) -> Void
    )?,
    withLocalEvents localEvents: Bool
  ) {
    run(block, completionBlock.map { answer($0) }, withLocalEvents: localEvents)
  }

  /// Changes this location by a function of its value. Returns whether the change was committed,
  /// and the current value.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the transaction goes on.
  @discardableResult
  public func runTransactionBlock(
    _ block: @escaping @Sendable (MutableData) -> TransactionResult
  ) async throws -> (Bool, DataSnapshot) {
    try await Waiter<(Bool, DataSnapshot)>.result { end in
      run(
        block,
        { outcome, _ in
          if let error = outcome.error {
            end(.failure(error))
          } else {
            end(.success((outcome.isCommitted, outcome.snapshot)))
          }
        }, withLocalEvents: true)
    }
  }

  private func answer(
    _ block: @escaping @Sendable @isolated(any) ((any Error)?, Bool, DataSnapshot?) -> Void
  ) -> Answer<TransactionOutcome> {
    let callback = Callback(of: block)
    return { outcome, state in
      state.call(callback, (outcome.error, outcome.isCommitted, outcome.snapshot))
    }
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
      case .failure(let error): state.refuse(context, error)
      }
    }
  }
}
