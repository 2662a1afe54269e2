internal import CanopyTree
internal import Logging

/// Writing. A write takes effect locally at once; its completion reports whether the server has
/// committed it. A refused write is undone locally. Without a connection the completion waits for
/// one.
///
/// The `async` methods throw a `CancellationError` if their task is cancelled before the server has
/// answered. The write stays, as in Firebase: it is sent when there is a connection, and observers see it.
/// Only `Database.purgeOutstandingWrites()` withdraws it.
extension DatabaseReference {
  // MARK: Set

  /// Replaces the value of this location and of all below it; nil removes it.
  ///
  /// - Parameter value: nil, a bool, a number, a string, an array or a dictionary with strings as
  ///   keys, of Swift or of Foundation; may contain `ServerValue` placeholders.
  public func setValue(_ value: Any?) {
    set(value, nil, nil)
  }

  /// Replaces the value of this location.
  ///
  /// - Parameter block: receives nil when the server has committed it, else a `DatabaseError`.
  public func setValue(
    _ value: Any?,
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    set(value, nil, answer(block))
  }

  // Is disfavored, so that a closure after the value is a completion function, not a priority.
  /// Replaces the value of this location, with a priority: nil, a number or a string.
  @_disfavoredOverload
  public func setValue(_ value: Any?, andPriority priority: Any?) {
    set(value, .some(priority), nil)
  }

  /// Replaces the value of this location, with a priority.
  public func setValue(
    _ value: Any?, andPriority priority: Any?,
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    set(value, .some(priority), answer(block))
  }

  /// Replaces the value of this location. Returns when the server has committed it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the write stays.
  @discardableResult
  nonisolated(nonsending) public func setValue(_ value: Any?) async throws -> DatabaseReference {
    let write = write(value, nil)
    return try await finished { self.make(write, $0) }
  }

  // In asynchronous code the compiler prefers an asynchronous function, even a disfavored one. The type of
  // its priority accepts no closure. So there too, a closure after the value is a completion function.
  /// Replaces the value of this location, with a priority. Returns when the server has committed
  /// it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the write stays.
  @discardableResult
  nonisolated(nonsending) public func setValue(
    _ value: Any?, andPriority priority: (any Sendable)?
  ) async throws -> DatabaseReference {
    let write = write(value, .some(priority))
    return try await finished { self.make(write, $0) }
  }

  /// Replaces the value of this location, with a `ServerValue` placeholder as its priority. Returns
  /// when the server has committed it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the write stays.
  @discardableResult
  @_disfavoredOverload
  nonisolated(nonsending) public func setValue(
    _ value: Any?, andPriority priority: [AnyHashable: Any]
  ) async throws -> DatabaseReference {
    let write = write(value, .some(priority))
    return try await finished { self.make(write, $0) }
  }

  /// Replaces the value of this location by an `Encodable` value.
  ///
  /// As in Firebase, an unsigned integer above `Int64.max` is stored as the nearest `Double`.
  ///
  /// - Throws: the error of encoding it.
  public func setValue(from value: some Encodable) throws {
    set(try ValueEncoder.encode(value), nil, nil)
  }

  /// Replaces the value of this location by an `Encodable` value.
  ///
  /// - Parameter completion: receives nil when the server has committed it, else a `DatabaseError`.
  /// - Throws: the error of encoding it.
  public func setValue(
    from value: some Encodable,
    @_inheritActorContext completion: @escaping @Sendable @isolated(any) ((any Error)?) -> Void
  ) throws {
    set(try ValueEncoder.encode(value), nil, answer(Callback(of: completion)))
  }

