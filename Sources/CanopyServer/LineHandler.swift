internal import CanopyEngine
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOExtras

/// Drives one connection: bytes to requests, requests to the service, replies to bytes.
///
/// All its state is touched on the connection's event loop alone. Reads are answered there and then;
/// others come back to the loop with their reply. What arrives is not read on while the client leaves
/// replies unread, or while it has too many requests outstanding: so a connection never holds more
/// than the limits say.
final class LineHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let service: LineService
  private let logger: Logger
  private var decoder: LineDecoder
  private var pipeline = RequestPipeline<Item>()
  private var identity = Identity.anonymous
  private var context: ChannelHandlerContext?
  private var cache: EntryCache?
  private var lists: ListCache?
  private var hub: EventHub?
  /// Nil until the first one begins: most connections have none.
  private var subscriptions: Subscriptions?
  /// Whether a request to listen has come: then replies wait for the events before them.
  private var mayListen = false
  /// The writes to be made when the connection ends.
  private var armed: [ArmedWrite] = []
  /// The request that is changing them.
  private var arming: Int?
  /// Whether the connection has ended as far as others are concerned.
  private var hasLeft = false
  /// Bytes of events that the channel has not sent.
  private var eventBytes = 0
  /// Those of them that were not flushed.
  private var unflushedEventBytes = 0
  /// What is to be sent before `output`: bytes that others get as well, and that are not copied.
  private var shared: ByteBuffer?
  private var flushIsDue = false
  private var address = ""
  private var output = JSONOutput(capacity: 1024)
  /// Bytes that arrived while no more requests were wanted.
  private var backlog: ByteBuffer?
  /// Whether nothing more is to come from the client: it said so, or we no longer listen.
  private var inputHasEnded = false
  /// Whether the client has ended its sending side.
  private var clientHasEnded = false
  private var isClosing = false
  /// Closes the connection of a client that does not, when the sending side has ended.
  private var lingering: Scheduled<Void>?
  private var isReading = true
  /// Tasks of which nobody has anything when the connection is gone.
  private var tasks: [Int: Task<Void, Never>] = [:]

  /// A line that arrived: a request, or what was wrong with it.
  private enum Item {
    case request(Request)
    case refusal(WireError)
  }

  init(_ service: LineService) {
    self.service = service
    self.logger = service.logger
    decoder = LineDecoder(lineBytesMax: service.limits.lineBytesMax)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    cache = service.caches.value(of: context.eventLoop).value
    lists = service.lists.value(of: context.eventLoop).value
    hub = service.hubs.value(of: context.eventLoop)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelActive(context: ChannelHandlerContext) {
    address = context.remoteAddress?.ipAddress ?? "local"
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    isClosing = true
    lingering?.cancel()
    for task in tasks.values { task.cancel() }
    leave(context.eventLoop)
    take(.anonymous)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    logger.debug("a connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case ChannelEvent.inputClosed:
      clientHasEnded = true
      if lingering != nil { return context.close(promise: nil) }
      inputHasEnded = true
      proceed(context)
    case is ChannelShouldQuiesceEvent:
      // What was received is still carried out and answered.
      inputHasEnded = true
      proceed(context)
    default:
      context.fireUserInboundEventTriggered(event)
    }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    proceed(context)
    context.fireChannelWritabilityChanged()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isClosing, !inputHasEnded else { return }
    var buffer = unwrapInboundIn(data)
    if var kept = backlog {
      kept.writeBuffer(&buffer)
      backlog = kept
    } else {
      feed(context, buffer)
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    proceed(context)
    context.fireChannelReadComplete()
  }

  // MARK: From bytes to requests

  private func feed(_ context: ChannelHandlerContext, _ buffer: ByteBuffer) {
    var buffer = buffer
    var isForeign = false
    let outcome = buffer.withUnsafeReadableBytes { bytes in
      decoder.feed(bytes) { line in
        if let foreign = ForeignProtocol(line: line) {
          // Nothing that follows is read: it may be the body of a request that a web page has made.
          isForeign = true
          pipeline.enqueue(.refusal(foreign.error), .read)
          inputHasEnded = true
          return false
        }
        receive(context, line)
        return canTakeMore(context)
      }
    }
    switch outcome {
    case _ where isForeign: break
    case .done: break
    case .stopped(let consumed):
      buffer.moveReaderIndex(forwardBy: consumed)
      backlog = buffer
    case .tooLong:
      refuseLongLine(context)
    }
  }

  private func canTakeMore(_ context: ChannelHandlerContext) -> Bool {
    !isClosing && pipeline.count < service.limits.outstandingRequestsMax
      && pipeline.waitingBytes < service.limits.waitingRequestBytesMax
      && context.channel.isWritable && output.count < service.limits.unreadReplyBytesMax
  }

  private func receive(_ context: ChannelHandlerContext, _ line: UnsafeRawBufferPointer) {
    do throws(WireError) {
      let request = try Request(line: line, limits: service.limits)
      var kind = service.kind(of: request)
      if mayListen {
        if kind == .read { kind = .exclusive }
      } else if service.isAboutEvents(request) {
        mayListen = true
      }
      if pipeline.isIdle, kind == .read, canTakeMore(context) {
        read(context, request)
      } else {
        pipeline.enqueue(.request(request), kind, bytes: line.count)
        start(context)
      }
    } catch {
      if pipeline.isIdle {
        Reply.failure(error, to: &output)
      } else {
        pipeline.enqueue(.refusal(error), .read)
      }
    }
  }

  private func refuseLongLine(_ context: ChannelHandlerContext) {
    let error = WireError(
      .tooLarge,
      "a line may have at most \(service.limits.lineBytesMax) bytes; the connection closes")
    pipeline.enqueue(.refusal(error), .read)
    inputHasEnded = true
  }

  // MARK: From requests to replies

  /// Begins what may begin. No more replies are made than may be left unread: `proceed` sends them,
  /// and begins the rest.
  private func start(_ context: ChannelHandlerContext) {
    while !isClosing, context.channel.isWritable,
      output.count < service.limits.unreadReplyBytesMax, let (item, slot) = pipeline.begin()
    {
      switch item {
      case .refusal(let error):
        Reply.failure(error, to: &output)
      case .request(let request):
        guard let slot else {
          read(context, request)
          continue
        }
        perform(context, request, slot)
      }
    }
  }

  private func read(_ context: ChannelHandlerContext, _ request: Request) {
    let line = service.read(request, as: identity, cache, lists, to: &output)
    if let line { share(context, line) }
  }

  private func perform(_ context: ChannelHandlerContext, _ request: Request, _ slot: Int) {
    let loop = context.eventLoop
    let bound = NIOLoopBound((self, context), eventLoop: loop)
    let answer: @Sendable (Response) -> Void = { response in
      if loop.inEventLoop {
        let (handler, context) = bound.value
        handler.finish(context, slot, response)
      } else {
        loop.execute {
          let (handler, context) = bound.value
          handler.finish(context, slot, response)
          handler.proceed(context)
        }
      }
    }
    switch service.kind(of: request) {
    case .write:
      service.write(request, as: identity, answer: answer)
    case .read:
      // Read now, told when the events are that led to what was read.
      var text = JSONOutput()
      service.read(request, as: identity, cache, to: &text)
      let response = Response(line: text.bytes)
      service.engine.whenTold { answer(response) }
    case .exclusive:
      if service.isAboutEvents(request) { return changeSubscriptions(context, request, slot) }
      if case .onDisconnect = request { arming = slot }
      // One task for a request that waits for hashing or the store.
      let task = Task { [service, identity, address, armed] in
        answer(await service.exclusive(request, as: identity, from: address, armed))
      }
      if service.endsWithItsConnection(request) { tasks[slot] = task }
    }
  }

  private func finish(_ context: ChannelHandlerContext, _ slot: Int, _ response: Response) {
    tasks[slot] = nil
    guard let identity = response.identity, let subscriptions, subscriptions.areJudged else {
      return settle(context, slot, response)
    }
    // Those that it may not have as somebody else end before it is.
    subscriptions.judge(as: identity) { [self] in
      settle(context, slot, response)
      proceed(context)
    }
  }

  private func settle(_ context: ChannelHandlerContext, _ slot: Int, _ response: Response) {
    if let identity = response.identity {
      // The connection may have gone meanwhile: then nobody holds the login.
      take(identity)
      if !context.channel.isActive { take(.anonymous) }
    }
    if slot == arming {
      arming = nil
      if let armed = response.armed { self.armed = armed }
      if hasLeft { carryOut(context.eventLoop) }
    }
    if response.closes {
      inputHasEnded = true
      backlog = nil
      pipeline.dropWaiting()
    }
    pipeline.finish(slot, response.line)
  }

  private func take(_ identity: Identity) {
    if case .user(let session) = self.identity { service.sessions.remove(session) }
    self.identity = identity
  }

  /// Goes on as far as possible: begins requests, sends replies, reads on, closes.
  private func proceed(_ context: ChannelHandlerContext) {
    guard !isClosing else { return }
    var hasProgress = true
    while hasProgress {
      start(context)
      while let reply = pipeline.nextReply() {
        subscriptions?.hub.takeArrived()
        // That may have been too much for it.
        guard !isClosing else { return }
        reply.withUnsafeBytes { output.append($0) }
        start(context)
      }
      hasProgress =
        output.count >= min(LineHandler.sentBytesMin, service.limits.unreadReplyBytesMax)
      if hasProgress { send(context) }
      if let kept = backlog, canTakeMore(context) {
        backlog = nil
        feed(context, kept)
        hasProgress = true
      }
    }
    // The channel may have gone while replies were sent.
    guard !isClosing else { return }
    if inputHasEnded, backlog == nil, pipeline.isIdle {
      send(context)
      return close(context)
    }
    if output.count > 0 || shared != nil { flushLater() }
    let wantsMore = backlog == nil && canTakeMore(context)
    if wantsMore != isReading {
      isReading = wantsMore
      context.channel.setOption(.autoRead, value: wantsMore).whenFailure { _ in }
    }
  }

  /// Closes when all replies are sent.
  ///
  /// Closing a socket while bytes lie in it that nobody has read resets the connection, and a reset can
  /// take replies from the client that it has not read yet. So the sending side ends first; what still
  /// comes is dropped until the client ends its own, or for a moment.
  private func close(_ context: ChannelHandlerContext) {
    isClosing = true
    leave(context.eventLoop)
    // Closing drops what is not sent yet, so it waits for an empty write after all the others.
    context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in
      guard !self.clientHasEnded, context.channel.isActive else {
        return context.close(promise: nil)
      }
      self.lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
        context.close(promise: nil)
      }
      context.close(mode: .output, promise: nil)
      context.channel.setOption(.autoRead, value: true).whenFailure { _ in }
    }
  }

  private func send(_ context: ChannelHandlerContext) {
    let first = shared.take()
    guard output.count > 0 else {
      if let first { writeAndFlush(context, first) }
      return
    }
    let buffer = takeOutput(context)
    if let first { write(context, first) }
    writeAndFlush(context, buffer)
  }

  private func takeOutput(_ context: ChannelHandlerContext) -> ByteBuffer {
    defer { output.removeAll() }
    return output.withBytes { context.channel.allocator.buffer(bytes: $0) }
  }

  /// Has bytes sent that others get as well, after all that is to be sent before.
  private func share(_ context: ChannelHandlerContext, _ bytes: ByteBuffer) {
    if let earlier = shared.take() { write(context, earlier) }
    if output.count > 0 { write(context, takeOutput(context)) }
    shared = bytes
  }

  /// Hands bytes to the channel, which sends them with the next flush.
  private func write(_ context: ChannelHandlerContext, _ buffer: ByteBuffer) {
    context.write(wrapOutboundOut(buffer), promise: nil)
  }

  /// Sends all that the channel has been handed. What goes out last went out after all the rest: so
  /// one promise counts for all.
  private func writeAndFlush(_ context: ChannelHandlerContext, _ buffer: ByteBuffer) {
    let count = unflushedEventBytes
    guard count > 0 else { return context.writeAndFlush(wrapOutboundOut(buffer), promise: nil) }
    unflushedEventBytes = 0
    context.writeAndFlush(wrapOutboundOut(buffer)).assumeIsolated().whenComplete { _ in
      self.eventBytes -= count
    }
  }

  // MARK: Subscriptions, and what is to be done when the connection ends

  /// Carries out LISTEN, WATCH and UNLISTEN.
  private func changeSubscriptions(
    _ context: ChannelHandlerContext, _ request: Request, _ slot: Int
  ) {
    let hub = service.hubs.value(of: context.eventLoop)
    let subscriptions = subscriptions ?? Subscriptions(service, hub, for: self)
    self.subscriptions = subscriptions
    do throws(WireError) {
      if case .unlisten(let number) = request {
        try subscriptions.end(number)
        return finish(context, slot, .null)
      }
      let wish = try service.wish(request, as: identity)
      var isAtOnce = true
      subscriptions.begin(wish, as: identity) { [self] line in
        finish(context, slot, Response(line: line))
        // Nothing else is under way, so it goes out now, and what comes next is an event.
        while let reply = pipeline.nextReply() { reply.withUnsafeBytes { output.append($0) } }
        if !isAtOnce { proceed(context) }
      }
      isAtOnce = false
    } catch {
      finish(context, slot, Response(error))
    }
  }

  /// Ends what others have of this connection. Once.
  private func leave(_ loop: any EventLoop) {
    guard !hasLeft else { return }
    hasLeft = true
    subscriptions?.endAll()
    carryOut(loop)
  }

  private func carryOut(_ loop: any EventLoop) {
    // While they are being changed it is not known which there are: then `finish` does this.
    guard arming == nil, !armed.isEmpty else { return }
    service.carryOut(armed, on: loop)
    armed = []
  }
}

