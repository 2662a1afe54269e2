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
  ///
  /// - Parameter admit: adds the bytes of the tree to the bound. Returns whether they fit.
  /// - Throws: `TreeDoesNotFit`, and the error of the source or of the store.
  static func open(
    _ name: NamespaceName, from source: any NamespaceSource, _ home: Operations,
    admit: (_ bytes: Int) async -> Bool
  ) async throws -> OpenNamespace {
    let parts = try await source.open(name)
    let treeBytes = home.tree.map { _ in TreeCount.bytesAtStart(of: parts.engine.root) }
    if let treeBytes, await !admit(treeBytes) {
      parts.engine.stop()
      await parts.engine.run()
      try await parts.close()
      throw TreeDoesNotFit(bytes: treeBytes)
    }
    let operations = Operations(namespace: name, parts, treeBytes: treeBytes, of: home)
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
    await operations.endedWritesSubmitted()
    parts.engine.stop()
    await running.value
    await leasing?.value
    let handlers = operations.takeCloseHandlers()
    if !isShutdown { for handler in handlers { handler() } }
    operations.treeCount?.end()
    do { try await parts.close() } catch {
      operations.logger.error(
        "a namespace cannot be closed",
        metadata: ["namespace": "\(operations.namespace)", "error": "\(error)"])
    }
  }
}

/// The tree of a namespace does not fit in the memory for data.
struct TreeDoesNotFit: Error, CustomStringConvertible {
  let bytes: Int

  var description: String {
    "its tree takes \(bytes) bytes of memory, which do not fit in --tree-max beside the data in use"
  }
}
