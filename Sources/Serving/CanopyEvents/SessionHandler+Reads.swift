internal import CanopyEngine
internal import CanopyMetrics
package import CanopySession
internal import CanopyTree
package import CanopyWire
package import NIOCore

/// Reads: at once if the session allows it; after the earlier requests, and after the events that led to the version that
/// they read; and those that take long, on another thread.
extension SessionHandler {
  /// Carries out a read if the session allows it at once. Returns whether it was carried out, or has begun.
  package final func readIfIdle(
    _ context: ChannelHandlerContext, _ request: ReadRequest
  ) -> Bool {
    guard session.readsAtOnce(request) else { return false }
    read(context, request)
    return true
  }

  /// Carries out a read that has begun, or begins it on another thread if it takes long.
  final func read(
    _ context: ChannelHandlerContext, _ request: ReadRequest,
    _ measurement: RequestMetrics.Measurement?
  ) {
    // The events that led to the snapshot go out first.
    let isCurrent = drainEvents()
    if isCurrent, clientProtocol?.readAtOnce(context, request) == true {
      client.hasSucceeded = true
      if let measurement { services.metrics.end(measurement) }
      return
    }
    let slot = session.postponeRead(request)
    underWay.measurements[slot] = measurement
    if isCurrent {
      readLong(context, request, slot)
    } else {
      wait(for: .read(request, slot))
    }
  }

  /// Carries out a read that has a slot, in the version of the tree up to which the events are sent. Its reply goes to
  /// `finish`, now or later. No other request is under way.
  final func read(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot, in root: Node
  ) {
    guard session.answersNow(request) else {
      return finish(slot, Session.Completion(.json(.null)))
    }
    if let reply = operations.read(request, as: session.identity, in: root) {
      session.markReplyAsCurrent()
      scheduled.turn.noteReply(bytes: reply.valueBytes)
      finish(slot, Session.Completion(reply))
    } else {
      readLong(context, request, slot)
    }
  }

  /// Appends the reply to a read to the output.
  ///
  /// - Parameter body: gets the user of the connection, the inbox, which has the snapshot, and the output. Returns whether
  ///   it has appended a reply.
  /// - Returns: the result of `body`.
  package final func appendReply(
    _ context: ChannelHandlerContext, _ body: (Identity, LoopInbox, inout LineOutput) -> Bool
  ) -> Bool {
    let before = output.byteCount
    guard body(session.identity, hub.inbox, &output) else { return false }
    scheduled.turn.noteReply(bytes: output.byteCount - before)
    noteUnsent(context)
    return true
  }

  /// Carries out a read after the earlier writes of the connection. For the administrator, keeps the index
  /// that the read needs.
  final func orderedRead(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    guard case .administrator = session.identity else { return readNow(context, request, slot) }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    underWay.tasks[slot] = Task { [operations] in
      await operations.prepare(request)
      loop.execute {
        let (handler, context) = bound.value
        handler.readNow(context, request, slot)
        handler.advance(context)
      }
    }
  }

  /// Carries out a read when the node has a commit.
  final func readLater(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot,
    atLeast sequence: Int64
  ) {
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    let outcome = pendingOutcome(context, slot)
    underWay.tasks[slot] = Task { [operations] in
      do {
        try await operations.engine.wait(for: sequence, atMost: Operations.atLeastMax)
      } catch {
        return outcome.complete(Session.Completion(operations.wireError(error)))
      }
      loop.execute {
        let (handler, context) = bound.value
        handler.orderedRead(context, request, slot)
        handler.advance(context)
      }
    }
  }

  private final func readNow(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    hub.inbox.release()
    if !drainEvents() { return wait(for: .read(request, slot)) }
    read(context, request, slot, in: hub.inbox.snapshot.root)
  }

  /// Carries out a read that may take long on another thread.
  package final func readLong(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    let outcome = pendingOutcome(context, slot)
    let loop = context.eventLoop
    let handler = NIOLoopBound(self, eventLoop: loop)
    underWay.tasks[slot] = Task { [operations, identity = session.identity, turns = client.turns] in
      let reply = await operations.longRead(request, as: identity, turns: turns) {
        await withCheckedContinuation { continuation in
          loop.execute { continuation.resume(returning: handler.value.takeRoot()) }
        }
      } after: {
        await withCheckedContinuation { continuation in
          loop.execute { handler.value.takeRootAfterEvents { continuation.resume(returning: $0) } }
        }
      }
      outcome.complete(Session.Completion(reply))
    }
  }

  /// Returns the root of the present tree; nil if events that led to it are to be sent before.
  private func takeRoot() -> Node? {
    assertInEventLoop()
    if !subscribers.isEmpty {
      guard !session.isBehind, let snapshot = hub.takeSnapshot(), !session.isBehind else {
        return nil
      }
      return snapshot.root
    }
    defer { hub.inbox.release() }
    return hub.inbox.snapshot.root
  }

  /// Calls a closure with the root of the present tree, when the events that led to it are sent.
  private func takeRootAfterEvents(_ body: @escaping (Node) -> Void) {
    if let root = takeRoot() { return body(root) }
    wait(for: .longRead(body))
  }
}
