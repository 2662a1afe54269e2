internal import CanopyEngine
internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// Drives one connection of the line protocol: turns bytes into requests of a `Session`, and its replies into bytes.
///
/// The superclass drives the session. The other file has the subscriptions (`+Subscriptions`).
final class LineHandler: SessionHandler, ClientProtocol, ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  /// The state that the connections to the present namespace share.
  @exclusivity(unchecked) private(set) var shared: LoopContext
  /// The state for the default namespace.
  private let home: LoopContext
  /// Keeps the present namespace open; nil for the default one.
  private var namespace: NamespaceLease?
  let input: LineInput
  /// The handler before this one if it is a `ReadTurns`, else nil. Output skips it, because it does nothing with
  /// output.
  private let reading: ReadTurns?

  /// The bytes charged for a connection that is idle: its channel and its handlers, the session, and the buffer of the
  /// last read. Measured by the growth of a release process (RSS): 5 KiB before the first request, up to 11 KiB after
  /// it.
  static let connectionBytes = 8 * 1024

  /// - Parameters:
  ///   - reading: the handler before this one if it is a `ReadTurns`, else nil.
  ///   - isWebSocket: whether the lines come over a WebSocket, whose listener charges the idle connection.
  init(shared: LoopContext, behind reading: ReadTurns? = nil, isWebSocket: Bool = false) {
    self.shared = shared
    self.reading = reading
    home = shared
    input = LineInput(lineBytesMax: shared.operations.limits.lineBytesMax)
    super.init(
      shared, input, isWebSocket ? .lineWebSocket : .line,
      idleBytes: isWebSocket ? 0 : LineHandler.connectionBytes)
  }

  override func use(_ lease: NamespaceLease) {
    shared = home.context(of: lease.operations)
    move(to: shared)
    namespace?.release()
    namespace = lease
  }

  override func leaveNamespace() {
    shared = home
    move(to: home)
    namespace?.release()
    namespace = nil
  }

  override func channelInactive(context: ChannelHandlerContext) {
    super.channelInactive(context: context)
    namespace?.release()
  }

  // MARK: Input

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard beginInput() else { return }
    var buffer = unwrapInboundIn(data)
    if !input.keep(&buffer) { decode(context, buffer) }
  }

  func decode(_ context: ChannelHandlerContext, _ buffer: ByteBuffer) {
    let invalid = input.decode(buffer) { line in
      guard line.count < Operations.longTextBytes else {
        receiveLong(context, line)
        return wantsInput
      }
      countWork(bytes: line.count)
      do throws(WireError) {
        let request = try Request(line: line, limits: operations.limits)
        if case .read(let read) = request, readIfIdle(context, read) { return wantsInput }
        session.receive(request, bytes: request.memoryBytes(text: line))
      } catch {
        session.refuse(error)
      }
      perform(context)
      return wantsInput
    }
    guard let invalid else { return }
    switch invalid {
    case .foreign(let foreign): session.refuse(foreign.error)
    case .tooLong:
      session.refuse(
        WireError(
          .tooLarge,
          "a line may have at most \(operations.limits.lineBytesMax) bytes; the connection closes"))
    }
    session.endRequests()
  }

  private func receiveLong(_ context: ChannelHandlerContext, _ line: UnsafeRawBufferPointer) {
    let origin = Request.origin(inBeginningOf: line)
    decodeBeside(context, line) { [limits = operations.limits] line, bytes, pause in
      let request = try Request(line: line, limits: limits, pausing: pause)
      return (request, bytes + request.pathBytes)
    } receive: { [self] decoded in
      switch decoded {
      case .success(let (request, bytes)):
        session.receive(request, bytes: bytes)
      case .failure(let error):
        let error = operations.wireError(error)
        guard let origin else { return session.refuse(error) }
        // In its turn, when its identity is known: later writes of the client must not overtake it.
        session.receive(.write(.undecoded(origin, error)), bytes: 256)
      }
    }
  }

  // MARK: Output

  func readAtOnce(_ context: ChannelHandlerContext, _ request: ReadRequest) -> Bool {
    appendReply(context) { identity, inbox, output in
      shared.read(request, as: identity, in: inbox, to: &output)
    }
  }

  func send(_ context: ChannelHandlerContext, _ reply: Reply, at snapshot: Snapshot?) {
    if case .subscribed(let subscribed) = reply { return begin(context, subscribed) }
    guard session.isOpen else { return }
    shared.codec.encode(reply, to: &output, counting: shared.metrics)
    noteUnsent(context)
  }

  var outputContext: ChannelHandlerContext? { reading?.place ?? context }

  func appendEnd(_ reason: WireError?) {
    if let reason { ReplyLine.failure(reason, to: &output.text) }
  }

  // MARK: Subscriptions

  func listen(
    _ context: ChannelHandlerContext, _ request: ListenRequest, _ slot: Session.Slot
  ) throws(WireError) {
    let identity = session.identity
    let wanted: SubscriptionRequest
    switch request {
    case .unlisten(let number):
      try session.unsubscribe(number)
      return session.finish(slot, Session.Completion(.null))
    case .listen(let path, let options):
      wanted = try operations.subscription(to: path, options, as: identity)
    case .info(let path, let options):
      wanted = try operations.subscription(toInfo: path, options)
    case .watch(let target, let options):
      wanted = try operations.subscription(to: target, options, as: identity)
    }
    let number = try session.subscribe(wanted, slot)
    switch wanted.subject {
    case .constant(let node, let form):
      session.answerConstant(
        number, slot, sequence: hub.inbox.snapshot.sequence, .constant(node, form))
    case .tree(let listening): begin(number, listening, isAuthorized: wanted.isAuthorized)
    }
  }

  func knownHash(_ number: Int64) -> String? { nil }

  var beginsAfterEvents: Bool { false }

  func forget(_ number: Int64, _ code: WireError.Code?) {
    if let code { EventLines(cancel: code).append(to: &output.text, for: number) }
  }

  // The protocol keeps nothing about subscriptions.
  func forgetAll() {}
}
