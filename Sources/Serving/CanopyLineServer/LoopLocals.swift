internal import NIOCore
internal import Synchronization

/// What connections on one event loop share: one value for each loop, made when it is first asked for.
final class LoopLocals<Value: Sendable>: Sendable {
  private let make: @Sendable (any EventLoop) -> Value
  private let values = Mutex<[ObjectIdentifier: Value]>([:])

  init(_ make: @escaping @Sendable (any EventLoop) -> Value) {
    self.make = make
  }

  /// The value of a loop.
  func value(of loop: any EventLoop) -> Value {
    values.withLock { values in
      if let value = values[ObjectIdentifier(loop)] { return value }
      let value = make(loop)
      values[ObjectIdentifier(loop)] = value
      return value
    }
  }
}
