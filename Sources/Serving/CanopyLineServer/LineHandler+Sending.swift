internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore

/// Sending: replies and events, at once or in turns, and the end of the connection.
extension LineHandler: Flushable {
  func flushLater() {
    guard !scheduled.flushes else { return }
    scheduled.flushes = true
    shared.unflushed.append(self)
  }

  func flush() {
    scheduled.flushes = false
    guard session.isOpen, let context else { return }
    flush(context)
    advance(context)
  }

  /// Sends the encoded output, and asks for a turn to encode more.
  func flush(_ context: ChannelHandlerContext) {
    let (buffers, eventBytes) = output.take()
    if let last = buffers.last {
      for buffer in buffers.dropLast() { context.write(wrapOutboundOut(buffer), promise: nil) }
      send(context, last, eventBytes: eventBytes)
    }
    encodeLater(context)
    noteUnsent(context)
  }

  /// - Parameter eventBytes: the bytes of events to count as sent with the buffer.
  private func send(
    _ context: ChannelHandlerContext, _ buffer: ByteBuffer, eventBytes: Int
  ) {
    guard eventBytes > 0 else {
      return context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    }
    // The last buffer is sent after all the others, so one promise is enough.
    context.writeAndFlush(wrapOutboundOut(buffer)).assumeIsolated().whenComplete { _ in
      self.output.sent(eventBytes: eventBytes)
    }
  }

  /// Appends the line of a reply to the output.
  func send(_ context: ChannelHandlerContext, _ reply: Reply) {
    if case .subscribed(let subscribed) = reply { return begin(context, subscribed) }
    // The events before the reply go out first.
    if !subscribers.isEmpty, !shared.hub.drain() {
      return waitForEvents { [self] context, _ in encode(context, reply) }
    }
    encode(context, reply)
  }

  private func encode(_ context: ChannelHandlerContext, _ reply: Reply) {
    guard session.isOpen else { return }
    shared.encode(reply, to: &output)
    noteUnsent(context)
  }

  /// Calls a closure when the events are sent that the hub has now, unless the connection has ended. Until then the
  /// connection begins no request and sends no reply.
  func waitForEvents(_ body: @escaping (ChannelHandlerContext, Snapshot) -> Void) {
    session.beginWaitingForEvents()
    shared.hub.wait { [self] snapshot in
      session.endWaitingForEvents()
      guard session.isOpen, let context else { return }
      body(context, snapshot)
      advance(context)
    }
  }

  /// Asks for a turn to encode a piece or to carry out requests.
  func takeTurnLater() {
    guard !scheduled.takesTurn else { return }
    scheduled.takesTurn = true
    shared.turns.append(self)
  }

  /// Asks for a turn to encode a piece, if such lines come next in the output and the client reads.
  func encodeLater(_ context: ChannelHandlerContext) {
    guard output.hasPieces, !output.hasBuffers, context.channel.isWritable else { return }
    takeTurnLater()
  }

  /// Reports the unsent bytes to the session: those of the output, and while the channel is not writable, those of the
  /// channel's own buffer.
  func noteUnsent(_ context: ChannelHandlerContext) {
    var bytes = output.byteCount
    let isWritable = context.channel.isWritable
    if !isWritable {
      let buffered = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
      bytes += Int(buffered ?? 0)
    }
    session.setUnsent(
      bytes: bytes, unencoded: output.unencodedBytes, isWritable: isWritable)
  }

  /// Charges the memory that the connection holds to the memory budget of the server.
  func charge() {
    guard !session.isLost else {
      // A connection that is gone holds its requests under way, and nothing else.
      client.share?.report(session.ledger.requests)
      return
    }
    let bytes = session.ledger.total
    if client.share == nil {
      guard bytes >= MemoryBudget.reportBytes else { return }
      let bound = NIOLoopBound(Weak(self), eventLoop: shared.loop)
      let loop = shared.loop
      client.share = operations.memory.open {
        loop.execute { bound.value.handler?.endForMemory() }
      }
    }
    client.share?.report(bytes)
  }

