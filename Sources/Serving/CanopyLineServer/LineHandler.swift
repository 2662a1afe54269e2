internal import CanopyEngine
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOExtras

/// Drives one connection of the line protocol: turns bytes into requests of a `Session`, and its actions
/// into bytes.
///
/// The session decides; this performs. Everything happens on the connection's event loop.
final class LineHandler: ChannelInboundHandler, Connection {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let operations: Operations
  let shared: LoopContext
  var account: MemoryBudget.Account?
  var session: Session
  private var decoder: LineDecoder
  /// Whether a piece of input is being decoded, in the course of which requests begin.
  private var isDecoding = false
  /// Bytes that arrived while the session took no more requests.
  var backlog: ByteBuffer?
  var output = LineOutput()
  var flushIsDue = false
  /// Whether a request has an outcome that is not looked at yet.
  private var isAdvanceDue = false
  /// Whether the connection waits for its turn to encode a piece or to carry out requests.
  var turnIsDue = false
  /// The requests that it carries out in one go.
  var turn = WorkBudget.Turn()
  /// Whether the connection closes when everything is encoded.
  var closesWhenEncoded = false
  private(set) var context: ChannelHandlerContext?
  var address = "local"
  /// Whether the client has ended its sending side.
  var clientHasEnded = false
  /// Closes the connection if the client does not.
  var lingering: Scheduled<Void>?
  /// The tasks of requests that are of no use without the connection.
  private var tasks: [Session.Slot: Task<Void, Never>] = [:]
  var subscribers: [Int64: HubSubscription] = [:]
  var resumptions: [Int64: Task<Void, Never>] = [:]
  /// Authorizes the subscriptions again when the user's session expires.
  var expiry: Scheduled<Void>?

  init(_ operations: Operations, shared: LoopContext) {
    self.operations = operations
    self.shared = shared
    session = Session(limits: operations.limits)
    decoder = LineDecoder(lineBytesMax: operations.limits.lineBytesMax)
  }

  // MARK: Events of the channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelActive(context: ChannelHandlerContext) {
    address = context.remoteAddress?.ipAddress ?? "local"
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    lingering?.cancel()
    expiry?.cancel()
    for task in tasks.values { task.cancel() }
    session.lose()
    perform(context)
    output.removeAll()
    account?.report(0)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    operations.logger.debug("a connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case ChannelEvent.inputClosed:
      clientHasEnded = true
      if lingering != nil { return context.close(promise: nil) }
      session.endInput()
      advance(context)
    case is ChannelShouldQuiesceEvent:
      // Requests that were received are still carried out and answered.
      session.endInput()
      advance(context)
    default:
      context.fireUserInboundEventTriggered(event)
    }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    noteUnsent(context)
    advance(context)
    encodeLater(context)
    context.fireChannelWritabilityChanged()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard session.takesInput else { return }
    // The client may know of commits that the loop has not read yet.
    shared.inbox.release()
    var buffer = unwrapInboundIn(data)
    if backlog != nil {
      backlog?.writeBuffer(&buffer)
    } else {
      decode(context, buffer)
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    advance(context)
    context.fireChannelReadComplete()
  }

  // MARK: From bytes to requests

  private func decode(_ context: ChannelHandlerContext, _ buffer: ByteBuffer) {
    var buffer = buffer
    isDecoding = true
    defer { isDecoding = false }
    var isForeign = false
    let outcome = buffer.withUnsafeReadableBytes { bytes in
      decoder.feed(bytes) { line in
        if let foreign = ForeignProtocol(line: line) {
          // Nothing that follows is read: it may be the body of a request that a web page has made.
          isForeign = true
          session.refuse(foreign.error)
          session.endRequests()
          return false
        }
        receive(context, line)
        return session.wantsInput
      }
    }
    switch outcome {
    case _ where isForeign: break
    case .done: break
    case .stopped(let consumed):
      buffer.moveReaderIndex(forwardBy: consumed)
      // A copy of the rest, so that what was consumed is not kept as well.
      backlog = ByteBuffer(buffer.readableBytesView)
    case .tooLong:
      session.refuse(
        WireError(
          .tooLarge,
          "a line may have at most \(operations.limits.lineBytesMax) bytes; the connection closes"))
      session.endRequests()
    }
  }

  private func receive(_ context: ChannelHandlerContext, _ line: UnsafeRawBufferPointer) {
    countWork()
    do throws(WireError) {
      let request = try Request(line: line, limits: operations.limits)
      if case .read(let read) = request, session.readsAtOnce(request) {
        return self.read(context, read)
      }
      session.receive(
        request, bytes: LineHandler.memory(of: line), runsAlone: operations.runsAlone(request))
    } catch {
      session.refuse(error)
    }
    perform(context)
  }

  /// Returns an estimate of the memory that the request of a line takes, in bytes.
  ///
  /// A short element of JSON takes a place in a page: some 64 bytes, however short it is.
  private static func memory(of line: UnsafeRawBufferPointer) -> Int {
    guard line.count > 256 else { return 1024 }
    var elements = 0
    for byte in line where byte == UInt8(ascii: ",") || byte == UInt8(ascii: "{") { elements += 1 }
    return 1024 + line.count + 64 * elements
  }

  // MARK: From actions to bytes

  /// Performs everything that can be done now: begins requests, sends replies, reads on, closes.
  func advance(_ context: ChannelHandlerContext) {
    // The caller of the decoder goes on when it is through.
    if isDecoding { return perform(context) }
    while true {
      session.setInput(
        bytes: decoder.keptBytes + (backlog?.readableBytes ?? 0), hasBacklog: backlog != nil)
      perform(context)
      if !output.hasPieces,
        output.text.count >= min(LineHandler.sentBytesMin, operations.limits.unreadReplyBytesMax)
      {
        flush(context)
        continue
      }
      guard let kept = backlog, session.wantsInput else { break }
      backlog = nil
      decode(context, kept)
    }
    if output.hasBuffers {
      if session.isOpen { flushLater() }
    } else {
      encodeLater(context)
    }
    charge()
  }

