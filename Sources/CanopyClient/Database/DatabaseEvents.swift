internal import CanopyTree

/// One event of a query.
public struct DatabaseEvent: Sendable {
  /// What happened.
  public let type: DataEventType
  /// The child that it happened to; for a value, the whole.
  public let snapshot: DataSnapshot
  /// The key of the child before it in the query's order; nil for the first, for one that was removed, and
  /// for values.
  public let previousSiblingKey: String?
}

/// Events as an asynchronous sequence. Canopy's own addition. Independent of the callback queue. A sequence
/// ends when all observers of its query, or of its location, are removed.
extension DatabaseQuery {
  /// The value, now and whenever it has changed.
  ///
  /// Observes from when this is asked for until the iteration ends or its task is cancelled, or until
  /// nobody holds the sequence. Who takes longer than the values come gets the newest, not all. Throws a
  /// `DatabaseError` when the query means nothing, or is not, or no longer, allowed.
  public var values: AsyncThrowingStream<DataSnapshot, any Error> {
    AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      observe(.value, continuation) { $0.snapshot }
    }
  }

  /// Events of some kinds, in the order in which they happen; all about children if none are named.
  ///
  /// Observes from when this is called until the iteration ends or its task is cancelled. Events that were
  /// not taken yet are kept, however many there are. Throws a `DatabaseError` when the query means nothing,
  /// or is not, or no longer, allowed.
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
    _ element: @escaping (Observation) -> Element
  ) {
    let earlier = continuation.onTermination
    let handle = add(
      type, isOnce: false, delivery: .direct, removal: { continuation.finish() },
      { continuation.yield(element($0)) },
      { continuation.finish(throwing: $0) })
    continuation.onTermination = { reason in
      earlier?(reason)
      self.removeObserver(withHandle: handle)
    }
  }
}
