internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopyRealtimeWire
internal import CanopyRules
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOWebSocket

/// Sending: answers and events, at once or in turns, and the end of the connection.
extension RealtimeHandler: Flushable {
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

  func flush(_ context: ChannelHandlerContext) {
    let (buffers, eventBytes) = output.take()
    if let last = buffers.last {
      for buffer in buffers.dropLast() { raw.write(buffer) }
      send(context, last, eventBytes: eventBytes)
    }
    encodeLater(context)
    noteUnsent(context)
  }

  /// - Parameter eventBytes: the bytes of events to count as sent with the buffer.
  private func send(_ context: ChannelHandlerContext, _ buffer: ByteBuffer, eventBytes: Int) {
    guard eventBytes > 0 else { return raw.writeAndFlush(buffer, promise: nil) }
    // The last buffer is sent after all the others, so one promise is enough.
    let promise = context.eventLoop.makePromise(of: Void.self)
    promise.futureResult.assumeIsolated().whenComplete { _ in
      self.output.sent(eventBytes: eventBytes)
    }
    raw.writeAndFlush(buffer, promise: promise)
  }

  // MARK: Messages

  /// Appends the message that `write` writes.
  func append(_ write: (inout JSONOutput) -> Void) {
    MessageFrames.append(to: &output.text, write)
    context.map(noteUnsent)
  }

  /// Appends the answer to the newest check of the client, if the client reads. The protocol allows a server to leave
  /// the others unanswered.
  func answerPing() {
    // A frame of this kind has at most 125 bytes.
    guard session.isOpen, session.canSend, let bytes = client.ping.take(), bytes.readableBytes < 126
    else { return }
    bytes.withUnsafeReadableBytes {
      MessageFrames.append(control: 0xA, $0, to: &output.text)
    }
    context.map(noteUnsent)
  }

  /// Appends the message with a value.
  ///
  /// - Parameter bytes: the bytes of its JSON, or a little more.
  func append(_ put: Assignment, at path: Path, tag: Int64?, bytes: Int) {
    append(RealtimeEvent.parts([put], at: path, tag: tag), bytes: bytes)
  }

  /// Appends a message: encoded at once if it is small.
  private func append(_ parts: [LinePieces.Part], bytes: Int) {
    guard bytes <= operations.limits.wholeReplyBytesMax else {
      output.append(LinePieces(message: bytes, parts))
      context.map(noteUnsent)
      return
    }
    append { output in
      var text = LinePieces(bytes: bytes, parts: parts)
      while !text.isDone { text.write(to: &output, bytes: MessageFrames.charactersMax) }
    }
  }

  // MARK: Answers

  /// Answers the first request that is not answered, when the events before the answer are sent.
  func send(_ context: ChannelHandlerContext, _ reply: Reply) {
    // A listener begins before the events that follow.
    if case .subscribed = reply { return answer(reply) }
    if let request = answers.delayedRead.take() { return read(context, request) }
    if answers.takeNextIsCurrent() || listeners.isEmpty || shared.hub.drain() {
      return answer(reply)
    }
    waitForEvents { [self] _, snapshot in answer(reply, at: snapshot) }
  }

  /// Calls a closure when the events are sent that the hub has now, with the snapshot after them, unless the connection
  /// has ended. Until then the connection begins no request and sends no answer.
  func waitForEvents(_ body: @escaping (ChannelHandlerContext, Snapshot) -> Void) {
    session.beginWaitingForEvents()
    shared.hub.wait { [self] snapshot in
      session.endWaitingForEvents()
      guard session.isOpen, let context else { return }
      body(context, snapshot)
      advance(context)
    }
  }

  /// Answers the first request that is not answered.
  ///
  /// - Parameter snapshot: the snapshot up to which the events are sent; nil for that of the loop.
  func answer(_ reply: Reply, at snapshot: Snapshot? = nil) {
    guard let (number, kind) = answers.take(), session.isOpen else { return }
    switch reply {
    case .subscribed(let subscribed): begin(subscribed, answering: number)
    case .failure(let error):
      shared.metrics.count(error.code)
      append { output in
        ServerMessage.answer(number, RealtimeStatus(error.code), to: &output) {
          $0.append(string: error.sentence)
        }
      }
    case .value(let node, let style, _, let bytes):
      answer(number, .node(node, style), bytes: bytes)
    case .members(let members, let style, let bytes):
      answer(number, .members(members[...], style), bytes: bytes)
    case .mismatch(let node, _, _, let bytes):
      if case .transaction(let location) = kind {
        push(location, in: (snapshot ?? shared.inbox.snapshot).root, unlessChanged: node, bytes)
      }
      append { output in
        ServerMessage.answer(number, .dataStale, to: &output) {
          $0.append(string: "the value has changed; compute the new one again")
        }
      }
    case .json, .post, .entries: answer(number, kind)
    }
  }

  /// Answers a request that has succeeded without a value.
  private func answer(_ number: Int64, _ kind: PendingAnswers.Kind) {
    append { output in
      ServerMessage.answer(number, .ok, to: &output) { output in
        guard case .authenticate = kind else { return output.append("\"\"") }
        let auth = session.identity.caller(at: operations.now())?.auth ?? .absent
        output.object {
          $0.member("auth", auth, style: .export)
          // In seconds, as in a token.
          if case .user(let login) = session.identity {
            $0.member("expires", login.expiresAt / 1000)
          }
        }
      }
    }
  }

