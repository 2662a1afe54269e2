internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOExtras

/// Drives one connection of the line protocol: turns bytes into requests of a `Session`, and its actions
/// into bytes.
///
/// The session decides, and the handler performs its actions on the connection's event loop. This file drives
/// the session. The other files carry out requests (`+Requests`), send replies and events (`+Sending`), and connect
/// subscriptions to the hub (`+Subscriptions`).
final class LineHandler: ChannelInboundHandler, Connection {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The state that the connections to the present namespace share.
  private(set) var shared: LoopContext
  /// That of the default namespace.
  private let home: LoopContext
  /// Keeps the present namespace open; nil for the default one.
  private var namespace: NamespaceLease?
  var session: Session
  let input: LineInput
  var output = LineOutput()
  var scheduled = ScheduledWork()
  var closing = Closing()
  var client = Client()
  private(set) var context: ChannelHandlerContext?
  /// The tasks of requests by slot, to cancel when the connection is gone.
  var tasks: [Session.Slot: Task<Void, Never>] = [:]
  /// The measurements of requests that are under way, by slot.
  var measurements: [Session.Slot: RequestMetrics.Measurement] = [:]
  /// The subscriptions at the hub, by number.
  var subscribers: [Int64: HubSubscription] = [:]
  /// The tasks that read the journal or measure the state for new subscriptions, by number.
  var resumptions: [Int64: Task<Void, Never>] = [:]
  /// The task of the loop that authorizes the subscriptions again when the user's session expires.
  var expiry: Scheduled<Void>?

  /// Work of the connection that its event loop does later.
  struct ScheduledWork {
    /// Whether the connection is in the `FlushQueue`.
    var flushes = false
    /// Whether `advance` must run because a request has finished.
    var advances = false
    /// Whether the connection is in the queue of `LoopTurns`.
    var takesTurn = false
    /// Counts the requests of the present turn.
    var turn = WorkBudget.Turn()
    /// The task that decodes a long line beside the event loop.
    var decoding: Task<Void, Never>?
  }

  /// The end of the connection.
  struct Closing {
    /// Whether the connection closes when everything is encoded.
    var waitsForPieces = false
    /// The task of the loop that closes the connection if the client does not.
    var lingering: Scheduled<Void>?
  }

  /// The other side of the connection.
  struct Client: ~Copyable {
    var address = "local"
    /// The group in which the long work of the connection takes turns; nil before the connection is active.
    var turns: TurnGroup?
    /// Whether the client has ended its sending side.
    var hasEnded = false
    /// Reports the memory that the connection holds. Nil until that is enough to report.
    var share: MemoryBudget.Share?
  }

  init(shared: LoopContext) {
    self.shared = shared
    home = shared
    let limits = shared.operations.limits
    session = Session(limits: limits)
    input = LineInput(lineBytesMax: limits.lineBytesMax)
  }

  var operations: Operations { shared.operations }

  /// Makes a namespace that of the requests that follow. The connection has no subscriptions and no other requests.
  func use(_ lease: NamespaceLease) {
    shared = home.context(of: lease.operations)
    namespace?.release()
    namespace = lease
  }

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
    client.turns = Operations.turns(of: ObjectIdentifier(self), at: client.address)
  }

  func channelInactive(context: ChannelHandlerContext) {
    closing.lingering?.cancel()
    expiry?.cancel()
    for task in tasks.values { task.cancel() }
    scheduled.decoding?.cancel()
    session.lose()
    perform(context)
    output.removeAll()
    client.share?.leave(holding: session.ledger.requests)
    namespace?.release()
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

  /// Performs the actions of the session, decodes input that was kept, and sends the output now or later.
  func advance(_ context: ChannelHandlerContext) {
    // A line is being decoded: `advance` is called again when all lines are decoded.
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

  /// The size of encoded replies from which on they are sent at once, and do not wait for other replies.
  static let sentBytesMin = 16 * 1024

  /// Performs the actions of the session until it has no more.
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
