internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import Logging
internal import NIOCore
internal import NIOExtras
internal import NIOWebSocket

/// Drives one connection of the realtime protocol: turns frames into requests of a `Session`, and its actions into
/// frames.
///
/// The session decides; the handler performs. It runs on the connection's event loop. Its other files carry out
/// requests, answer, send, and connect listeners to the hub.
final class RealtimeHandler: ChannelInboundHandler, Connection {
  typealias InboundIn = WebSocketFrame

  let shared: RealtimeLoop
  let raw: RawOutput
  /// Charges the frames that are not complete.
  private let frames: UnfinishedFrames?
  /// The name and port of the server for the client.
  private let host: String
  var session: Session
  var input: RealtimeInput
  var output = LineOutput()
  var answers = PendingAnswers()
  var scheduled = ScheduledWork()
  var closing = Closing()
  var client = Client()
  private(set) var context: ChannelHandlerContext?
  /// The tasks of requests, to cancel when the connection is gone.
  var tasks: [Session.Slot: Task<Void, Never>] = [:]
  /// The measurements of requests that are under way, by slot.
  var measurements: [Session.Slot: RequestMetrics.Measurement] = [:]
  /// The listeners, by the numbers of their subscriptions.
  var listeners: [Int64: RealtimeListener] = [:]
  /// The number of each listener.
  var numbers: [ListenTarget: Int64] = [:]
  /// Authorizes the listeners again when the user's session expires.
  var expiry: Scheduled<Void>?
  /// The session whose end is announced to the client.
  var watched: UserSession?
  /// Whether an action is being performed. A call from within it performs nothing, as the order of answers would
  /// change.
  private var isPerforming = false
  private var hasBegun = false

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
    /// Decodes a long message beside the event loop.
    var decoding: Task<Void, Never>?
    /// Whether a frame is being decoded.
    var isDecoding = false
  }

  /// The end of the connection.
  struct Closing {
    /// The last message for the client.
    var farewell: String?
    /// Whether the connection closes when everything is encoded.
    var waitsForPieces = false
    /// Closes the connection if the client does not.
    var lingering: Scheduled<Void>?
  }

  /// The other side of the connection.
  struct Client: ~Copyable {
    var address = "local"
    /// The group in which the long work of the connection takes turns; nil before the handler is added.
    var turns: TurnGroup?
    /// Whether the client has ended its sending side.
    var hasEnded = false
    /// The newest check of the client that is not answered.
    var ping: ByteBuffer?
    /// The memory that the connection holds, once it is enough to report.
    var share: MemoryBudget.Share?
  }

  init(shared: RealtimeLoop, output: RawOutput, frames: UnfinishedFrames?, host: String) {
    self.shared = shared
    raw = output
    self.frames = frames
    self.host = host
    let limits = shared.operations.limits
    session = Session(limits: limits)
    input = RealtimeInput(bytesMax: limits.lineBytesMax)
  }

  var operations: Operations { shared.operations }

  // MARK: Events of the channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    if context.channel.isActive { begin(context) }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  func channelActive(context: ChannelHandlerContext) {
    begin(context)
    context.fireChannelActive()
  }

  /// Sends the first message.
  private func begin(_ context: ChannelHandlerContext) {
    guard !hasBegun else { return }
    hasBegun = true
    client.address = context.remoteAddress?.ipAddress ?? "local"
    client.turns = Operations.turns(of: ObjectIdentifier(self), at: client.address)
    append { [host, shared] output in
      ServerMessage.handshake(
        milliseconds: shared.operations.now(), host: host,
        session: shared.nextSessionID(), to: &output)
    }
    flush(context)
  }

  func channelInactive(context: ChannelHandlerContext) {
    closing.lingering?.cancel()
    expiry?.cancel()
    for task in tasks.values { task.cancel() }
    for listener in listeners.values { listener.measurement?.cancel() }
    scheduled.decoding?.cancel()
    session.lose()
    perform(context)
    output.removeAll()
    client.share?.leave(holding: session.ledger.requests)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    operations.logger.debug("a realtime connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    case ChannelEvent.inputClosed: endInput(context)
    case is ChannelShouldQuiesceEvent:
      // The requests that were received are still carried out and answered.
      session.endInput()
      advance(context)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  private func endInput(_ context: ChannelHandlerContext) {
    client.hasEnded = true
    if closing.lingering != nil { return context.close(promise: nil) }
    session.endInput()
    advance(context)
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    noteUnsent(context)
    advance(context)
    encodeLater(context)
    context.fireChannelWritabilityChanged()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    frames?.receive(frame)
    guard session.takesInput else {
      if frame.opcode == .connectionClose { endInput(context) }
      return
    }
    // The client may know of commits that the loop has not read yet.
    shared.inbox.release()
    switch input.receive(frame) {
    case .text(let text):
      // The answer to a check precedes that to a later message.
      if client.ping != nil { answerPing() }
      if input.hasBacklog || !session.wantsInput || scheduled.isDecoding {
        input.keep(text)
      } else {
        decode(context, text)
      }
    case .ping(let bytes):
      // A copy, so that the bytes of other frames are not kept as well.
      client.ping = ByteBuffer(bytes.readableBytesView)
    case .close: endInput(context)
    case .none: break
    case .invalid(let sentence): fail(sentence)
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    advance(context)
    context.fireChannelReadComplete()
  }

  // MARK: The session and its actions

  /// Does everything that can be done now: begins requests, sends answers, reads on, closes.
  func advance(_ context: ChannelHandlerContext) {
    // The caller of the decoder advances when the decoder returns.
    if scheduled.isDecoding { return perform(context) }
    while true {
      session.setInput(bytes: input.byteCount, hasBacklog: input.hasBacklog)
      perform(context)
      if !output.hasPieces,
        output.text.count
          >= min(RealtimeHandler.sentBytesMin, operations.limits.unreadReplyBytesMax)
      {
        flush(context)
        continue
      }
      guard session.wantsInput, input.bytesBeside == 0, let kept = input.takeBacklog() else {
        break
      }
      decode(context, kept)
    }
    answerPing()
    if output.hasBuffers {
      if session.isOpen { flushLater() }
    } else {
      encodeLater(context)
    }
    charge()
  }

  /// The number of bytes of answers from which on they do not wait for others.
  static let sentBytesMin = 16 * 1024

  func perform(_ context: ChannelHandlerContext) {
    guard !isPerforming else { return }
    isPerforming = true
    defer { isPerforming = false }
    while let action = session.nextAction() {
      switch action {
      case .read(let request):
        countWork()
        _ = answers.begin()
        read(context, request)
      case .begin(let request, let slot):
        countWork()
        begin(context, request, answers.begin(), slot)
      case .send(let reply): send(context, reply)
      case .setReading(let isReading):
        context.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
      case .resume(let number, _, let start): measure(context, number, start)
      case .unlisten(let number, let code): unlisten(number, code)
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

  /// Takes no more requests. When those that were taken are answered, the client gets the reason, and the connection
  /// closes.
  func fail(_ sentence: String) {
    guard session.takesInput else { return }
    closing.farewell = sentence
    input.drop()
    session.endRequests()
  }
}
