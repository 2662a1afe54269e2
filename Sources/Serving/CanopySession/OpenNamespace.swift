internal import CanopyEngine
internal import CanopyWire
internal import Logging

/// A namespace with a running engine.
struct OpenNamespace: Sendable {
  let operations: Operations
  private let running: Task<Void, Never>
  /// Renews the lease of a node; nil if no other node has the namespace.
  private let leasing: Task<Void, Never>?
  private let parts: NamespaceParts

  /// Opens a namespace, runs its engine, and makes the on-disconnect writes that its last use has left. If they cannot
  /// be made now, it opens all the same: see `Operations.carryOutAbandoned`.
  static func open(
    _ name: NamespaceName, from source: any NamespaceSource, _ home: Operations
  ) async throws -> OpenNamespace {
    let parts = try await source.open(name)
    let operations = Operations(namespace: name, parts, of: home)
    let running = Task { await parts.engine.run() }
    do { try await operations.carryOutAbandoned() } catch {
      let namespace = OpenNamespace(
        operations: operations, running: running, leasing: nil, parts: parts)
      await namespace.close(isShutdown: false)
      throw error
    }
    let leasing = operations.hasLease ? Task { await operations.keepLease() } : nil
    return OpenNamespace(
      operations: operations, running: running, leasing: leasing, parts: parts)
  }

  /// Completes the accepted writes, and closes the files.
  ///
  /// - Parameter isShutdown: whether the event loops, which the handlers of the operations use, have ended.
  func close(isShutdown: Bool) async {
    leasing?.cancel()
    parts.engine.stop()
    await running.value
    await leasing?.value
    let handlers = operations.takeCloseHandlers()
    if !isShutdown { for handler in handlers { handler() } }
    do { try await parts.close() } catch {
      operations.logger.error(
        "a namespace cannot be closed",
        metadata: ["namespace": "\(operations.namespace)", "error": "\(error)"])
    }
  }
}
