package import CanopyEvents
package import CanopySession
package import NIOCore

/// The connections of the line protocol on channels that another listener has accepted. Safe to use from any thread.
package final class LineConnections: Sendable {
  private let contexts: LoopLocals<NIOLoopBoundBox<LoopContext>>

  /// - Parameter encoded: the texts that the connections share with other protocols on their loop; nil for their own.
  package init(_ operations: Operations, encoded: LoopLocals<EncodedNodes>? = nil) {
    contexts = LineServer.contexts(operations, encoded: encoded)
  }

  /// Adds the handler of the line protocol, which takes and sends bytes, at the end of a pipeline.
  ///
  /// Call it on the channel's event loop. The channel must be active, allow half-closure, and count as a connection of
  /// its client. The listener must have charged the memory that the connection takes while it is idle.
  package func addHandler(to channel: any Channel) throws {
    let handler = LineHandler(
      shared: contexts.value(of: channel.eventLoop).value, isWebSocket: true)
    try channel.pipeline.syncOperations.addHandler(handler)
  }

  /// Adds the handlers of a plain connection as the listener does, for a simulation. Call it on the channel's loop.
  package func addHandlers(to channel: any Channel) throws {
    let shared = contexts.value(of: channel.eventLoop).value
    try channel.pipeline.syncOperations.addHandlers(shared.handlers())
  }
}
