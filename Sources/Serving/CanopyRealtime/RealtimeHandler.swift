internal import CanopyEngine
internal import CanopyEvents
internal import CanopyRealtimeWire
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore
internal import NIOWebSocket

/// Drives one connection of the realtime protocol: turns frames into requests of a `Session`, and its replies into
/// frames.
///
/// The superclass drives the session. The other files decode requests (`+Requests`), answer (`+Sending`), and have the
/// listeners of the connection (`+Listening`).
final class RealtimeHandler: SessionHandler, ClientProtocol, ChannelInboundHandler {
  typealias InboundIn = WebSocketFrame

  let shared: RealtimeLoop
  private let raw: RawOutput
  /// The name and port of the server for the client.
  private let host: String
  /// Keeps the namespace open; nil for the default one.
  private var namespace: NamespaceLease?
  let input: RealtimeInput
  var answers = PendingAnswers() {
    didSet { input.answerBytes = answers.bytes }
  }
  /// The newest check of the client that is not answered.
  var ping: ByteBuffer?
  /// The listeners, by the numbers of their subscriptions.
  var listeners: [Int64: RealtimeListener] = [:]
  /// The number of each listener.
  var numbers: [ListenTarget: Int64] = [:]
  /// The code of the frame that closes the connection: that of a normal end, or of a frame that is not allowed.
  private var closeCode: UInt16 = 1000
  /// The login whose end is announced to the client.
  private var watched: UserSession?
  /// Identifies the connection; nil before it is active.
  private var id: RealtimeSessionID?
  /// The calls that wait for the end of all changes.
  private var replacements: [() -> Void] = []

  init(
    shared: RealtimeLoop, output: RawOutput, host: String, isOfForeignPage: Bool,
    namespace: NamespaceLease?
  ) {
    self.shared = shared
    self.namespace = namespace
    raw = output
    self.host = host
    input = RealtimeInput(bytesMax: shared.operations.limits.lineBytesMax)
    super.init(shared, input, .realtime)
    client.isOfForeignPage = isOfForeignPage
  }

  override func leaveNamespace() {
    namespace?.release()
    namespace = nil
  }

  /// Sends the first message.
  override func activate(_ context: ChannelHandlerContext) {
    super.activate(context)
    let id = shared.makeSessionID()
    self.id = id
    shared.sessions.add(self, id, on: context.eventLoop)
    append { [host, shared] output in
      ServerMessage.handshake(
        milliseconds: shared.operations.now(), host: host, session: id.text, to: &output)
    }
    flush(context)
  }

  /// Closes the connection at once, because its client has connected again, and drops the requests that have not begun.
  ///
  /// - Parameter completion: called when all changes of the connection have an outcome: its requests that are under way
  ///   and its on-disconnect writes.
  func replace(_ completion: @escaping () -> Void) {
    replacements.append(completion)
    context?.cutOff()
    if hasNoChanges { endChanges() }
  }

  override func endChanges() {
    if let id = id.take() { shared.sessions.remove(id) }
    for completion in replacements { completion() }
    replacements = []
  }

