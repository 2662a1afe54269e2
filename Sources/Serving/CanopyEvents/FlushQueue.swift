package import NIOCore

/// The connections of one event loop that have something to send. Use it on that loop only.
package final class FlushQueue {
  private let loop: any EventLoop
  private let afterFlushing: () -> Void
  private var connections: [any Flushable] = []

  /// - Parameter afterFlushing: called when all connections that were due are flushed.
  package init(loop: any EventLoop, afterFlushing: @escaping () -> Void) {
    self.loop = loop
    self.afterFlushing = afterFlushing
  }

  /// Flushes a connection when the tasks that wait on the loop now are done, so that the replies and events
  /// of several commits go out together.
  package func append(_ connection: any Flushable) {
    loop.assertInEventLoop()
    connections.append(connection)
    guard connections.count == 1 else { return }
    loop.assumeIsolated().execute { [self] in
      var due: [any Flushable] = []
      swap(&due, &connections)
      for connection in due { connection.flush() }
      afterFlushing()
    }
  }
}

/// A connection that has something to send.
package protocol Flushable: AnyObject {
  /// Sends it.
  func flush()
}
