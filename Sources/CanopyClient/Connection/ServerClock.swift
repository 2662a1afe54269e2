internal import Synchronization

/// What is known of the server's clock: how far it is ahead of this machine's.
final class ServerClock: Sendable {
  private let environment: ClientEnvironment
  private let offsetBox = Atomic<Int64>(0)

  init(_ environment: ClientEnvironment) {
    self.environment = environment
  }

  /// Milliseconds since 1970 by this machine's clock.
  var local: Int64 { environment.now() }

  /// Milliseconds since 1970 by the server's clock, as far as it is known.
  var now: Int64 { environment.now() &+ offset }

  /// The server's time less this machine's, in milliseconds; 0 until there was a connection.
  var offset: Int64 { offsetBox.load(ordering: .relaxed) }

  /// Takes the server's time, which was told halfway between two moments of this machine's.
  func learn(server: Int64, asked: Int64, answered: Int64) {
    let middle = asked &+ (answered &- asked) / 2
    offsetBox.store(server &- middle, ordering: .relaxed)
  }
}
