internal import CanopyTree

/// One event of a query.
public struct DatabaseEvent: Sendable {
  /// The type of the event.
  public let type: DataEventType
  /// The snapshot of the child, or of the whole location for a value.
  public let snapshot: DataSnapshot
  /// The key of the preceding child in the query's order; nil for the first child, for a removed
  /// one, and for values.
  public let previousSiblingKey: String?
}

/// Events as asynchronous sequences. Canopy's own addition. They do not use the callback queue. A
/// sequence ends when all observers of its query, or of its location, are removed.
extension DatabaseQuery {
  /// The value, now and after each change.
  ///
  /// Observes from the access to this property until the iteration ends, its task is cancelled, or
  /// the sequence is released. A slow consumer receives the newest value and skips older ones.
  /// Throws a `DatabaseError` if the query is invalid, or if the rules do not allow it (any
  /// longer).
  public var values: AsyncThrowingStream<DataSnapshot, any Error> {
    AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      observe(.value, continuation) { $0.snapshot }
    }
  }

  /// Returns events of some types, in order; of all child types if none is given.
  ///
  /// Observes from this call until the iteration ends or its task is cancelled. Keeps all events
  /// that were not consumed, without a bound. Throws a `DatabaseError` if the query is invalid, or
  /// if the rules do not allow it (any longer).
  public func events(
    _ types: DataEventType...
  ) -> AsyncThrowingStream<DatabaseEvent, any Error> {
    let types = types.isEmpty ? [.childAdded, .childChanged, .childMoved, .childRemoved] : types
    return AsyncThrowingStream { continuation in
      for type in types {
        observe(type, continuation) {
          DatabaseEvent(
            type: type, snapshot: $0.snapshot, previousSiblingKey: $0.previousSiblingKey)
        }
      }
    }
  }

  private func observe<Element: Sendable>(
    _ type: DataEventType, _ continuation: AsyncThrowingStream<Element, any Error>.Continuation,
    _ element: @escaping @Sendable (Observation) -> Element
  ) {
    let earlier = continuation.onTermination
    let handle = add(
      type, isOnce: false, delivery: .direct, removal: { continuation.finish() },
      Callback { _ = continuation.yield(element($0)) },
      Callback { continuation.finish(throwing: $0) })
    continuation.onTermination = { reason in
      earlier?(reason)
      self.removeObserver(withHandle: handle)
    }
  }
}
