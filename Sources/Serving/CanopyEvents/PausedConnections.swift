internal import CanopyEngine

/// The connections of an event loop with subscriptions that pause, because their authorizations are late.
///
/// A reply must not precede the events before it. So the requests of such a connection wait until its subscriptions go on
/// or end.
struct PausedConnections {
  private struct Paused {
    var subscriptions = 0
    var waiters: [(Snapshot) -> Void] = []
  }

  private var connections: [ObjectIdentifier: Paused] = [:]

  /// Whether a connection has subscriptions that pause.
  func contains(_ connection: any Subscriber) -> Bool {
    !connections.isEmpty && connections[ObjectIdentifier(connection)] != nil
  }

  /// Adds a subscription of a connection.
  mutating func add(_ connection: any Subscriber) {
    connections[ObjectIdentifier(connection), default: Paused()].subscriptions += 1
  }

  /// Adds a closure that waits for the subscriptions of a connection. Returns whether any of them pauses.
  mutating func wait(
    _ connection: any Subscriber, _ body: @escaping (Snapshot) -> Void
  ) -> Bool {
    let id = ObjectIdentifier(connection)
    guard connections[id] != nil else { return false }
    connections[id]?.waiters.append(body)
    return true
  }

  /// Removes a subscription of a connection. Returns the closures that waited for the last one.
  mutating func remove(_ connection: any Subscriber) -> [(Snapshot) -> Void] {
    let id = ObjectIdentifier(connection)
    connections[id]?.subscriptions -= 1
    guard let paused = connections[id], paused.subscriptions <= 0 else { return [] }
    connections[id] = nil
    return paused.waiters
  }
}
