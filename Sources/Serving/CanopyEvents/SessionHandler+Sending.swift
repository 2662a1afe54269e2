package import CanopyEngine
internal import CanopySession
package import NIOCore

/// Sending: encoded output at once, and large replies and events in turns.
extension SessionHandler: Flushable {
  /// The size of encoded replies from which on they are sent at once, and do not wait for other replies.
  static let sentBytesMin = 16 * 1024

  package final var waitsForFlush: Bool {
    get { scheduled.waitsForFlush }
    set { scheduled.waitsForFlush = newValue }
  }

  package final func flush() {
    assertInEventLoop()
    guard session.isOpen, let context else { return charge() }
    let couldSend = session.canSend
    if writing.isWritable { flush(context) } else { noteUnsent(context) }
    // For a client that sends one request at a time, the flush of a reply changes nothing else. If sending has become
    // possible only now, other work may wait for it.
    if couldSend, session.canSend, session.isAtRest, !output.hasBuffers {
      charge()
    } else {
      advance(context)
    }
  }

  /// Sends the encoded output, and asks for a turn to encode more.
  ///
  /// - Parameter piece: a piece of lines to send before it, and the bytes of events that the piece completes.
  package final func flush(
    _ context: ChannelHandlerContext, after piece: (buffer: ByteBuffer, eventBytes: Int)? = nil
  ) {
    writing.isFlushing = true
    defer { writing.isFlushing = false }
    let outputContext = clientProtocol?.outputContext
    var last = piece?.buffer
    var eventBytes = piece?.eventBytes ?? 0
    while let next = output.take() {
      if let last { outputContext?.write(NIOAny(last), promise: nil) }
      last = next.buffer
      eventBytes += next.eventBytes
    }
    if let last, let outputContext {
      var promise: EventLoopPromise<Void>?
      if eventBytes > 0 {
        // The last buffer is sent after all the others, so one promise is enough.
        let sent = context.eventLoop.makePromise(of: Void.self)
        // A copy of the number: a closure that has the variable itself would allocate it for each flush.
        sent.futureResult.assumeIsolated().whenComplete { [self, eventBytes] _ in
          output.sent(eventBytes: eventBytes)
          if session.isBehind { catchUpLater() }
        }
        promise = sent
      }
      outputContext.writeAndFlush(NIOAny(last), promise: promise)
    }
    encodeLater(context)
    noteUnsent(context)
  }

  /// Asks for a turn to encode a piece, if such a text comes next in the output and the client reads.
  final func encodeLater(_ context: ChannelHandlerContext) {
    guard output.hasPieces, !output.hasBuffers, writing.isWritable else { return }
    takeTurnLater()
  }

  /// Reports the memory of the unsent bytes to the session: that of the output, and while the channel is not writable,
  /// that of the channel's own buffers. The first of these is whole, although a part of it may be sent.
  package final func noteUnsent(_ context: ChannelHandlerContext) {
    var bytes = output.memoryBytes
    if !writing.isWritable { bytes += bufferedBytes + LineOutput.bufferBytesMax }
    session.setUnsent(
      bytes: bytes, unencoded: output.unencodedBytes, isWritable: writing.isWritable)
  }

  /// Reports the bytes of the input to the session.
  final func noteInput() {
    session.setInput(bytes: keptInput.byteCount, hasBacklog: keptInput.hasBacklog)
  }

  /// Charges the memory that the connection holds to the memory budget of the server.
  final func charge() {
    guard !session.isLost else {
      // A connection that is gone holds its requests under way, and nothing else.
      client.share?.report(session.ledger.requests)
      return
    }
    if let place = client.place {
      client.report(to: place, isBusy: writing.isWritable && session.hasRequests, session)
    }
    let bytes = session.ledger.total
    if client.share == nil {
      guard bytes >= MemoryBudget.reportBytes else { return }
      openShare()
    }
    let idleBytes = client.idleBytes
    client.share?.report(idleBytes + bytes, idle: idleBytes)
  }

  /// Charges the input with a text to decode. Returns false and changes nothing if there is no room.
  final func admitInput() -> Bool {
    noteInput()
    guard !session.isLost else { return false }
    if client.share == nil { openShare() }
    let idleBytes = client.idleBytes
    return client.share?.admit(idleBytes + session.ledger.total, idle: idleBytes) ?? false
  }

  /// Begins to charge the connection, with the bytes that it takes while it is idle.
  final func openShare() {
    let reference = reference()
    client.share = operations.memory.open(on: services.loop, network: client.turns?.network) {
      reference.value.handler?.endForMemory()
    }
    let idleBytes = client.idleBytes
    client.share?.report(idleBytes, idle: idleBytes)
  }
}

extension SessionHandler: TurnTaker {
  package final var turnGroup: TurnGroup? { client.turns }

  /// Asks for a turn to encode a piece or to carry out requests.
  final func takeTurnLater() {
    guard !scheduled.takesTurn else { return }
    scheduled.takesTurn = true
    services.turns.append(self)
  }

  package final func takeTurn(bytes: Int) -> Int {
    assertInEventLoop()
    scheduled.takesTurn = false
    // A long text that is decoded beside the loop ends the pause itself.
    guard session.isPaused, keptInput.bytesBeside == 0 else { return sendPiece(bytes: bytes) }
    session.pause(false)
    guard let context, context.channel.isActive else { return 0 }
    scheduled.turn = services.work.nextTurn()
    // The client may know of commits that the loop has not read yet.
    hub.inbox.release()
    advance(context)
    return LoopTurns.turnBytes
  }

  private final func sendPiece(bytes: Int) -> Int {
    guard let context, context.channel.isActive, writing.isWritable,
      let piece = output.takePiece(bytes: bytes)
    else { return 0 }
    flush(context, after: piece)
    if session.isOpen {
      advance(context)
    } else if scheduled.closesWhenEncoded, !output.hasPieces {
      close(context)
    }
    charge()
    return piece.buffer.readableBytes
  }
}
