internal import Synchronization

/// The use of a namespace by a request or a connection. The namespace stays open until `release`, or until the lease
/// is gone.
public final class NamespaceLease: Sendable {
  /// The operations on the namespace.
  public let operations: Operations
  private let whenReleased: Mutex<(@Sendable () -> Void)?>

  init(_ operations: Operations, whenReleased: (@Sendable () -> Void)?) {
    self.operations = operations
    self.whenReleased = Mutex(whenReleased)
  }

  deinit {
    release()
  }

  /// Ends the use. Later calls do nothing.
  public func release() {
    whenReleased.withLock { $0.take() }?()
  }
}