  /// Closes when all replies are sent.
  ///
  /// Closing a socket that has unread input resets the connection, and then the client may lose replies that
  /// it has not read. So the sending side ends first. Further input is dropped until the client ends its own
  /// side, or for a second.
  func close(_ context: ChannelHandlerContext) {
    input.drop()
    // While a line is being received, its bytes are counted when it has been.
    if !input.isDecoding {
      session.setInput(bytes: input.byteCount, hasBacklog: input.hasBacklog)
    }
    flush(context)
    // Lines that wait to be encoded are sent first.
    closing.waitsForPieces = output.hasPieces
    if closing.waitsForPieces { return }
    // Closing drops unsent bytes, so it follows an empty write after all the others.
    context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in
      guard !self.client.hasEnded, context.channel.isActive else {
        return context.close(promise: nil)
      }
      self.closing.lingering?.cancel()
      self.closing.lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
        context.close(promise: nil)
      }
      context.close(mode: .output, promise: nil)
      context.channel.setOption(.autoRead, value: true).whenFailure { _ in }
    }
  }

  /// Ends the connection that holds the most memory, because the server is short of memory.
  ///
  /// A client that has left much unread is cut off at once: an error would wait behind the unread bytes, and
  /// the memory is needed now.
  private func endForMemory() {
    if session.ledger.unsent + session.ledger.unencoded > LineHandler.sentBytesMin {
      operations.logger.notice(
        "a connection was cut off because the server is short of memory",
        metadata: ["from": "\(client.address)", "bytes": "\(session.ledger.total)"])
      context?.close(promise: nil)
    } else {
      end(
        "the server is short of memory, and this connection holds most of it; the connection closes"
      )
    }
  }

  /// Ends the connection with an error. A client that does not read it is cut off after ten seconds.
  private func end(_ sentence: String) {
    guard let context, session.abandon() else { return }
    ReplyLine.failure(WireError(.overloaded, sentence), to: &output.text)
    perform(context)
    if closing.lingering == nil {
      closing.lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(10)) {
        context.close(promise: nil)
      }
    }
    charge()
  }
}

extension LineHandler: TurnTaker {
  func takeTurn(bytes: Int) -> Int {
    scheduled.takesTurn = false
    // A long line that is decoded beside the loop ends the pause itself.
    guard session.isPaused, input.bytesBeside == 0 else { return sendPiece(bytes: bytes) }
    session.pause(false)
    guard let context, context.channel.isActive else { return 0 }
    scheduled.turn = shared.work.nextTurn()
    // The client may know of commits that the loop has not read yet.
    shared.inbox.release()
    advance(context)
    return LoopTurns.turnBytes
  }

  private func sendPiece(bytes: Int) -> Int {
    guard let context, context.channel.isActive, context.channel.isWritable,
      let (buffer, eventBytes) = output.takePiece(bytes: bytes)
    else { return 0 }
    send(context, buffer, eventBytes: eventBytes)
    flush(context)
    if session.isOpen {
      advance(context)
    } else if closing.waitsForPieces, !output.hasPieces {
      close(context)
    }
    charge()
    return buffer.readableBytes
  }
}

/// A reference that does not keep its handler alive.
private final class Weak {
  weak var handler: LineHandler?

  init(_ handler: LineHandler) {
    self.handler = handler
  }
}

extension LineHandler: Subscriber {
  func accepts(_ notifications: [Notification], bytes: Int, for subscription: Int64) -> Bool {
    let outcome = session.admit(
      notifications, bytes: bytes, for: subscription, unsentEventBytes: output.eventBytes)
    switch outcome {
    case .send: return true
    case .dropped: return false
    case .held:
      charge()
      return false
    case .overloaded:
      end(
        "the client has left more than \(operations.limits.queuedBytesMax) bytes of events unread; the "
          + "connection closes")
      return false
    }
  }

  func send(events lines: ByteBuffer) {
    sendEvents { $0.append(events: lines) }
  }

  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    sendEvents {
      $0.append(events: head)
      $0.append(events: rest)
    }
  }

  func send(events lines: LinePieces) {
    sendEvents { $0.append(lines, areEvents: true) }
  }

  private func sendEvents(_ append: (inout LineOutput) -> Void) {
    guard session.isOpen, let context else { return }
    append(&output)
    noteUnsent(context)
    charge()
    flushLater()
  }

  func cancel(_ subscription: Int64, _ code: WireError.Code) {
    session.cancel(subscription, code)
    guard let context else { return }
    perform(context)
    flushLater()
  }

  /// Appends the line that a subscription has ended.
  func encode(cancel code: WireError.Code, of subscription: Int64) {
    EventLines(cancel: code).append(to: &output.text, for: subscription)
  }
}