  /// The number of bytes of replies from which on they do not wait for others.
  static let sentBytesMin = 16 * 1024

  func perform(_ context: ChannelHandlerContext) {
    while let action = session.nextAction() {
      switch action {
      case .read(let request):
        countWork()
        read(context, request)
      case .begin(let request, let slot):
        countWork()
        begin(context, request, slot)
      case .send(let reply): send(context, reply)
      case .setReading(let isReading):
        context.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
      case .resume(let number, let since, let start): resume(context, number, since, start)
      case .unlisten(let number, let code): unlisten(context, number, code)
      case .reauthorize(let subscriptions, let identity):
        reauthorize(context, subscriptions, identity)
      case .release(let login): operations.sessions.remove(login)
      case .carryOut(let armed, let identity): carryOut(armed, identity, context.eventLoop)
      case .close: close(context)
      }
    }
  }

  /// Counts a request. If the connection has had its turn, no further request begins until the next one.
  private func countWork() {
    guard shared.work.count(&turn), !session.isPaused else { return }
    session.pause(true)
    takeTurnLater()
  }

  func takeTurnLater() {
    guard !turnIsDue else { return }
    turnIsDue = true
    shared.turns.append(self)
  }

  private func read(_ context: ChannelHandlerContext, _ request: ReadRequest) {
    // The events that led to the snapshot go out first.
    if !subscribers.isEmpty { shared.hub.drain() }
    if !shared.read(request, as: session.identity, to: &output) {
      readLong(context, request, session.postponeRead())
    }
    noteUnsent(context)
  }

  private func send(_ context: ChannelHandlerContext, _ reply: Reply) {
    if case .subscribed(let subscribed) = reply { return begin(context, subscribed) }
    // The events before the reply go out first.
    if !subscribers.isEmpty { shared.hub.drain() }
    if session.isOpen { encode(reply) }
  }

  /// Appends the line of a reply. Returns false when it was too large, and an error was sent instead.
  @discardableResult
  func encode(_ reply: Reply) -> Bool {
    defer { context.map(noteUnsent) }
    return shared.encode(reply, to: &output)
  }

  private func begin(_ context: ChannelHandlerContext, _ request: Request, _ slot: Session.Slot) {
    let complete = completion(context, slot)
    switch request {
    case .write(let write):
      operations.write(write, as: session.identity, from: address) {
        complete(Session.Completion($0))
      }
    case .read(let read):
      orderedRead(context, read, slot)
    case .account(let request):
      let task = Task { [operations, identity = session.identity, address] in
        complete(await operations.account(request, as: identity, from: address))
      }
      // Ending a session counts even if the client cuts the connection: a thief must not keep a login
      // that its owner has just ended.
      switch request {
      case .changePassword, .logOut: break
      case .signUp, .logIn, .authenticate: tasks[slot] = task
      }
    case .administration(let request):
      Task { [operations, identity = session.identity] in
        complete(await operations.administration(request, as: identity))
      }
    case .connection(.quit):
      var completion = Session.Completion(.farewell)
      completion.closes = true
      complete(completion)
    case .connection(.onDisconnect(let request, let text)):
      Task { [operations, identity = session.identity, armed = session.armed] in
        complete(await operations.onDisconnect(request, text: text, as: identity, armed))
      }
    case .listen(let request):
      do throws(WireError) { try listen(context, request, slot) } catch {
        complete(Session.Completion(error))
      }
    }
  }

  /// Reads when no earlier write is under way.
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

  private func readNow(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    shared.inbox.release()
    if !subscribers.isEmpty { shared.hub.drain() }
    let root = shared.inbox.snapshot.root
    if let reply = operations.read(request, as: session.identity, in: root) {
      finish(slot, Session.Completion(reply))
    } else {
      readLong(context, request, slot)
    }
  }

  /// Carries out a read of the loop's snapshot that may take long, off the event loop.
  private func readLong(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot
  ) {
    let complete = completion(context, slot)
    let connection = ObjectIdentifier(self)
    let root = shared.inbox.snapshot.root
    tasks[slot] = Task { [operations, identity = session.identity] in
      complete(
        Session.Completion(
          await operations.longRead(request, as: identity, in: root, of: connection)))
    }
  }

  /// Returns a closure that takes the answer to a request, from any thread.
  private func completion(
    _ context: ChannelHandlerContext, _ slot: Session.Slot
  ) -> @Sendable (Session.Completion) -> Void {
    let inbox = shared.inbox
    let bound = NIOLoopBound((self as any Connection, context), eventLoop: inbox.loop)
    return { completion in
      if inbox.loop.inEventLoop {
        bound.value.0.finish(slot, completion)
      } else {
        inbox.complete(LoopInbox.Outcome(connection: bound, slot: slot, completion: completion))
      }
    }
  }

  func finish(_ slot: Session.Slot, _ completion: Session.Completion) {
    tasks[slot] = nil
    session.finish(slot, completion)
    if completion.closes { backlog = nil }
    isAdvanceDue = true
  }

  func advanceAfterOutcomes(_ context: ChannelHandlerContext) {
    guard isAdvanceDue else { return }
    isAdvanceDue = false
    advance(context)
  }

  private func carryOut(_ armed: [ArmedWrite], _ identity: Identity, _ loop: any EventLoop) {
    operations.carryOut(armed, as: identity, from: address) { body in
      loop.scheduleTask(in: .seconds(1)) { body() }
    }
  }
}
