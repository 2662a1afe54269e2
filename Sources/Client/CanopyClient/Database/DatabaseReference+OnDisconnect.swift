internal import CanopyTree

/// Writes that the server applies when the connection ends, for any reason. They are registered
/// once the completion is called; without a connection they wait for one. The server applies them
/// once: a client that reconnects must register them again. Observers of this client hear of a
/// registered write when the connection ends, without an answer of the server.
///
/// The `async` methods throw a `CancellationError` if their task is cancelled before the server has answered;
/// the registration goes on.
extension DatabaseReference {
  /// Registers the replacement of this location's value for the end of the connection.
  public func onDisconnectSetValue(_ value: Any?) {
    onDisconnect(setting(value, nil), nil)
  }

  /// Registers the replacement of this location's value for the end of the connection.
  public func onDisconnectSetValue(
    _ value: Any?,
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(setting(value, nil), answer(block))
  }

  // Disfavored, so that a closure after the value is a completion function, not a priority.
  /// Registers the replacement of this location's value, with a priority, for the end of the
  /// connection.
  @_disfavoredOverload
  public func onDisconnectSetValue(_ value: Any?, andPriority priority: Any?) {
    onDisconnect(setting(value, .some(priority)), nil)
  }

  /// Registers the replacement of this location's value, with a priority, for the end of the
  /// connection.
  public func onDisconnectSetValue(
    _ value: Any?, andPriority priority: Any?,
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(setting(value, .some(priority)), answer(block))
  }

  /// Registers the replacement of this location's value for the end of the connection. Returns when
  /// the server has registered it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectSetValue(
    _ value: Any?
  ) async throws -> DatabaseReference {
    let kind = setting(value, nil)
    return try await finished { self.onDisconnect(kind, $0) }
  }

  // As for `setValue`: the type of the priority accepts no closure after the value.
  /// Registers the replacement of this location's value, with a priority, for the end of the
  /// connection. Returns when the server has registered it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectSetValue(
    _ value: Any?, andPriority priority: (any Sendable)?
  ) async throws -> DatabaseReference {
    let kind = setting(value, .some(priority))
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Registers the replacement of this location's value, with a `ServerValue` placeholder as its
  /// priority, for the end of the connection. Returns when the server has registered it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  @discardableResult
  @_disfavoredOverload
  nonisolated(nonsending) public func onDisconnectSetValue(
    _ value: Any?, andPriority priority: [AnyHashable: Any]
  ) async throws -> DatabaseReference {
    let kind = setting(value, .some(priority))
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Registers the removal of this location for the end of the connection.
  public func onDisconnectRemoveValue() {
    onDisconnect(setting(nil, nil), nil)
  }

  /// Registers the removal of this location for the end of the connection.
  public func onDisconnectRemoveValue(
    @_inheritActorContext completionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(setting(nil, nil), answer(block))
  }

  /// Registers the removal of this location for the end of the connection. Returns when the server
  /// has registered it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectRemoveValue() async throws -> DatabaseReference {
    let kind = setting(nil, nil)
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Registers an update of several locations below this one for the end of the connection.
  public func onDisconnectUpdateChildValues(_ values: [AnyHashable: Any]) {
    onDisconnect(updating(values), nil)
  }

  /// Registers an update of several locations below this one for the end of the connection.
  public func onDisconnectUpdateChildValues(
    _ values: [AnyHashable: Any],
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(updating(values), answer(block))
  }

  /// Registers an update of several locations below this one for the end of the connection. Returns
  /// when the server has registered it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectUpdateChildValues(
    _ values: [AnyHashable: Any]
  ) async throws -> DatabaseReference {
    let kind = updating(values)
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Cancels the registered writes of this location and of those below.
  public func cancelDisconnectOperations() {
    onDisconnect(.success(.cancel), nil)
  }

  /// Cancels the registered writes of this location and of those below.
  public func cancelDisconnectOperations(
    @_inheritActorContext completionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(.success(.cancel), answer(block))
  }

  /// Cancels the registered writes of this location and of those below. Returns when the server has
  /// done so.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled.
  @discardableResult
  nonisolated(nonsending) public func cancelDisconnectOperations() async throws -> DatabaseReference
  {
    try await finished { self.onDisconnect(.success(.cancel), $0) }
  }

  private typealias Kind = DisconnectOperation.Kind

  private func setting(_ value: Any?, _ priority: Any??) -> Result<Kind, DatabaseError> {
    Result { () throws(DatabaseError) in
      try located { () throws(DatabaseError) in .set(try AnyValue.write(value, priority: priority))
      }
    }
  }

  private func updating(_ values: [AnyHashable: Any]) -> Result<Kind, DatabaseError> {
    Result { () throws(DatabaseError) in .update(try changes(values)) }
  }

  private func onDisconnect(
    _ kind: Result<Kind, DatabaseError>, _ answer: Answer<DatabaseError?>?
  ) {
    let path = Result { () throws(DatabaseError) in try writablePath() }
    database.repository.use { state in
      do throws(DatabaseError) {
        state.onDisconnect(try path.get(), try kind.get(), completion: answer)
      } catch {
        state.fail(answer, error)
      }
    }
  }
}