  /// Answers a request with a value.
  private func answer(_ number: Int64, _ value: LinePieces.Part, bytes: Int) {
    let parts = LinePieces.parts(value) { output, body in
      ServerMessage.answer(number, .ok, to: &output, body)
    }
    append(parts, bytes: bytes)
  }

  /// Sends the present value of a location to a client whose transaction has failed and that has no listener for it.
  ///
  /// It is the value of the snapshot up to which the connection has got the events. If it is large and no longer the one
  /// that was compared, it is not sent, because it was not measured: the client computes once more in vain.
  ///
  /// - Parameter root: the root of that snapshot.
  private func push(
    _ location: Location, in root: Node, unlessChanged node: Node, _ bytes: Int
  ) {
    let isCovered = listeners.values.contains {
      $0.body.target.tag == nil && location.path.hasPrefix($0.body.target.path)
    }
    guard !isCovered, !location.isPriority else { return }
    let present = root.at(location.path)
    var options = GetOptions()
    options.isExport = true
    if present.isIdentical(to: node) {
      append(Assignment(.root, present), at: location.path, tag: nil, bytes: bytes)
    } else if case .value(let value, _, _, let bytes)? = operations.read(
      .get(location, options), as: session.identity, in: root)
    {
      append(Assignment(.root, value), at: location.path, tag: nil, bytes: bytes)
    }
  }

  // MARK: Turns

  func takeTurnLater() {
    guard !scheduled.takesTurn else { return }
    scheduled.takesTurn = true
    shared.turns.append(self)
  }

  /// Asks for a turn to encode a piece, if messages wait to be encoded and the client reads.
  func encodeLater(_ context: ChannelHandlerContext) {
    guard output.hasPieces, !output.hasBuffers, context.channel.isWritable else { return }
    takeTurnLater()
  }

  /// Reports the unsent bytes to the session. The channel's own buffer counts while it is over its mark.
  func noteUnsent(_ context: ChannelHandlerContext) {
    var bytes = output.byteCount
    let isWritable = context.channel.isWritable
    if !isWritable {
      let buffered = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
      bytes += Int(buffered ?? 0)
    }
    session.setUnsent(bytes: bytes, unencoded: output.unencodedBytes, isWritable: isWritable)
  }

  /// Charges the memory that the connection holds to the budget of the server.
  func charge() {
    guard !session.isLost else {
      // A connection that is gone holds its requests under way, and nothing else.
      client.share?.report(session.ledger.requests)
      return
    }
    let bytes = session.ledger.total
    if client.share == nil {
      guard bytes >= MemoryBudget.reportBytes else { return }
      let bound = NIOLoopBound(WeakHandler(self), eventLoop: shared.loop)
      let loop = shared.loop
      client.share = operations.memory.open {
        loop.execute { bound.value.handler?.endForMemory() }
      }
    }
    client.share?.report(bytes)
  }

  // MARK: The end

  /// Closes when all answers are sent.
  ///
  /// Closing a socket that has unread input resets the connection, and then the client may lose messages that it has
  /// not read. So the sending side ends first. Further input is dropped until the client ends its own side, or for a
  /// second.
  func close(_ context: ChannelHandlerContext) {
    input.drop()
    session.setInput(bytes: input.byteCount, hasBacklog: input.hasBacklog)
    flush(context)
    // Messages that wait to be encoded are sent first.
    closing.waitsForPieces = output.hasPieces
    if closing.waitsForPieces { return }
    if let farewell = closing.farewell.take() {
      MessageFrames.append(to: &output.text) { ServerMessage.error(farewell, to: &$0) }
    }
    // The code of a normal end.
    [UInt8]([0x03, 0xE8]).withUnsafeBytes {
      MessageFrames.append(control: 0x8, $0, to: &output.text)
    }
    let promise = context.eventLoop.makePromise(of: Void.self)
    promise.futureResult.assumeIsolated().whenComplete { _ in
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
    let (buffers, _) = output.take()
    for buffer in buffers { raw.write(buffer) }
    // Closing drops unsent bytes, so it follows an empty write after all the others.
    raw.writeAndFlush(ByteBuffer(), promise: promise)
  }

  /// Ends the connection that holds the most memory, because the server is short of memory.
  ///
  /// A client that has left much unread is cut off at once: an error would wait behind the unread bytes, and
  /// the memory is needed now.
  fileprivate func endForMemory() {
    if session.ledger.unsent + session.ledger.unencoded > RealtimeHandler.sentBytesMin {
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
    closing.farewell = sentence
    perform(context)
    if closing.lingering == nil {
      closing.lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(10)) {
        context.close(promise: nil)
      }
    }
    charge()
  }
}

extension RealtimeHandler: TurnTaker {
  func takeTurn(bytes: Int) -> Int {
    scheduled.takesTurn = false
    // A long message that is decoded beside the loop ends the pause itself.
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
final class WeakHandler {
  weak var handler: RealtimeHandler?

  init(_ handler: RealtimeHandler) {
    self.handler = handler
  }
}

extension RealtimeHandler: Subscriber {
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

  func send(events messages: ByteBuffer) {
    sendEvents { $0.append(events: messages) }
  }

  func send(eventHead head: ByteBuffer, rest: ByteBuffer) {
    sendEvents {
      $0.append(events: head)
      $0.append(events: rest)
    }
  }

  func send(events messages: LinePieces) {
    sendEvents { $0.append(messages, areEvents: true) }
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
}
