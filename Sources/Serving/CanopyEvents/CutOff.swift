package import CanopySession
package import NIOCore

/// The event that precedes a close that drops the unsent output of the connection.
package struct CutOff: Sendable {
  package init() {}
}

extension Channel {
  /// Closes the connection at once, and drops the output that the socket has not taken.
  package func cutOff() {
    triggerUserOutboundEvent(CutOff(), promise: nil)
    close(promise: nil)
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
  ///   - end: ends the connection, because it holds the most. Called on the loop, and never within a report: the
  ///     connection that reports may be changing the state that its end changes as well.
  package func open(on loop: any EventLoop, end: @escaping @Sendable () -> Void) -> Share {
    open { loop.execute(end) }
  }
}
