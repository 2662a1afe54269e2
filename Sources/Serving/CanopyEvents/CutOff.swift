internal import CanopyEngine
package import CanopySession
package import Logging
package import NIOCore

/// The event that precedes a close that drops the unsent output of the connection.
package struct CutOff: Sendable {
  package init() {}
}

/// Closes the socket of a connection that is cut off: TLS, which stands behind this handler, would wait for the client.
///
/// The handler is the first one of a pipeline with TLS.
final class CutOffClose: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    if event is CutOff { return context.close(promise: promise) }
    context.triggerUserOutboundEvent(event, promise: promise)
  }
}

extension Channel {
  /// The remote network; nil for this machine. See `TurnGroup.network`.
  var network: String? {
    Operations.turns(of: ObjectIdentifier(self), at: remoteAddress?.ipAddress ?? "local").network
  }

  /// Closes the connection at once, and drops the output that the socket has not taken.
  package func cutOff() {
    triggerUserOutboundEvent(CutOff(), promise: nil)
    close(promise: nil)
  }

  /// Closes the connection at once because the server is short of memory, and logs that. Nothing happens if the
  /// connection has ended.
  package func cutOffForMemory(_ lines: EndedConnectionLines, _ logger: Logger) {
    guard isActive else { return }
    lines.add(
      "a connection was cut off because the server is short of memory",
      ["from": "\(remoteAddress?.ipAddress ?? "local")"], to: logger)
    cutOff()
  }
}

extension ChannelHandlerContext {
  /// Closes the connection at once, and drops the output that the socket has not taken.
  package func cutOff() {
    triggerUserOutboundEvent(CutOff(), promise: nil)
    close(promise: nil)
  }
}

extension MemoryBudget {
  /// Opens the share of a connection.
  ///
  /// - Parameters:
  ///   - loop: the event loop of the connection.
  ///   - network: the remote network: see `TurnGroup.network`.
  ///   - end: ends the connection, because the budget has chosen it. Called on the loop, and never within a report: the
  ///     connection that reports may be changing the state that its end changes as well.
  package func open(
    on loop: any EventLoop, network: String?, end: @escaping @Sendable () -> Void
  ) -> Share {
    open(network: network) { loop.execute(end) }
  }

  /// Opens a share of a connection that is cut off if the budget chooses it.
  package func open(of channel: any Channel, _ logger: Logger) -> Share {
    open(on: channel.eventLoop, network: channel.network) { [lines] in
      channel.cutOffForMemory(lines, logger)
    }
  }
}
