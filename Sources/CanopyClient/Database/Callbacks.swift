internal import Dispatch
internal import Synchronization

/// The queue on which an application's functions are called, and their order.
final class Callbacks: Sendable {
  private let queueBox = Mutex(DispatchQueue.main)

  var queue: DispatchQueue {
    get { queueBox.withLock { $0 } }
    set { queueBox.withLock { $0 = newValue } }
  }

  /// Calls functions, one after the other, after all that were handed over before.
  func call(_ bodies: [@Sendable () -> Void]) {
    guard !bodies.isEmpty else { return }
    queue.async { for body in bodies { body() } }
  }
}
