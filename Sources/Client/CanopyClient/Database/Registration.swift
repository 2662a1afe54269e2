internal import CanopyTree
internal import Dispatch
internal import Synchronization

/// The delivery of an observer's calls: on the database's callback queue, or directly, for
/// functions that only forward.
enum Delivery: Sendable {
  case callbackQueue
  case direct
}

/// The arguments of an observer's call.
struct Observation: Sendable {
  var snapshot: DataSnapshot
  var previousSiblingKey: String?
}

/// One observer.
final class Registration: Sendable {
  let query: DatabaseQuery
  let spec: QuerySpec
  /// The type of the observed events; nil to only keep data synchronized.
  let type: DataEventType?
  let isOnce: Bool
  let delivery: Delivery
  let event: Callback<Observation>
  let cancel: Callback<DatabaseError>?
  /// Called if the observer is removed while a caller still waits for an event.
  let removal: (@Sendable () -> Void)?
  private let isOver = Atomic(false)

  init(
    _ query: DatabaseQuery, _ spec: QuerySpec, _ type: DataEventType?, isOnce: Bool,
    _ delivery: Delivery, event: Callback<Observation>, cancel: Callback<DatabaseError>?,
    removal: (@Sendable () -> Void)? = nil
  ) {
    self.query = query
    self.spec = spec
    self.type = type
    self.isOnce = isOnce
    self.delivery = delivery
    self.event = event
    self.cancel = cancel
    self.removal = removal
  }

  /// Ends the observer: calls on their way are dropped.
  ///
  /// - Returns: whether it had not ended before.
  @discardableResult
  func end() -> Bool {
    !isOver.exchange(true, ordering: .acquiringAndReleasing)
  }

  /// Whether it has ended.
  var hasEnded: Bool { isOver.load(ordering: .acquiring) }

  /// Ends the observer on behalf of the application.
  func remove() {
    if end() { removal?() }
  }

  /// Calls the observer, unless it has ended.
  func notify(_ observation: Observation) {
    if isOnce {
      if end() { event.body(observation) }
    } else if !hasEnded {
      event.body(observation)
    }
  }
}
