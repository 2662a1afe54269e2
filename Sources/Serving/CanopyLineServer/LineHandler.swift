internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOExtras

/// Drives one connection of the line protocol: turns bytes into requests of a `Session`, and its actions
/// into bytes.
///
/// The session decides; the handler performs. It runs on the connection's event loop. Its other files carry
/// out requests, send, and connect subscriptions to the hub.
final class LineHandler: ChannelInboundHandler, Connection {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  let shared: LoopContext
  var session: Session
  let input: LineInput
  var output = LineOutput()
  var scheduled = ScheduledWork()
  var closing = Closing()
  var client = Client()
  private(set) var context: ChannelHandlerContext?
  /// The tasks of requests, to cancel when the connection is gone.
  var tasks: [Session.Slot: Task<Void, Never>] = [:]
  var subscribers: [Int64: HubSubscription] = [:]
  var resumptions: [Int64: Task<Void, Never>] = [:]
  /// Authorizes the subscriptions again when the user's session expires.
  var expiry: Scheduled<Void>?

  /// Work of the connection that its event loop does later.
  struct ScheduledWork {
    /// Whether the connection is in the queue of those to flush.
    var flushes = false
    /// Whether a request has an outcome that is not looked at yet.
    var advances = false
    /// Whether the connection waits for its turn to encode a piece or to carry out requests.
    var takesTurn = false
    /// The requests of the present turn.
    var turn = WorkBudget.Turn()
    /// Decodes a long line beside the event loop.
    var decoding: Task<Void, Never>?
  }

  /// The end of the connection.
  struct Closing {
    /// Whether the connection closes when everything is encoded.
    var waitsForPieces = false
    /// Closes the connection if the client does not.
    var lingering: Scheduled<Void>?
  }

  /// The other side of the connection.
  struct Client: ~Copyable {
    var address = "local"
    /// Whether the client has ended its sending side.
    var hasEnded = false
    /// The memory that the connection holds, once it is enough to report.
    var account: MemoryBudget.Account?
  }

  init(shared: LoopContext) {
    self.shared = shared
    let limits = shared.operations.limits
    session = Session(limits: limits)
    input = LineInput(lineBytesMax: limits.lineBytesMax)
  }

  var operations: Operations { shared.operations }

  // MARK: Events of the channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    // A channel of another listener is active already.
    if context.channel.isActive { noteAddress(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelActive(context: ChannelHandlerContext) {
    noteAddress(context)
    context.fireChannelActive()
  }

  private func noteAddress(_ context: ChannelHandlerContext) {
    client.address = context.remoteAddress?.ipAddress ?? "local"
  }

  func channelInactive(context: ChannelHandlerContext) {
    closing.lingering?.cancel()
    expiry?.cancel()
    for task in tasks.values { task.cancel() }
    scheduled.decoding?.cancel()
    session.lose()
    perform(context)
    output.removeAll()
    client.account?.report(0)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    operations.logger.debug("a connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case ChannelEvent.inputClosed:
      client.hasEnded = true
      if closing.lingering != nil { return context.close(promise: nil) }
      session.endInput()
      advance(context)
    case is ChannelShouldQuiesceEvent:
      // The requests that were received are still carried out and answered.
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
    if !input.keep(&buffer) { decode(context, buffer) }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    advance(context)
    context.fireChannelReadComplete()
  }

  // MARK: The session and its actions

  /// Does everything that can be done now: begins requests, sends replies, reads on, closes.
  func advance(_ context: ChannelHandlerContext) {
    // The caller of the decoder advances when the decoder returns.
    if input.isDecoding { return perform(context) }
    while true {
      session.setInput(bytes: input.byteCount, hasBacklog: input.hasBacklog)
      perform(context)
      if !output.hasPieces,
        output.text.count >= min(LineHandler.sentBytesMin, operations.limits.unreadReplyBytesMax)
      {
        flush(context)
        continue
      }
      guard session.wantsInput, let kept = input.takeBacklog() else { break }
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
      case .carryOut(let armed, let identity):
        let loop = context.eventLoop
        operations.carryOut(armed, as: identity, from: client.address) { body in
          loop.scheduleTask(in: .seconds(1)) { body() }
        }
      case .close: close(context)
      }
    }
  }
}