extension LineHandler: Subscriber {
  func receive(_ lines: ByteBuffer, of subscription: Subscription) {
    guard !isClosing, let context else { return }
    let count = lines.readableBytes
    if eventBytes > 0, eventBytes + count > service.limits.queuedBytesMax {
      return overload(context)
    }
    eventBytes += count
    unflushedEventBytes += count
    if output.count > 0, count < LineHandler.sharedBytesMin {
      lines.withUnsafeReadableBytes { output.append($0) }
    } else {
      share(context, lines)
    }
    flushLater()
  }

  /// Replies of so many bytes are not kept until the others of their turn are ready.
  private static let sentBytesMin = 16 * 1024

  /// Lines from so many bytes on are not copied to follow others in one buffer.
  private static let sharedBytesMin = 4096

  func cancel(_ subscription: Subscription, _ code: WireError.Code) {
    subscriptions?.remove(subscription)
    guard !isClosing else { return }
    EventLines(cancel: code).bytes(for: subscription.number).withUnsafeReadableBytes {
      output.append($0)
    }
    flushLater()
  }

  private func flushLater() {
    guard !flushIsDue, let hub else { return }
    flushIsDue = true
    hub.flushLater(self)
  }

  func flushEvents() {
    flushIsDue = false
    if !isClosing, let context { send(context) }
  }

  /// Gives up on a client that does not take its events: it is told, should it still read, and
  /// disconnected.
  private func overload(_ context: ChannelHandlerContext) {
    let error = WireError(
      .overloaded,
      "this connection has left more than \(service.limits.queuedBytesMax) bytes of events unread; it "
        + "closes")
    Reply.failure(error, to: &output)
    inputHasEnded = true
    backlog = nil
    pipeline.dropWaiting()
    send(context)
    close(context)
    lingering = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(10)) {
      context.close(promise: nil)
    }
  }
}
