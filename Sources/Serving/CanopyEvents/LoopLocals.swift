package import CanopySession
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

/// The values that the connections of one event loop share for each namespace but the default one. Use it on that
/// loop only.
///
/// A value is created at the first use of its namespace on the loop, and is dropped when the namespace is closed.
package final class NamespaceLocals<Value> {
  private let loop: any EventLoop
  private var values: [ObjectIdentifier: Value] = [:]

  package init(loop: any EventLoop) {
    self.loop = loop
  }

  /// The number of namespaces with a value.
  package var count: Int { values.count }

  /// Returns the value of an open namespace.
  ///
  /// - Parameter operations: the operations on the namespace. The caller has a lease of it.
  package func value(of operations: Operations, _ make: () -> Value) -> Value {
    loop.assertInEventLoop()
    // The identity is not used again while the value exists, because a value refers to its operations.
    let id = ObjectIdentifier(operations)
    if let value = values[id] { return value }
    let value = make()
    values[id] = value
    let bound = NIOLoopBound(self, eventLoop: loop)
    operations.onClose { [loop] in
      loop.execute { bound.value.values[id] = nil }
    }
    return value
  }
}
