internal import CanopyTree
internal import Logging

/// Observing and reading. An observer, the synchronisation of its data, and everything that its
/// functions capture live until it is removed.
extension DatabaseQuery {
  /// Adds an observer for events of a type.
  ///
  /// - Parameters:
  ///   - block: called on the database's `callbackQueue`.
  ///   - cancelBlock: called once with a `DatabaseError` if the query is invalid or the rules do
  ///     not allow it (any longer); no event follows. If nil, the error is logged.
  /// - Returns: the handle for `removeObserver(withHandle:)`.
  @discardableResult
  public func observe(
    _ eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) -> DatabaseHandle {
    add(eventType, isOnce: false, { block($0.snapshot) }, cancelBlock)
  }

  /// Adds an observer that also receives the key of the preceding child in the query's order; nil
  /// for the first child, for a removed one, and for values.
  @discardableResult
  public func observe(
    _ eventType: DataEventType,
    andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) -> DatabaseHandle {
    add(eventType, isOnce: false, { block($0.snapshot, $0.previousSiblingKey) }, cancelBlock)
  }

  /// Adds an observer for the first event of a type only.
  public func observeSingleEvent(
    of eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) {
    add(eventType, isOnce: true, { block($0.snapshot) }, cancelBlock)
  }

  /// Adds an observer for the first event of a type only, which also receives the key of the
  /// preceding child.
  public func observeSingleEvent(
    of eventType: DataEventType,
    andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
    withCancel cancelBlock: ((any Error) -> Void)? = nil
  ) {
    add(eventType, isOnce: true, { block($0.snapshot, $0.previousSiblingKey) }, cancelBlock)
  }

  /// Returns the first event of a type.
  ///
  /// - Throws: `DatabaseError` if the query is invalid or not allowed; `CancellationError` if the
  ///   task is cancelled, or all observers of the location are removed. (Firebase's method does not
  ///   throw, and never returns in these cases.)
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
        // The task may have been cancelled before the observer was added.
        if Task.isCancelled { removeObserver(withHandle: handle) }
      }
    } onCancel: {
      removeObserver(withHandle: UInt(id.number))
    }
  }

  // MARK: Reading once

  /// Reads the current value: from the server if there is a connection in time, else the local
  /// value, also one that persistence kept. With persistence, the value read is kept too.
  ///
  /// - Parameter block: receives an error or the value, on the database's `callbackQueue`.
  public func getData(completion block: @escaping ((any Error)?, DataSnapshot?) -> Void) {
    let callback = Callback<Result<DataSnapshot, DatabaseError>> { result in
      switch result {
      case .success(let snapshot): block(nil, snapshot)
      case .failure(let error): block(error, nil)
      }
    }
    read { result, state in state.call { callback.body(result) } }
  }

  /// Reads the current value: from the server if there is a connection in time, else the local
  /// value, also one that persistence kept. With persistence, the value read is kept too.
  ///
  /// - Throws: `DatabaseError`.
  public func getData() async throws -> DataSnapshot {
    try await withCheckedThrowingContinuation { continuation in
      read { result, _ in continuation.resume(with: result) }
    }
  }

  private func read(_ answer: @escaping Answer<Result<DataSnapshot, DatabaseError>>) {
    let reference = reference
    let target = target
    let spec = Result { () throws(DatabaseError) in try self.spec() }
    database.repository.use { state in
      if case .info(let path) = target {
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

  /// Removes one observer of this location. Does nothing if this location has no observer with the
  /// handle; observers of locations below stay.
  public func removeObserver(withHandle handle: DatabaseHandle) {
    remove { $0.number > 0 && UInt($0.number) == handle }
  }

  /// Removes all observers of this query, or on a reference all observers of its location with any
  /// query. Observers of locations below stay.
  public func removeAllObservers() {
    remove { _ in true }
  }

  private func remove(_ isMatch: @escaping @Sendable (ListenerID) -> Bool) {
    let target = target
    let spec = try? spec()
    database.repository.use { state in
      if case .info(let path) = target {
        state.removeInfoObservers(at: path, where: isMatch)
      } else if let spec {
        state.removeObservers(at: spec, where: isMatch)
      }
    }
  }

  /// Sets whether the query's data is kept synchronised, and stored if persistence is enabled,
  /// without an observer. An invalid query is logged.
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
  ///   - id: the number of its handle; nil for a new one.
  ///   - removal: called if the observer is removed before it has ended.
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
      if case .info(let path) = target {
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
