internal import CanopyTree
internal import Logging

/// Observing and reading. An observer, the synchronization of its data, and everything that its
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
    _ eventType: DataEventType,
    @_inheritActorContext with block: @escaping @Sendable @isolated(any) (DataSnapshot) -> Void,
    @_inheritActorContext withCancel cancelBlock: (@Sendable @isolated(any) (any Error) -> Void)? =
      nil
  ) -> DatabaseHandle {
    add(
      eventType, isOnce: false, Callback(of: block).map { $0.snapshot },
      cancelBlock.map { Callback(of: $0).map { $0 } })
  }

  /// Adds an observer that also receives the key of the preceding child in the query's order; nil
  /// for the first child, for a removed one, and for values.
  @discardableResult
  public func observe(
    _ eventType: DataEventType,
    @_inheritActorContext andPreviousSiblingKeyWith block:
      @escaping @Sendable @isolated(any) (DataSnapshot, String?) -> Void,
    @_inheritActorContext withCancel cancelBlock: (@Sendable @isolated(any) (any Error) -> Void)? =
      nil
  ) -> DatabaseHandle {
    add(
      eventType, isOnce: false, Callback(of: block).map { ($0.snapshot, $0.previousSiblingKey) },
      cancelBlock.map { Callback(of: $0).map { $0 } })
  }

  /// Adds an observer for the first event of a type only.
  public func observeSingleEvent(
    of eventType: DataEventType,
    @_inheritActorContext with block: @escaping @Sendable @isolated(any) (DataSnapshot) -> Void,
    @_inheritActorContext withCancel cancelBlock: (@Sendable @isolated(any) (any Error) -> Void)? =
      nil
  ) {
    add(
      eventType, isOnce: true, Callback(of: block).map { $0.snapshot },
      cancelBlock.map { Callback(of: $0).map { $0 } })
  }

  /// Adds an observer for the first event of a type only, which also receives the key of the
  /// preceding child.
  public func observeSingleEvent(
    of eventType: DataEventType,
    @_inheritActorContext andPreviousSiblingKeyWith block:
      @escaping @Sendable @isolated(any) (DataSnapshot, String?) -> Void,
    @_inheritActorContext withCancel cancelBlock: (@Sendable @isolated(any) (any Error) -> Void)? =
      nil
  ) {
    add(
      eventType, isOnce: true, Callback(of: block).map { ($0.snapshot, $0.previousSiblingKey) },
      cancelBlock.map { Callback(of: $0).map { $0 } })
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
          Callback { continuation.resume(returning: ($0.snapshot, $0.previousSiblingKey)) },
          Callback { continuation.resume(throwing: $0) })
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
  public func getData(
    @_inheritActorContext completion block:
      @escaping @Sendable @isolated(any) ((any Error)?, DataSnapshot?) -> Void
  ) {
    let callback = Callback(of: block)
    read { result, state in
      switch result {
      case .success(let snapshot): state.call(callback, (nil, snapshot))
      case .failure(let error): state.call(callback, (error, nil))
      }
    }
  }

  /// Reads the current value: from the server if there is a connection in time, else the local
  /// value, also one that persistence kept. With persistence, the value read is kept too.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  public func getData() async throws -> DataSnapshot {
    try await Waiter<DataSnapshot>.result { end in
      read { result, _ in end(result.mapError { $0 }) }
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
  ///
  /// Calls of the observer that have not begun are dropped: on its own actor or queue, no call follows.
  public func removeObserver(withHandle handle: DatabaseHandle) {
    remove { $0.number > 0 && UInt($0.number) == handle }
  }

  /// Removes all observers of this query, or on a reference all observers of its location with any
  /// query. Observers of locations below stay. Calls that have not begun are dropped.
  public func removeAllObservers() {
    remove { _ in true }
  }

  /// Removes observers. They are not called any more once this returns, unless a call has begun.
  private func remove(_ isMatch: (ListenerID) -> Bool) {
    let repository = database.repository
    if case .info(let path) = target {
      let ended = repository.observers.end(at: QuerySpec(path), isInfo: true, where: isMatch)
      repository.use { $0.removeInfoObservers(ended) }
    } else if let spec = try? spec() {
      let ended = repository.observers.end(at: spec, isInfo: false, where: isMatch)
      repository.use { $0.removeObservers(ended) }
    }
  }

  /// Sets whether the query's data is kept synchronized, and stored if persistence is enabled,
  /// without an observer. An invalid query is logged.
  public func keepSynced(_ keepSynced: Bool) {
    let spec = Result { () throws(DatabaseError) in try self.spec() }
    database.repository.use { state in
      switch spec {
      case .success(let spec): state.keepSynced(self, spec, keepSynced)
      case .failure(let error):
        state.options.logger.warning(
          "nothing is kept synchronized", metadata: ["error": "\(error)"])
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
    _ event: Callback<Observation>, _ cancel: Callback<DatabaseError>?
  ) -> DatabaseHandle {
    let id = id ?? ListenerID(database.repository.nextHandle())
    let spec: QuerySpec
    do throws(DatabaseError) {
      if case .info(let path) = target {
        let registration = Registration(
          self, QuerySpec(path), type, isOnce: isOnce, delivery, event: event,
          cancel: cancel, removal: removal)
        database.repository.observers.add(registration, as: id)
        database.repository.use { $0.observeInfo(path, registration, as: id) }
        return UInt(id.number)
      }
      spec = try self.spec()
    } catch {
      database.repository.use { state in
        guard let cancel else {
          state.options.logger.warning(
            "an observer could not be added", metadata: ["error": "\(error)"])
          return
        }
        switch delivery {
        case .direct: cancel.body(error)
        case .callbackQueue: state.call(cancel, error)
        }
      }
      return UInt(id.number)
    }
    let registration = Registration(
      self, spec, type, isOnce: isOnce, delivery, event: event, cancel: cancel,
      removal: removal)
    database.repository.observers.add(registration, as: id)
    database.repository.use { $0.observe(registration, as: id) }
    return UInt(id.number)
  }
}
