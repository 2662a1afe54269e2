package import CanopyEngine
package import CanopySession
internal import CanopyTree
package import CanopyWire
package import NIOCore

/// Requests: long texts, turns, reads in order, and outcomes from other threads.
extension SessionHandler {
  /// Decodes a long text on another thread, and passes the result to `receive`. Meanwhile the connection decodes
  /// nothing else and begins no request.
  ///
  /// The memory of the result is charged before. If there is no room for it, `receive` gets `WireError.noMemory` at once.
  ///
  /// - Parameter decode: gets the text, and the bytes that are charged for its result.
  package final func decodeBeside<Decoded: Sendable>(
    _ context: ChannelHandlerContext, _ text: UnsafeRawBufferPointer,
    _ decode: @escaping @Sendable (UnsafeRawBufferPointer, _ bytes: Int) throws -> Decoded,
    receive: @escaping (Result<Decoded, any Error>) -> Void
  ) {
    assertInEventLoop()
    let bytes = Request.memoryBytes(text: text)
    keptInput.bytesBeside = text.count + bytes
    guard admitInput() else {
      keptInput.bytesBeside = 0
      noteInput()
      return receive(.failure(WireError.noMemory))
    }
    let text = Array(text)
    session.pause(true)
    let bound = NIOLoopBound((self, context, receive), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    scheduled.decoding = Task { [operations, turns = client.turns] in
      let decoded: Result<Decoded, any Error>
      do {
        decoded = .success(
          try await operations.decodeBeside(bytes: text.count, turns) {
            try text.withUnsafeBytes { try decode($0, bytes) }
          })
      } catch {
        decoded = .failure(error)
      }
      loop.execute {
        let (handler, context, receive) = bound.value
        handler.scheduled.decoding = nil
        handler.keptInput.bytesBeside = 0
        handler.session.pause(false)
        receive(decoded)
        handler.advance(context)
      }
    }
  }

  /// Counts a request. At the end of the connection's turn the session pauses: no further request begins
  /// before the next turn.
  ///
  /// - Parameter bytes: the length of its text if the text is yet to be decoded; else 0.
  package final func countWork(bytes: Int = 0) {
    guard services.work.count(&scheduled.turn, bytes: bytes), !session.isPaused else { return }
    session.pause(true)
    takeTurnLater()
  }

  // MARK: Input

  /// Whether input is to be decoded. If so, later reads see all commits that the client may know of, although the loop
  /// has not read them yet.
  package final func beginInput() -> Bool {
    assertInEventLoop()
    guard session.takesInput, !endsWithLogin() else { return false }
    hub.inbox.release()
    return true
  }

  /// Whether the session accepts requests now.
  package final var wantsInput: Bool { session.wantsInput }

  // MARK: Reads

  /// Carries out a read if the session allows it at once. Returns whether it was carried out, or has begun.
  package final func readIfIdle(
    _ context: ChannelHandlerContext, _ request: ReadRequest
  ) -> Bool {
    guard session.readsAtOnce(request) else { return false }
    read(context, request)
    return true
  }

  /// Appends the reply to a read to the output.
  ///
  /// - Parameter body: gets the user of the connection, the inbox, which has the snapshot, and the output. Returns whether
  ///   it has appended a reply.
  /// - Returns: the result of `body`.
  package final func appendReply(
    _ context: ChannelHandlerContext, _ body: (Identity, LoopInbox, inout LineOutput) -> Bool
  ) -> Bool {
    guard body(session.identity, hub.inbox, &output) else { return false }
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
    tasks[slot] = Task { [operations] in
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
    tasks[slot] = Task { [operations] in
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
    if !drainEvents() { return readAfterEvents(request, slot) }
    read(context, request, slot, in: hub.inbox.snapshot.root)
  }

  /// Carries out a read that has a slot when the events before it are sent.
  final func readAfterEvents(_ request: ReadRequest, _ slot: Session.Slot) {
    waitForEvents { [self] context, snapshot in read(context, request, slot, in: snapshot.root) }
  }

  /// Carries out a read that may take long on another thread.
  package final func readLong(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    let outcome = pendingOutcome(context, slot)
    let loop = context.eventLoop
    let handler = NIOLoopBound(self, eventLoop: loop)
    tasks[slot] = Task { [operations, identity = session.identity, turns = client.turns] in
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
    waitForHub { body($0.root) }
  }

  /// Calls a closure when the events are sent that the hub has now, with the snapshot after them, unless the connection
  /// has ended. Until then the connection begins no request and sends no reply.
  package final func waitForEvents(_ body: @escaping (ChannelHandlerContext, Snapshot) -> Void) {
    assertInEventLoop()
    session.beginWaitingForEvents()
    waitForHub { [self] snapshot in
      session.endWaitingForEvents()
      guard session.isOpen, let context else { return }
      body(context, snapshot)
      advance(context)
    }
  }

  // MARK: Outcomes

  package final func pendingOutcome(
    _ context: ChannelHandlerContext, _ slot: Session.Slot
  ) -> PendingOutcome {
    let inbox = services.inbox
    return PendingOutcome(
      inbox: inbox, connection: NIOLoopBound((self, context), eventLoop: inbox.loop), slot: slot)
  }
}
