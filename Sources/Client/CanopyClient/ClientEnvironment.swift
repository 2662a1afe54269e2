package import NIOCore
internal import NIOPosix
internal import Synchronization

/// The external dependencies of a database: time, randomness and timers. Tests supply their own.
public struct ClientEnvironment: Sendable {
  /// Returns the time in milliseconds since 1970.
  public var now: @Sendable () -> Int64
  /// Returns random words, for keys, the name of the client, and the jitter of reconnection.
  public var random: @Sendable () -> UInt64

  /// Calls a function after a number of milliseconds, on any thread.
  public var schedule: @Sendable (Int64, @escaping @Sendable () -> Void) -> Void

  /// Opens connections in place of the operating system's sockets, in a simulation; else nil.
  package var connector: (any Connector)?

  /// Creates an environment.
  public init(
    now: @escaping @Sendable () -> Int64, random: @escaping @Sendable () -> UInt64,
    schedule: @escaping @Sendable (Int64, @escaping @Sendable () -> Void) -> Void
  ) {
    self.now = now
    self.random = random
    self.schedule = schedule
  }

  /// The machine's clock and the system's source of randomness.
  public static let live = ClientEnvironment(
    now: { Int64(Date().timeIntervalSince1970 * 1000) },
    random: {
      var source = SystemRandomNumberGenerator()
      return source.next()
    },
    schedule: { milliseconds, body in
      let loop = MultiThreadedEventLoopGroup.singleton.any()
      loop.scheduleTask(in: .milliseconds(milliseconds), body)
    })
}

/// Opens connections without sockets.
package protocol Connector: Sendable {
  /// Opens a connection.
  ///
  /// - Parameter initializer: adds the handlers, on the loop of the channel.
  /// - Returns: the channel, on its loop, before it is active.
  func connect(
    to host: String, port: Int, timeoutMilliseconds: Int64,
    initializer: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
  ) -> EventLoopFuture<any Channel>
}

/// An estimate of the server's clock.
final class ServerClock: Sendable {
  private let environment: ClientEnvironment
  private let offsetBox = Atomic<Int64>(0)

  init(_ environment: ClientEnvironment) {
    self.environment = environment
  }

  /// The local time in milliseconds since 1970.
  var local: Int64 { environment.now() }

  /// The estimated server time in milliseconds since 1970.
  var now: Int64 { environment.now() &+ offset }

  /// The server's time minus the local time, in milliseconds; 0 before the first connection.
  var offset: Int64 { offsetBox.load(ordering: .relaxed) }

  /// Updates the offset from a server time, which is assumed to be halfway between request and
  /// reply.
  func learn(server: Int64, asked: Int64, answered: Int64) {
    let middle = asked &+ (answered &- asked) / 2
    offsetBox.store(server &- middle, ordering: .relaxed)
  }
}
