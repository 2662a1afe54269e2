internal import CanopyTree
internal import Synchronization

/// Where an observer's calls come: on the database's callback queue, or at once, for what only hands
/// on.
enum Delivery: Sendable {
  case callbackQueue
  case direct
}

/// A function of the application that is called one call at a time, in order.
// Unchecked: an observer's function need not be Sendable, as in the original, so that one that is written
// in an actor's code may use the actor. It is called on the callback queue alone, which is the main queue
// unless the application chose another. Those of the library, which are called at once, are Sendable in
// all but their type: they resume a continuation, or feed a stream.
struct Callback<Argument>: @unchecked Sendable {
  let body: (Argument) -> Void
}

/// What an observer gets.
struct Observation {
  var snapshot: DataSnapshot
  var previousSiblingKey: String?
}

/// One observer.
final class Registration: Sendable {
  let query: DatabaseQuery
  let spec: QuerySpec
  /// Nil for one that only keeps data synchronised.
  let type: DataEventType?
  let isOnce: Bool
  let delivery: Delivery
  let event: Callback<Observation>
  let cancel: Callback<DatabaseError>?
  /// Tells who waits for an event that it was removed, and that none comes.
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

  /// Ends it: what is still on its way to it does not arrive.
  ///
  /// - Returns: whether it had not ended before.
  @discardableResult
  func end() -> Bool {
    !isOver.exchange(true, ordering: .acquiringAndReleasing)
  }

  /// Ends it because the application removes it.
  func remove() {
    if end() { removal?() }
  }

  /// Tells the observer, unless it has ended.
  func tell(_ observation: Observation) {
    if isOnce {
      if end() { event.body(observation) }
    } else if !isOver.load(ordering: .acquiring) {
      event.body(observation)
    }
  }
}