  /// Replaces the value of this location by an `Encodable` value. Returns when the server has
  /// committed it.
  ///
  /// - Throws: the error of encoding it; `DatabaseError`; `CancellationError` if the task is cancelled, and the
  ///   write stays.
  @discardableResult
  nonisolated(nonsending) public func setValue(
    from value: some Encodable
  ) async throws -> DatabaseReference {
    let write = write(try ValueEncoder.encode(value), nil)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Remove

  /// Removes this location and all below it.
  public func removeValue() {
    set(nil, nil, nil)
  }

  /// Removes this location and all below it.
  public func removeValue(
    @_inheritActorContext completionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    set(nil, nil, answer(block))
  }

  /// Removes this location and all below it. Returns when the server has committed it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the write stays.
  @discardableResult
  nonisolated(nonsending) public func removeValue() async throws -> DatabaseReference {
    let write = write(nil, nil)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Update

  /// Sets several locations below this one, all or none; others stay unchanged. Keys may be paths;
  /// nil and `NSNull` remove.
  public func updateChildValues(_ values: [AnyHashable: Any]) {
    make(update(values), nil)
  }

  /// Sets several locations below this one, all or none.
  ///
  /// - Parameter block: receives nil when the server has committed them, else a `DatabaseError`.
  public func updateChildValues(
    _ values: [AnyHashable: Any],
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    make(update(values), answer(block))
  }

  /// Sets several locations below this one, all or none. Returns when the server has committed
  /// them.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the write stays.
  @discardableResult
  nonisolated(nonsending) public func updateChildValues(
    _ values: [AnyHashable: Any]
  ) async throws -> DatabaseReference {
    let write = update(values)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Priority

  /// Changes the priority of this location: nil, a number or a string.
  public func setPriority(_ priority: Any?) {
    make(priorityWrite(priority), nil)
  }

  /// Changes the priority of this location.
  public func setPriority(
    _ priority: Any?,
    @_inheritActorContext withCompletionBlock block:
      @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) {
    make(priorityWrite(priority), answer(block))
  }

  /// Changes the priority of this location. Returns when the server has committed it.
  ///
  /// - Throws: `DatabaseError`; `CancellationError` if the task is cancelled, and the write stays.
  @discardableResult
  nonisolated(nonsending) public func setPriority(
    _ priority: Any?
  ) async throws -> DatabaseReference {
    let write = priorityWrite(priority)
    return try await finished { self.make(write, $0) }
  }

  // MARK: Creating writes

  private typealias WriteResult = Result<Write, DatabaseError>

  func set(_ value: Any?, _ priority: Any??, _ answer: Answer<DatabaseError?>?) {
    make(write(value, priority), answer)
  }

  private func write(_ value: Any?, _ priority: Any??) -> WriteResult {
    Result { () throws(DatabaseError) in
      let path = try writablePath()
      return try located { () throws(DatabaseError) in
        let value = try AnyValue.write(value, priority: priority)
        return try DatabaseError.wrap { () throws(TreeError) in
          try .set(Location(path), value)
        }
      }
    }
  }

  private func update(_ values: [AnyHashable: Any]) -> WriteResult {
    Result { () throws(DatabaseError) in
      let path = try writablePath()
      let changes = try changes(values)
      return try located { () throws(DatabaseError) in
        try DatabaseError.wrap { () throws(TreeError) in try .update(path, changes) }
      }
    }
  }

  func changes(
    _ values: [AnyHashable: Any]
  ) throws(DatabaseError) -> [(Location, WriteValue)] {
    var changes: [(Location, WriteValue)] = []
    for (key, value) in values {
      guard let text = key.base as? String else {
        throw DatabaseError(.invalidData, "the keys of an update must be strings; \(key) is not")
      }
      try located(at: text) { () throws(DatabaseError) in
        let location = try DatabaseError.wrap { () throws(TreeError) in try Location(text) }
        changes.append((location, try AnyValue.write(value)))
      }
    }
    return changes
  }

  /// Calls `body`, and adds the location to its error.
  ///
  /// - Parameter below: the path of the value below this location.
  func located<Value>(
    at below: String = "", _ body: () throws(DatabaseError) -> Value
  ) throws(DatabaseError) -> Value {
    do throws(DatabaseError) { return try body() } catch {
      throw error.inPath(below.isEmpty ? target.text : below)
    }
  }

  private func priorityWrite(_ priority: Any?) -> WriteResult {
    Result { () throws(DatabaseError) in
      let location = Location(try writablePath(), isPriority: true)
      let value = try AnyValue.writePriority(priority)
      return try DatabaseError.wrap { () throws(TreeError) in try .set(location, value) }
    }
  }

  private func make(_ write: WriteResult, _ answer: Answer<DatabaseError?>?) {
    database.repository.write { state in
      switch write {
      case .success(let write): state.write(write, completion: answer)
      case .failure(let error): state.fail(answer, error)
      }
    }
  }

  /// Returns a receiver that calls a function of the application in its turn.
  func answer(
    _ block: @escaping @Sendable @isolated(any) ((any Error)?, DatabaseReference) -> Void
  ) -> Answer<DatabaseError?> {
    let callback = Callback(of: block)
    return { error, state in state.call(callback, (error, self)) }
  }

  func answer(_ callback: Callback<(any Error)?>) -> Answer<DatabaseError?> {
    { error, state in state.call(callback, error) }
  }

  /// Starts an operation and returns when it has finished, or throws if the task is cancelled.
  nonisolated(nonsending) func finished(
    _ begin: (@escaping Answer<DatabaseError?>) -> Void
  ) async throws -> DatabaseReference {
    try await Waiter<Void>.result { end in
      begin { error, _ in
        if let error { end(.failure(error)) } else { end(.success(())) }
      }
    }
    return self
  }
}

extension RepositoryState {
  /// Reports the failure of an operation that could not start: to its receiver, or to the log.
  func fail(_ answer: Answer<DatabaseError?>?, _ error: DatabaseError) {
    if let answer { return answer(error, self) }
    options.logger.warning(
      "nothing was written, and there is no completion function", metadata: ["error": "\(error)"])
  }
}

/// Placeholders for values that the server resolves when it applies a write.
public enum ServerValue {
  /// Returns the placeholder for the server's time in milliseconds since 1970. Until the server
  /// applies the write, local events use the estimated server time.
  public static func timestamp() -> [AnyHashable: Any] {
    [".sv": "timestamp"]
  }

  /// Returns the placeholder for the current number plus `delta`; `delta` if the current value is
  /// not a number.
  public static func increment(_ delta: NSNumber) -> [AnyHashable: Any] {
    [".sv": ["increment": delta]]
  }
}
