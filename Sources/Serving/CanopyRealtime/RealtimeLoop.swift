internal import CanopyEvents
internal import CanopySession
internal import NIOCore

/// The state that the realtime connections of one event loop share. Use it on that loop only.
final class RealtimeLoop: LoopServices {
  let configuration: RealtimeConnections.Configuration
  /// The connections of all loops.
  let sessions: RealtimeSessions
  /// The state for the default namespace; nil if this is it.
  private let home: RealtimeLoop?
  /// The state for the other namespaces.
  private let others: NamespaceLocals<RealtimeLoop>

  init(
    _ operations: Operations, _ configuration: RealtimeConnections.Configuration,
    _ sessions: RealtimeSessions, loop: any EventLoop, encoded: EncodedNodes
  ) {
    self.configuration = configuration
    self.sessions = sessions
    home = nil
    others = NamespaceLocals(loop: loop)
    super.init(
      operations, protocolName: "realtime", loop: loop, encoded: encoded, now: configuration.now)
  }

  private init(_ operations: Operations, of home: RealtimeLoop) {
    configuration = home.configuration
    sessions = home.sessions
    self.home = home
    others = NamespaceLocals(loop: home.loop)
    super.init(operations, sharing: home)
  }

  /// Returns the state for a namespace. This must be the state for the default one.
  ///
  /// - Parameter operations: the operations on the namespace, of which the caller has a lease.
  func loop(of operations: Operations) -> RealtimeLoop {
    if operations === self.operations { return self }
    return others.value(of: operations) { RealtimeLoop(operations, of: self) }
  }

  /// Returns the ID of a new connection.
  func makeSessionID() -> RealtimeSessionID { RealtimeSessionID(random: operations.randomBytes) }
}
