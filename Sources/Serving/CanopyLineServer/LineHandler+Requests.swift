internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// Requests: from the lines of the input to the outcomes that the session receives.
extension LineHandler {
  /// Decodes a buffer, and passes its requests to the session.
  func decode(_ context: ChannelHandlerContext, _ buffer: ByteBuffer) {
    input.decode(buffer) { item in
      switch item {
      case .line(let line):
        receiveLine(context, line)
        return session.wantsInput
      case .foreign(let foreign):
        session.refuse(foreign.error)
      case .tooLong:
        session.refuse(
          WireError(
            .tooLarge,
            "a line may have at most \(operations.limits.lineBytesMax) bytes; the connection closes"
          ))
      }
      session.endRequests()
      return false
    }
  }

  private func receiveLine(_ context: ChannelHandlerContext, _ line: UnsafeRawBufferPointer) {
    guard line.count < Operations.longTextBytes else {
      return decodeBeside(context, Array(line))
    }
    countWork(bytes: line.count)
    do throws(WireError) {
      let request = try Request(line: line, limits: operations.limits)
      if case .read(let read) = request, session.readsAtOnce(request) {
        return self.read(context, read)
      }
      session.receive(
        request, bytes: request.memoryBytes(text: line),
        runsAlone: operations.runsAlone(request))
    } catch {
      session.refuse(error)
    }
    perform(context)
  }

  /// Decodes a long line beside the event loop. Meanwhile the connection decodes no other line and begins no
  /// request.
  private func decodeBeside(_ context: ChannelHandlerContext, _ line: [UInt8]) {
    input.bytesBeside = line.count
    session.pause(true)
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    scheduled.decoding = Task { [operations, turns = client.turns] in
      let decoded: Result<(request: Request, bytes: Int), WireError>
      do {
        decoded = .success(
          try await operations.beside(turns) {
            try line.withUnsafeBytes { line in
              let request = try Request(line: line, limits: operations.limits)
              return (request, request.memoryBytes(text: line))
            }
          })
      } catch {
        decoded = .failure(operations.wireError(error))
      }
      loop.execute {
        let (handler, context) = bound.value
        handler.receiveDecoded(context, decoded)
      }
    }
  }

  /// Passes the request of a long line to the session, and continues with the next lines.
  private func receiveDecoded(
    _ context: ChannelHandlerContext, _ decoded: Result<(request: Request, bytes: Int), WireError>
  ) {
    scheduled.decoding = nil
    input.bytesBeside = 0
    session.pause(false)
    switch decoded {
    case .success(let (request, bytes)):
      session.receive(request, bytes: bytes, runsAlone: operations.runsAlone(request))
    case .failure(let error): session.refuse(error)
    }
    advance(context)
  }

  /// Counts a request. At the end of the connection's turn the session pauses: no further request begins
  /// before the next turn.
  ///
  /// - Parameter bytes: the length of its line if the line is yet to be decoded; else 0.
  func countWork(bytes: Int = 0) {
    guard shared.work.count(&scheduled.turn, bytes: bytes), !session.isPaused else { return }
    session.pause(true)
    takeTurnLater()
  }

  /// Carries out a read and encodes its reply, or begins it beside the loop if it takes long.
  func read(_ context: ChannelHandlerContext, _ request: ReadRequest) {
    // The events that led to the snapshot go out first.
    let measurement = shared.metrics.begin(RequestKind(request))
    if !subscribers.isEmpty, !shared.hub.drain() {
      let slot = session.postponeRead()
      measurements[slot] = measurement
      return readAfterEvents(request, slot)
    }
    if !shared.read(request, as: session.identity, to: &output) {
      let slot = session.postponeRead()
      measurements[slot] = measurement
      readLong(context, request, slot, in: shared.inbox.snapshot.root)
    } else if let measurement {
      shared.metrics.end(measurement)
    }
    noteUnsent(context)
  }