  // MARK: Input

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    guard session.takesInput else {
      if frame.opcode == .connectionClose { endInput(context) }
      return
    }
    // The client may know of commits that the loop has not read yet.
    hub.inbox.release()
    switch input.receive(frame) {
    case .text(let text):
      // The answer to a check precedes that to a later message.
      if ping != nil { answerPing() }
      if input.hasBacklog || !session.wantsInput || input.isDecoding {
        input.keep(text)
      } else {
        decode(context, text)
      }
    case .ping(let bytes):
      // A copy, so that the bytes of other frames are not kept as well.
      ping = ByteBuffer(bytes.readableBytesView)
    case .close: endInput(context)
    case .none: break
    case .invalid(let sentence):
      closeCode = 1002
      endRequests(sentence)
    }
  }

  /// Decodes a frame, and has the session receive the request if it completes one.
  func decode(_ context: ChannelHandlerContext, _ frame: ByteBuffer) {
    input.isDecoding = true
    defer { input.isDecoding = false }
    frame.withUnsafeReadableBytes { bytes in
      var assembler = input.assembler
      let framesMax = assembler.framesMax
      // A message of several frames must not be copied with the assembler.
      input.assembler = MessageAssembler(bytesMax: 0)
      assembler.receive(bytes) { outcome in
        switch outcome {
        case .incomplete: break
        case .message(let message): receiveMessage(context, message)
        case .invalid: endRequests("a message may have at most \(framesMax) frames")
        case .tooLarge(let number):
          let sentence =
            "a message may have at most \(operations.limits.lineBytesMax) bytes; write in smaller steps"
          if let number {
            refuse(number, WireError(.tooLarge, sentence))
          } else {
            endRequests(sentence)
          }
        }
      }
      input.assembler = assembler
    }
    perform(context)
  }

  // MARK: Requests

  override func read(_ context: ChannelHandlerContext, _ request: ReadRequest) {
    _ = answers.begin()
    super.read(context, request)
  }

  func readAtOnce(_ context: ChannelHandlerContext, _ request: ReadRequest) -> Bool {
    let root = hub.inbox.snapshot.root
    guard let reply = operations.read(request, as: session.identity, in: root) else { return false }
    answer(reply)
    return true
  }

  override func begin(
    _ context: ChannelHandlerContext, _ request: Request, _ slot: Session.Slot
  ) {
    switch (answers.begin(), request) {
    case (.conditionalMerge(let path, let hash), .write(.tree(.update(_, let changes)))):
      let outcome = pendingOutcome(context, slot)
      operations.update(
        path, changes, ifMatch: RealtimeHandler.etag(hash), as: session.identity,
        from: client.address, turns: client.turns, after: workBeforeWrite(slot)
      ) { outcome.complete(Session.Completion($0)) }
    case (.unauthenticate, _):
      // The token stays valid: the client may show it again.
      finish(slot, Session.Completion(.null, identity: .anonymous))
    case (_, .account(.authenticate(token: Operations.emulatorOwner)))
    where shared.configuration.isEmulator:
      finish(slot, Session.Completion(.null, identity: .administrator))
    default: super.begin(context, request, slot)
    }
  }

  // MARK: Answers

  /// Answers the first request that is not answered.
  func send(_ context: ChannelHandlerContext, _ reply: Reply, at snapshot: Snapshot?) {
    if case .subscribed = reply { return answer(reply) }
    answer(reply, at: snapshot)
  }

  var outputContext: ChannelHandlerContext? { raw.context }

  /// Appends the answer to the newest check of the client, if the client reads. The protocol allows a server to leave
  /// the others unanswered.
  override func answerPing() {
    // A frame of this kind has at most 125 bytes.
    guard session.isOpen, session.canBegin, let bytes = ping.take(), bytes.readableBytes < 126
    else { return }
    bytes.withUnsafeReadableBytes {
      MessageFrames.append(control: 0xA, $0, to: &output.text)
    }
    context.map(noteUnsent)
  }

  func appendEnd(_ reason: WireError?) {
    if let reason {
      MessageFrames.append(to: &output.text) { ServerMessage.error(reason.sentence, to: &$0) }
    }
    [UInt8(closeCode >> 8), UInt8(closeCode & 0xFF)].withUnsafeBytes {
      MessageFrames.append(control: 0x8, $0, to: &output.text)
    }
  }

  // MARK: Listeners

  func listen(
    _ context: ChannelHandlerContext, _ request: ListenRequest, _ slot: Session.Slot
  ) throws(WireError) {
    switch answers.begun {
    case .listen(let body): try listen(body, slot)
    case .unlisten(let target): try unlisten(target, slot)
    default: assertionFailure("the request is not that of the client")
    }
  }

  func knownHash(_ number: Int64) -> String? { listeners[number]?.body.hash }

  /// The client shows one value of a location that several listeners have.
  var beginsAfterEvents: Bool { true }

  func forget(_ number: Int64, _ code: WireError.Code?) {
    guard let listener = listeners.removeValue(forKey: number) else { return }
    if numbers[listener.body.target] == number { numbers[listener.body.target] = nil }
    if code != nil {
      append { output in
        ServerMessage.cancelled(
          listener.body.target.path, queryText: listener.body.queryText, to: &output)
      }
    }
  }

  func forgetAll() {
    listeners = [:]
    numbers = [:]
  }

  // MARK: The end of an identity

  /// Notifies the client when the session of its user ends.
  override func watchIdentity() {
    guard case .user(let login) = session.identity, session.isOpen else {
      cancelExpiry()
      watched = nil
      return
    }
    guard watched !== login else { return }
    watched = login
    let reference = reference()
    let loop = shared.loop
    // The session keeps the closure, so the closure must not keep the session.
    let id = ObjectIdentifier(login)
    login.onRevocation {
      loop.execute { (reference.value.handler as? RealtimeHandler)?.notifyEnd(of: id) }
    }
    expectExpiry(of: login)
  }

  override func expire(_ login: UserSession) {
    notifyEnd(of: ObjectIdentifier(login))
    super.expire(login)
  }

  /// Sends the message that the identity has ended, before its listeners are cancelled: the client may have a newer
  /// token, and then connects again.
  private func notifyEnd(of login: ObjectIdentifier) {
    guard session.isOpen, case .user(let current) = session.identity,
      ObjectIdentifier(current) == login, !current.isValid(at: operations.now())
    else { return }
    cancelExpiry()
    let hasExpired = operations.now() >= current.expiresAt
    append { output in
      ServerMessage.revoked(
        hasExpired ? .expiredToken : .invalidToken,
        hasExpired ? "the token has expired" : "the token has been revoked", to: &output)
    }
    shared.unflushed.append(self)
  }
}
