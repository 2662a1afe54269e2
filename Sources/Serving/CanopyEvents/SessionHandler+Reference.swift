internal import CanopySession
package import NIOCore

/// A reference to a connection for the closures of others. It keeps the connection until that has ended.
///
/// A weak reference would make each strong one slower, and a request uses dozens.
package final class ConnectionReference {
  /// The connection; nil when it has ended.
  package private(set) final var handler: SessionHandler?

  fileprivate init(_ handler: SessionHandler?) {
    self.handler = handler
  }

  /// Forgets the connection.
  final func end() {
    handler = nil
  }
}

extension SessionHandler {
  /// Returns the reference to the connection.
  package final func reference() -> NIOLoopBound<ConnectionReference> {
    assertInEventLoop()
    let isOpen = context != nil && !session.isLost
    let reference = ownReference ?? ConnectionReference(isOpen ? self : nil)
    // `endReference` has run for a connection that ended; a new reference must not keep it.
    if isOpen { ownReference = reference }
    return NIOLoopBound(reference, eventLoop: services.loop)
  }

  /// Ends the reference, because the connection has ended.
  final func endReference() {
    ownReference?.end()
    ownReference = nil
  }
}