  /// Carries out a request. Its outcome goes to `finish`, now or later.
  func begin(_ context: ChannelHandlerContext, _ request: Request, _ slot: Session.Slot) {
    if let measurement = shared.metrics.begin(RequestKind(request)) {
      measurements[slot] = measurement
    }
    switch request {
    case .write(let write):
      let outcome = pendingOutcome(context, slot)
      operations.write(
        write, as: session.identity, from: client.address, turns: client.turns
      ) {
        outcome.complete(Session.Completion($0))
      }
    case .read(let read): orderedRead(context, read, slot)
    case .listen(let request):
      do throws(WireError) { try listen(context, request, slot) } catch {
        finish(slot, Session.Completion(error))
      }
    case .account(let request):
      let outcome = pendingOutcome(context, slot)
      let task = operations.begin(request, as: session.identity, from: client.address) {
        outcome.complete($0)
      }
      if request.endsWithConnection { tasks[slot] = task }
    case .administration(let request):
      let outcome = pendingOutcome(context, slot)
      operations.begin(request, as: session.identity) { outcome.complete($0) }
    case .connection(let request):
      if case .use = request {
        do throws(WireError) { try session.checkMayChangeNamespace() } catch {
          return finish(slot, Session.Completion(error))
        }
      }
      let outcome = pendingOutcome(context, slot)
      operations.begin(request, as: session.identity, session.armed) { outcome.complete($0) }
    }
  }

  /// Carries out a read after the earlier writes of the connection. For the administrator, keeps the index
  /// that the read needs.
  private func orderedRead(
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

  /// Carries out a read that has a slot: its reply goes to `finish`, now or later.
  private func readNow(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    shared.inbox.release()
    if !subscribers.isEmpty, !shared.hub.drain() { return readAfterEvents(request, slot) }
    read(context, request, slot, in: shared.inbox.snapshot.root)
  }

  /// Carries out a read that has a slot when the events before it are sent.
  private func readAfterEvents(_ request: ReadRequest, _ slot: Session.Slot) {
    waitForEvents { [self] context, snapshot in read(context, request, slot, in: snapshot.root) }
  }

  private func read(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot, in root: Node
  ) {
    if let reply = operations.read(request, as: session.identity, in: root) {
      finish(slot, Session.Completion(reply))
    } else {
      readLong(context, request, slot, in: root)
    }
  }

  /// Carries out a read that may take long beside the event loop.
  private func readLong(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot, in root: Node
  ) {
    let outcome = pendingOutcome(context, slot)
    tasks[slot] = Task { [operations, identity = session.identity, turns = client.turns] in
      outcome.complete(
        Session.Completion(
          await operations.longRead(request, as: identity, in: root, turns: turns)))
    }
  }

  private func pendingOutcome(
    _ context: ChannelHandlerContext, _ slot: Session.Slot
  ) -> PendingOutcome {
    let inbox = shared.inbox
    return PendingOutcome(
      inbox: inbox, connection: NIOLoopBound((self, context), eventLoop: inbox.loop), slot: slot)
  }

  func finish(_ slot: Session.Slot, _ completion: Session.Completion) {
    tasks[slot] = nil
    if !measurements.isEmpty, let measurement = measurements.removeValue(forKey: slot) {
      shared.metrics.end(measurement)
    }
    if let lease = completion.namespace { use(lease) }
    session.finish(slot, completion)
    if completion.closes { input.drop() }
    scheduled.advances = true
  }

  func advanceAfterOutcomes(_ context: ChannelHandlerContext) {
    guard scheduled.advances else { return }
    scheduled.advances = false
    advance(context)
  }
}

/// The outcome that a request under way will have: the connection and the slot that receive it.
private struct PendingOutcome: Sendable {
  let inbox: LoopInbox
  let connection: NIOLoopBound<(any Connection, ChannelHandlerContext)>
  let slot: Session.Slot

  /// Passes the outcome to the connection. Safe to call from any thread.
  func complete(_ completion: Session.Completion) {
    if inbox.loop.inEventLoop {
      connection.value.0.finish(slot, completion)
    } else {
      inbox.complete(
        LoopInbox.Outcome(connection: connection, slot: slot, completion: completion))
    }
  }
}
