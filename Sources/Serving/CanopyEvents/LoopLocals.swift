package import NIOCore
internal import Synchronization

/// Values that the connections of one event loop share: one for each loop, created at its first use.
package final class LoopLocals<Value: Sendable>: Sendable {
  private let make: @Sendable (any EventLoop) -> Value
  private let values = Mutex<[ObjectIdentifier: Value]>([:])

  package init(_ make: @escaping @Sendable (any EventLoop) -> Value) {
    self.make = make
  }

  /// Returns the value of a loop.
  package func value(of loop: any EventLoop) -> Value {
    values.withLock { values in
      if let value = values[ObjectIdentifier(loop)] { return value }
      let value = make(loop)
      values[ObjectIdentifier(loop)] = value
      return value
    }
  }
}
