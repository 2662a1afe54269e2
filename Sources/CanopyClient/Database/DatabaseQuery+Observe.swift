internal import CanopyTree
internal import Logging

/// Observing and reading. An observer goes on until it is removed, and so does the synchronisation of what
/// it observes; whatever its functions hold is held until then.
extension DatabaseQuery {
  /// Has a function called for each event of a kind.
  ///
  /// - Parameters:
  ///   - block: called on the database's `callbackQueue`.
  ///   - cancelBlock: called once with a `DatabaseError` when the query means nothing, or the server
  ///     does not, or no longer, allow it; there are no events after that. Without it, that is logged.
  /// - Returns: what `removeObserver(withHandle:)` takes.
  @discardableResult
  public func observe(
    _ eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) -> DatabaseHandle {
    add(eventType, isOnce: false, { block($0.snapshot) }, cancelBlock)
  }

  /// The same, with the key of the child before it in the query's order; nil for the first, for one that
  /// was removed, and for values.
  @discardableResult
  public func observe(
    _ eventType: DataEventType,
    andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) -> DatabaseHandle {
    add(eventType, isOnce: false, { block($0.snapshot, $0.previousSiblingKey) }, cancelBlock)
  }

  /// Has a function called for the first event of a kind, and removes the observer then.
  public func observeSingleEvent(
    of eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) {
    add(eventType, isOnce: true, { block($0.snapshot) }, cancelBlock)
  }

  /// The same, with the key of the child before it.
  public func observeSingleEvent(
    of eventType: DataEventType,
    andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) {
    add(eventType, isOnce: true, { block($0.snapshot, $0.previousSiblingKey) }, cancelBlock)
  }

  /// The first event of a kind.
  ///
  /// - Throws: `DatabaseError`, when the query means nothing or is not allowed; `CancellationError`, when
  ///   the task is cancelled, or all observers here are removed. (The original, which does not throw here,
  ///   never returns then.)
  public func observeSingleEventAndPreviousSiblingKey(
    of eventType: DataEventType
  ) async throws -> (DataSnapshot, String?) {
    let id = ListenerID(database.repository.nextHandle())
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let handle = add(
          eventType, isOnce: true, delivery: .direct, as: id,
          removal: { continuation.resume(throwing: CancellationError()) },
          { continuation.resume(returning: ($0.snapshot, $0.previousSiblingKey)) },
          { continuation.resume(throwing: $0) })
        // Cancelled while there was nothing to remove.
        if Task.isCancelled { removeObserver(withHandle: handle) }
      }
    } onCancel: {
      removeObserver(withHandle: UInt(id.number))
    }
  }

  // MARK: Reading once

  /// The present value: the server's, where there is a connection or one comes in time, and else what is
  /// known here.
  ///
  /// - Parameter block: called on the database's `callbackQueue` with an error or the value.
  public func getData(completion block: @escaping ((any Error)?, DataSnapshot?) -> Void) {
    let callback = Callback<Result<DataSnapshot, DatabaseError>> { result in
      switch result {
      case .success(let snapshot): block(nil, snapshot)
      case .failure(let error): block(error, nil)
      }
    }
    read { result, state in state.call { callback.body(result) } }
  }

  /// The present value: the server's, where there is a connection or one comes in time, and else what is
  /// known here.
  ///
  /// - Throws: `DatabaseError`.
  public func getData() async throws -> DataSnapshot {
    try await withCheckedThrowingContinuation { continuation in
      read { result, _ in continuation.resume(with: result) }
    }
  }

  private func read(_ answer: @escaping Answer<Result<DataSnapshot, DatabaseError>>) {
    let reference = reference
    let place = place
    let spec = Result { () throws(DatabaseError) in try self.spec() }
    database.repository.use { state in
      if case .info(let path) = place {
        let snapshot = DataSnapshot(reference, state.info(path), order: .priority)
        return answer(.success(snapshot), state)
      }
      switch spec {
      case .failure(let error): answer(.failure(error), state)
      case .success(let spec):
        state.get(spec) { result, state in
          answer(
            result.map { DataSnapshot(reference, $0, order: spec.query.order) }, state)
        }
      }
    }
  }

  // MARK: Removing

  /// Removes one observer of this location. Those of locations below go on. Nothing happens if there is
  /// none with this handle here.
  public func removeObserver(withHandle handle: DatabaseHandle) {
    remove { $0.number > 0 && UInt($0.number) == handle }
  }

  /// Removes all observers of this query; on a reference, all of its location, with whichever query. Those
  /// of locations below go on.
  public func removeAllObservers() {
    remove { _ in true }
  }

  private func remove(_ isMeant: @escaping @Sendable (ListenerID) -> Bool) {
    let place = place
    let spec = try? spec()
    database.repository.use { state in
      if case .info(let path) = place {
        state.removeInfoObservers(at: path, where: isMeant)
      } else if let spec {
        state.removeObservers(at: spec, where: isMeant)
      }
    }
  }

  /// Keeps what the query wants synchronised, and, where persistence is on, stored, without an observer;
  /// or no longer. Where the query means nothing, that is logged.
  public func keepSynced(_ keepSynced: Bool) {
    let spec = Result { () throws(DatabaseError) in try self.spec() }
    database.repository.use { state in
      switch spec {
      case .success(let spec): state.keepSynced(self, spec, keepSynced)
      case .failure(let error):
        state.options.logger.warning(
          "nothing is kept synchronised", metadata: ["error": "\(error)"])
      }
    }
  }

  // MARK: Adding

  /// Adds an observer.
  ///
  /// - Parameters:
  ///   - id: the number for its handle; nil for a new one.
  ///   - removal: called when it is removed before its end.
  @discardableResult
  func add(
    _ type: DataEventType, isOnce: Bool, delivery: Delivery = .callbackQueue,
    as id: ListenerID? = nil, removal: (@Sendable () -> Void)? = nil,
    _ event: @escaping (Observation) -> Void, _ cancel: ((any Error) -> Void)?
  ) -> DatabaseHandle {
    let (eventCallback, cancelCallback) = (
      Callback(body: event), cancel.map { cancel in Callback<DatabaseError> { cancel($0) } }
    )
    let id = id ?? ListenerID(database.repository.nextHandle())
    let spec: QuerySpec
    do throws(DatabaseError) {
      if case .info(let path) = place {
        let registration = Registration(
          self, QuerySpec(path), type, isOnce: isOnce, delivery, event: eventCallback,
          cancel: cancelCallback, removal: removal)
        database.repository.use { $0.observeInfo(path, registration, as: id) }
        return UInt(id.number)
      }
      spec = try self.spec()
    } catch {
      database.repository.use { state in
        guard let cancelCallback else {
          state.options.logger.warning(
            "an observer could not be added", metadata: ["error": "\(error)"])
          return
        }
        switch delivery {
        case .direct: cancelCallback.body(error)
        case .callbackQueue: state.call { cancelCallback.body(error) }
        }
      }
      return UInt(id.number)
    }
    let registration = Registration(
      self, spec, type, isOnce: isOnce, delivery, event: eventCallback, cancel: cancelCallback,
      removal: removal)
    database.repository.use { $0.observe(registration, as: id) }
    return UInt(id.number)
  }
}
