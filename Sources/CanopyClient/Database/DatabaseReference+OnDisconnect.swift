internal import CanopyTree

/// Writes that the server makes when the connection ends, however it ends: it keeps them from when the
/// completion says so. Asked for without a connection, they wait for one. They are made once: a client that
/// connects again asks for them again.
extension DatabaseReference {
  /// Replaces what stands here when the connection ends.
  public func onDisconnectSetValue(_ value: Any?) {
    onDisconnect(setting(value, nil), nil)
  }

  /// Replaces what stands here when the connection ends.
  public func onDisconnectSetValue(
    _ value: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(setting(value, nil), answer(block))
  }

  /// Replaces what stands here, with a priority, when the connection ends.
  public func onDisconnectSetValue(_ value: Any?, andPriority priority: Any?) {
    onDisconnect(setting(value, .some(priority)), nil)
  }

  /// Replaces what stands here, with a priority, when the connection ends.
  public func onDisconnectSetValue(
    _ value: Any?, andPriority priority: Any?,
    withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(setting(value, .some(priority)), answer(block))
  }

  /// Replaces what stands here when the connection ends; returns when the server has taken note of it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectSetValue(
    _ value: Any?
  ) async throws -> DatabaseReference {
    let kind = setting(value, nil)
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Removes what stands here when the connection ends.
  public func onDisconnectRemoveValue() {
    onDisconnect(setting(nil, nil), nil)
  }

  /// Removes what stands here when the connection ends.
  public func onDisconnectRemoveValue(
    completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(setting(nil, nil), answer(block))
  }

  /// Removes what stands here when the connection ends; returns when the server has taken note of it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectRemoveValue() async throws -> DatabaseReference {
    let kind = setting(nil, nil)
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Sets several places below this one when the connection ends.
  public func onDisconnectUpdateChildValues(_ values: [AnyHashable: Any]) {
    onDisconnect(updating(values), nil)
  }

  /// Sets several places below this one when the connection ends.
  public func onDisconnectUpdateChildValues(
    _ values: [AnyHashable: Any],
    withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(updating(values), answer(block))
  }

  /// Sets several places below this one when the connection ends; returns when the server has taken note
  /// of it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func onDisconnectUpdateChildValues(
    _ values: [AnyHashable: Any]
  ) async throws -> DatabaseReference {
    let kind = updating(values)
    return try await finished { self.onDisconnect(kind, $0) }
  }

  /// Takes back what was asked for here and below.
  public func cancelDisconnectOperations() {
    onDisconnect(.success(.cancel), nil)
  }

  /// Takes back what was asked for here and below.
  public func cancelDisconnectOperations(
    completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    onDisconnect(.success(.cancel), answer(block))
  }

  /// Takes back what was asked for here and below; returns when the server has taken note of it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func cancelDisconnectOperations() async throws -> DatabaseReference
  {
    try await finished { self.onDisconnect(.success(.cancel), $0) }
  }

  private typealias Kind = DisconnectOperation.Kind

  private func setting(_ value: Any?, _ priority: Any??) -> Result<Kind, DatabaseError> {
    Result { () throws(DatabaseError) in .set(try AnyValue.write(value, priority: priority)) }
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
