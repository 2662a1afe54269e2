internal import CanopySession
internal import CanopyWire
internal import Logging
internal import NIOCore

/// The end of a connection by the server.
extension SessionHandler {
  /// Takes no more requests. When those that were taken are answered, the client gets the reason, and the connection
  /// closes.
  package final func endRequests(_ reason: String) {
    assertInEventLoop()
    guard session.takesInput else { return }
    keptInput.drop()
    session.endRequests(because: WireError(.overloaded, reason))
  }

  /// Closes when all replies are sent.
  ///
  /// Closing a socket that has unread input resets the connection, and then the client may lose replies that
  /// it has not read. So the sending side ends first. Further input is dropped until the client ends its own
  /// side, or for a second.
  final func close(_ context: ChannelHandlerContext) {
    keptInput.drop()
    // A text that waits to be decoded is dropped.
    scheduled.decoding?.cancel()
    // While bytes are being decoded, they are counted when they have been.
    if !keptInput.isDecoding { noteInput() }
    flush(context)
    // Texts that wait to be encoded are sent first.
    scheduled.closesWhenEncoded = output.hasPieces
    if scheduled.closesWhenEncoded { return }
    clientProtocol?.appendEnd(session.endReason)
    guard let outputContext = clientProtocol?.outputContext else {
      return context.close(promise: nil)
    }
    while let (buffer, _) = output.take() { outputContext.write(NIOAny(buffer), promise: nil) }
    // Closing drops unsent bytes, so it follows an empty write after all the others.
    let promise = context.eventLoop.makePromise(of: Void.self)
    outputContext.write(NIOAny(ByteBuffer()), promise: promise)
    context.flush()
    // After the flush: a handler may send its last bytes when it is closed, and not from within a flush.
    promise.futureResult.assumeIsolated().whenComplete { [self] _ in
      guard !client.hasEnded, context.channel.isActive else { return context.close(promise: nil) }
      linger(context, .seconds(1))
      context.close(mode: .output, promise: nil)
      context.channel.setOption(.autoRead, value: true).whenFailure { _ in }
    }
  }

  /// Closes the connection after a time, if the client does not.
  private final func linger(_ context: ChannelHandlerContext, _ time: TimeAmount) {
    scheduled.lingering?.cancel()
    scheduled.lingering = context.eventLoop.assumeIsolated().scheduleTask(in: time) {
      context.close(promise: nil)
    }
  }

  /// Ends the session of a connection that is gone.
  final func lose(_ context: ChannelHandlerContext) {
    assertInEventLoop()
    if let id = client.id.take() { services.clients.remove(id) }
    scheduled.lingering?.cancel()
    cancelExpiry()
    hold(nil)
    underWay.cancelRequests()
    scheduled.decoding?.cancel()
    session.lose()
    perform(context)
    output.removeAll()
    // Its memory is no longer charged.
    keptInput.drop()
    client.share?.leave(holding: session.ledger.requests)
    if hasNoChanges { endChanges() }
    endReference()
  }

  /// Ends the connection because the server is short of memory, and the budget has chosen this one.
  ///
  /// A client that has left much unread is cut off at once: an error would wait behind the unread bytes, and
  /// the memory is needed now.
  final func endForMemory() {
    assertInEventLoop()
    guard !session.isLost else { return }
    if session.ledger.unsent + session.ledger.unencoded > SessionHandler.sentBytesMin {
      operations.memory.lines.add(
        "a connection was cut off because the server is short of memory",
        ["from": "\(client.address)", "bytes": "\(session.ledger.total)"], to: operations.logger)
      context?.cutOff()
    } else {
      end(
        WireError(
          .overloaded,
          "the server is short of memory, and the connections of this network hold the most; the connection closes"
        ))
    }
  }

  /// Whether the connection is lost, and no change of it is without an outcome: neither a request nor an on-disconnect
  /// write.
  package final var hasNoChanges: Bool {
    session.isLost && !session.hasUnfinishedChanges
  }

  /// Makes on-disconnect writes, as the user of the connection.
  final func carryOut(
    _ context: ChannelHandlerContext, _ armed: [ArmedWrite], _ identity: Identity
  ) {
    let loop = context.eventLoop
    let handler = NIOLoopBound(self, eventLoop: loop)
    operations.carryOut(
      armed, as: identity, from: client.address, turns: client.turns,
      retry: { body in loop.scheduleTask(in: .seconds(1)) { body() } },
      completion: { loop.execute { handler.value.endCarryOut() } })
  }

  /// Notes that on-disconnect writes have an outcome.
  private final func endCarryOut() {
    assertInEventLoop()
    session.endCarryOut()
    if hasNoChanges { endChanges() }
  }

  /// Ends the connection with an error. A client that does not read it is cut off after ten seconds.
  final func end(_ reason: WireError) {
    assertInEventLoop()
    guard let context, session.abandon(because: reason) else { return }
    // This comes before `perform`, which submits the on-disconnect writes. The client gets no more replies.
    underWay.cancelRequests()
    perform(context)
    if scheduled.lingering == nil { linger(context, .seconds(10)) }
    charge()
  }
}
