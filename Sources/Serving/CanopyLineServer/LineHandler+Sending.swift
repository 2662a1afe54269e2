internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore

/// Sending replies and events, in one go or in turns, and the end of a connection.
extension LineHandler: Flushable {
  func flushLater() {
    guard !flushIsDue else { return }
    flushIsDue = true
    shared.unflushed.append(self)
  }

  func flush() {
    flushIsDue = false
    guard session.isOpen, let context else { return }
    flush(context)
    advance(context)
  }

  func flush(_ context: ChannelHandlerContext) {
    sendBuffers(context)
    encodeLater(context)
    noteUnsent(context)
  }

  /// Sends all that is encoded.
  private func sendBuffers(_ context: ChannelHandlerContext) {
    let (buffers, eventBytes) = output.take()
    guard let last = buffers.last else { return }
    for buffer in buffers.dropLast() { context.write(wrapOutboundOut(buffer), promise: nil) }
    send(context, last, eventBytes: eventBytes)
  }

  /// - Parameter eventBytes: the bytes of events to count as sent with the buffer.
  private func send(
    _ context: ChannelHandlerContext, _ buffer: ByteBuffer, eventBytes: Int
  ) {
    guard eventBytes > 0 else {
      return context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    }
    // The last buffer goes out after all the others: one promise counts for all.
    context.writeAndFlush(wrapOutboundOut(buffer)).assumeIsolated().whenComplete { _ in
      self.output.sent(eventBytes: eventBytes)
    }
  }

  /// Asks for a turn to encode a piece, if there is something to encode and the client reads.
  func encodeLater(_ context: ChannelHandlerContext) {
    guard output.hasPieces, !output.hasBuffers, context.channel.isWritable else { return }
    takeTurnLater()
  }

  /// Tells the session how much is not sent. The channel's own buffer counts while it is over its mark.
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

  /// Charges the memory that the connection holds to the budget of the server.
  func charge() {
    let bytes = session.ledger.total
    if account == nil {
      guard bytes >= MemoryBudget.reportBytes else { return }
      let bound = NIOLoopBound(Weak(self), eventLoop: shared.loop)
      let loop = shared.loop
      account = operations.memory.open { loop.execute { bound.value.handler?.endForMemory() } }
    }
    account?.report(bytes)
  }

  /// Closes when all replies are sent.
  ///
  /// Closing a socket that has unread input resets the connection, and a reset can take replies from the
  /// client that it has not read yet. So the sending side ends first; further input is dropped until the
  /// client ends its own side, or for a moment.
  func close(_ context: ChannelHandlerContext) {
    backlog = nil
    flush(context)
    // A line that was begun is sent to its end.
    closesWhenEncoded = output.hasPieces
    if closesWhenEncoded { return }
    // Closing drops unsent bytes, so it waits for an empty write after all the others.
    context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in
      guard !self.clientHasEnded, context.channel.isActive else {
        return context.close(promise: nil)
      }
      self.lingering?.cancel()
      self.lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
        context.close(promise: nil)
      }
      context.close(mode: .output, promise: nil)
      context.channel.setOption(.autoRead, value: true).whenFailure { _ in }
    }
  }

  /// Ends the connection of a client that holds the most memory while the server has no more.
  ///
  /// If the client has left much unread, it is cut off at once: an error would wait behind that, and the
  /// memory is needed now.
  private func endForMemory() {
    if session.ledger.unsent + session.ledger.unencoded > LineHandler.sentBytesMin {
      operations.logger.notice(
        "a connection was cut off because the server is short of memory",
        metadata: ["from": "\(address)", "bytes": "\(session.ledger.total)"])
      context?.close(promise: nil)
    } else {
      end("the server is short of memory, and this connection holds the most; it closes")
    }
  }

  /// Ends the connection with an error. A client that reads nothing is cut off after some seconds.
  private func end(_ sentence: String) {
    guard let context, session.abandon() else { return }
    ReplyLine.failure(WireError(.overloaded, sentence), to: &output.text)
    perform(context)
    if lingering == nil {
      lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(10)) {
        context.close(promise: nil)
      }
    }
    charge()
  }
}

extension LineHandler: TurnTaker {
  func takeTurn(bytes: Int) -> Int {
    turnIsDue = false
    guard session.isPaused else { return sendPiece(bytes: bytes) }
    session.pause(false)
    guard let context, context.channel.isActive else { return 0 }
    turn = shared.work.nextTurn()
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
    } else if closesWhenEncoded, !output.hasPieces {
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
    let outcome = session.receive(
      notifications, bytes: bytes, for: subscription, unsentEventBytes: output.eventBytes)
    switch outcome {
    case .send: return true
    case .dropped: return false
    case .held:
      charge()
      return false
    case .overloaded:
      end(
        "this connection has left more than \(operations.limits.queuedBytesMax) bytes of events "
          + "unread; it closes")
      return false
    }
  }

  func receive(_ lines: ByteBuffer) {
    receive { $0.append(events: lines) }
  }

  func receive(_ lines: LinePieces) {
    receive { $0.append(lines, areEvents: true) }
  }

  private func receive(_ append: (inout LineOutput) -> Void) {
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
