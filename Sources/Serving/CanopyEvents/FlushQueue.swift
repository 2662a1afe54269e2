package import NIOCore

/// The connections of one event loop that have something to send. Use it on that loop only.
package final class FlushQueue {
  private let loop: any EventLoop
  private let afterFlushing: () -> Void
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var connections: [any Flushable] = []
  /// The connections of the task under way. Both arrays keep their memory for the next tasks.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var due: [any Flushable] = []

  /// - Parameter afterFlushing: called when all connections that were due are flushed.
  package init(loop: any EventLoop, afterFlushing: @escaping () -> Void) {
    self.loop = loop
    self.afterFlushing = afterFlushing
  }

  /// Flushes a connection when the tasks that wait on the loop now are done, so that the replies and events
  /// of several commits go out together. Does nothing if it is in the queue already.
  package func append(_ connection: any Flushable) {
    loop.assertInEventLoop()
    guard !connection.waitsForFlush else { return }
    connection.waitsForFlush = true
    connections.append(connection)
    guard connections.count == 1 else { return }
    loop.assumeIsolated().execute { [self] in
      swap(&due, &connections)
      // The count stays the same: the connections that are appended meanwhile go into the other array.
      for index in due.indices {
        let connection = due[index]
        connection.waitsForFlush = false
        connection.flush()
      }
      due.removeAll(keepingCapacity: true)
      afterFlushing()
    }
  }
}

/// A connection that has something to send.
package protocol Flushable: AnyObject {
  /// Whether it is in a `FlushQueue`. Only the queue sets it.
  var waitsForFlush: Bool { get set }
  /// Sends it.
  func flush()
}
