internal import CanopyTree
internal import Logging

/// Writing. What is written is seen here at once; the completion tells when the server has it, or why it
/// does not: then it is undone here. Without a connection that comes when there is one again.
extension DatabaseReference {
  // MARK: Set

  /// Replaces what stands here and below; nil removes it.
  ///
  /// - Parameter value: nil, a bool, a number, a string, an array or a dictionary with strings as keys, of
  ///   Swift or of Foundation; `ServerValue` placeholders may stand in it.
  public func setValue(_ value: Any?) {
    set(value, nil, nil)
  }

  /// Replaces what stands here and below.
  ///
  /// - Parameter block: called with nil when the server has it, else with a `DatabaseError`.
  public func setValue(
    _ value: Any?, withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    set(value, nil, answer(block))
  }

  /// Replaces what stands here and below, with a priority: nil, a number or a string.
  public func setValue(_ value: Any?, andPriority priority: Any?) {
    set(value, .some(priority), nil)
  }

  /// Replaces what stands here and below, with a priority.
  public func setValue(
    _ value: Any?, andPriority priority: Any?,
    withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    set(value, .some(priority), answer(block))
  }

  /// Replaces what stands here and below, and returns when the server has it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func setValue(_ value: Any?) async throws -> DatabaseReference {
    let write = write(value, nil)
    return try await finished { self.make(write, $0) }
  }

  /// Replaces what stands here and below, with a priority, and returns when the server has it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func setValue(
    _ value: Any?, andPriority priority: Any?
  ) async throws -> DatabaseReference {
    let write = write(value, .some(priority))
    return try await finished { self.make(write, $0) }
  }

  /// Replaces what stands here and below by a value of an `Encodable` type.
  ///
  /// - Throws: what encoding it throws.
  public func setValue(from value: some Encodable) throws {
    set(try ValueEncoder.encode(value), nil, nil)
  }

  /// Replaces what stands here and below by a value of an `Encodable` type.
  ///
  /// - Parameter completion: called with nil when the server has it, else with a `DatabaseError`.
  /// - Throws: what encoding it throws.
  public func setValue(
    from value: some Encodable, completion: @escaping ((any Error)?) -> Void
  ) throws {
    set(try ValueEncoder.encode(value), nil, answer { error, _ in completion(error) })
  }

  /// Replaces what stands here and below by a value of an `Encodable` type, and returns when the server
  /// has it.
  ///
  /// - Throws: what encoding it throws; `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func setValue(
    from value: some Encodable
  ) async throws -> DatabaseReference {
    let write = write(try ValueEncoder.encode(value), nil)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Remove

  /// Removes what stands here and below.
  public func removeValue() {
    set(nil, nil, nil)
  }

  /// Removes what stands here and below.
  public func removeValue(
    completionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    set(nil, nil, answer(block))
  }

  /// Removes what stands here and below, and returns when the server has done so.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func removeValue() async throws -> DatabaseReference {
    let write = write(nil, nil)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Update

  /// Sets several places below this one, all or none; the others stay. Keys may be paths, nil and `NSNull`
  /// remove.
  public func updateChildValues(_ values: [AnyHashable: Any]) {
    make(update(values), nil)
  }

  /// Sets several places below this one, all or none.
  ///
  /// - Parameter block: called with nil when the server has them, else with a `DatabaseError`.
  public func updateChildValues(
    _ values: [AnyHashable: Any],
    withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    make(update(values), answer(block))
  }

  /// Sets several places below this one, all or none, and returns when the server has them.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func updateChildValues(
    _ values: [AnyHashable: Any]
  ) async throws -> DatabaseReference {
    let write = update(values)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Priority

  /// Changes the priority of what stands here: nil, a number or a string.
  public func setPriority(_ priority: Any?) {
    make(priorityWrite(priority), nil)
  }

  /// Changes the priority of what stands here.
  public func setPriority(
    _ priority: Any?,
    withCompletionBlock block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) {
    make(priorityWrite(priority), answer(block))
  }

  /// Changes the priority of what stands here, and returns when the server has it.
  ///
  /// - Throws: `DatabaseError`.
  @discardableResult
  nonisolated(nonsending) public func setPriority(
    _ priority: Any?
  ) async throws -> DatabaseReference {
    let write = priorityWrite(priority)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Making writes

  private typealias WriteResult = Result<Write, DatabaseError>

  private func set(_ value: Any?, _ priority: Any??, _ answer: Answer<DatabaseError?>?) {
    make(write(value, priority), answer)
  }

  private func write(_ value: Any?, _ priority: Any??) -> WriteResult {
    Result { () throws(DatabaseError) in
      let path = try writablePath()
      let value = try AnyValue.write(value, priority: priority)
      return try DatabaseError.wrap { () throws(TreeError) in
        try .set(Location(path), value)
      }
    }
  }

  private func update(_ values: [AnyHashable: Any]) -> WriteResult {
    Result { () throws(DatabaseError) in
      let changes = try changes(values)
      let path = try writablePath()
      return try DatabaseError.wrap { () throws(TreeError) in
        try .update(path, changes)
      }
    }
  }

  func changes(
    _ values: [AnyHashable: Any]
  ) throws(DatabaseError) -> [(Location, WriteValue)] {
    var changes: [(Location, WriteValue)] = []
    for (key, value) in values {
      guard let text = key.base as? String else {
        throw DatabaseError(.invalidData, "the keys of an update must be strings; \(key) is none")
      }
      let location = try DatabaseError.wrap { () throws(TreeError) in try Location(text) }
      changes.append((location, try AnyValue.write(value)))
    }
    return changes
  }

  private func priorityWrite(_ priority: Any?) -> WriteResult {
    Result { () throws(DatabaseError) in
      let location = Location(try writablePath(), isPriority: true)
      let value = try AnyValue.write(priority)
      return try DatabaseError.wrap { () throws(TreeError) in try .set(location, value) }
    }
  }

  private func make(_ write: WriteResult, _ answer: Answer<DatabaseError?>?) {
    database.repository.use { state in
      switch write {
      case .success(let write): state.write(write, completion: answer)
      case .failure(let error): state.fail(answer, error)
      }
    }
  }

  /// An answer that calls a function of the application in its turn.
  func answer(
    _ block: @escaping ((any Error)?, DatabaseReference) -> Void
  ) -> Answer<DatabaseError?> {
    let callback = Callback<DatabaseError?> { block($0, self) }
    return { error, state in state.call { callback.body(error) } }
  }

  /// Returns when an operation is done.
  nonisolated(nonsending) func finished(
    _ begin: (@escaping Answer<DatabaseError?>) -> Void
  ) async throws -> DatabaseReference {
    try await withCheckedThrowingContinuation {
      (continuation: CheckedContinuation<Void, any Error>) in
      begin { error, _ in
        if let error { continuation.resume(throwing: error) } else { continuation.resume() }
      }
    }
    return self
  }
}

extension RepositoryState {
  /// Tells of something that could not be done at all; the log, where nobody else wants to know.
  func fail(_ answer: Answer<DatabaseError?>?, _ error: DatabaseError) {
    if let answer { return answer(error, self) }
    options.logger.warning(
      "nothing was written, and there is no completion function", metadata: ["error": "\(error)"])
  }
}
