internal import CanopyEvents
internal import CanopySession
internal import NIOCore

/// The state that the realtime connections of one event loop share. Use it on that loop only.
final class RealtimeLoop: LoopServices {
  let configuration: RealtimeConnections.Configuration
  private let number: Int
  private let startedAt: Int64
  private var connections = 0

  init(
    _ operations: Operations, _ configuration: RealtimeConnections.Configuration,
    loop: any EventLoop, number: Int
  ) {
    self.configuration = configuration
    self.number = number
    startedAt = operations.now()
    super.init(operations, protocolName: "realtime", loop: loop, now: configuration.now)
  }

  /// Returns a text that identifies a connection. It is not a secret: clients show it to people who look for a
  /// connection in a log.
  func nextSessionID() -> String {
    connections += 1
    return "\(startedAt)-\(number)-\(connections)"
  }
}
