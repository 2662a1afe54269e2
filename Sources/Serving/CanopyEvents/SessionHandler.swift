internal import CanopyEngine
internal import CanopyMetrics
public import CanopySession
internal import CanopyTree
public import CanopyWire
public import NIOCore

/// Drives the session of one connection, in any protocol whose clients send one request after the other.
///
/// The session decides, and the handler performs its actions on the connection's event loop. A subclass has the
/// protocol: as a `ClientProtocol` it turns bytes into requests, and replies into bytes. This file has the state, the
/// methods that a subclass may override, the outcomes of requests, and the actions. The other files receive the events of
/// the channel (`+Channel`), carry out reads (`+Reads`) and other requests (`+Requests`), send (`+Sending`), connect
/// subscriptions to the hub (`+Subscriptions`), choose that hub (`+Hub`), deliver withheld events (`+Withholding`), watch
/// logins (`+Login`), and close the connection (`+End`).
///
/// A request accesses the state some forty times, and the check that no two accesses overlap takes about a hundred
/// instructions each time. So only debug builds, which the tests use, have these checks for the values; loads and
/// stores of flags and references have none. The compiler knows this in this module alone: for each request, a subclass
/// in another module uses the state by way of methods of this class.
open class SessionHandler {
  // MARK: State

  /// The state that the connections to the present namespace share.
  @exclusivity(unchecked) final var services: LoopServices
  /// The hub of the subscriptions.
  @exclusivity(unchecked) package final internal(set) var hub: EventHub
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var session: Session
  let keptInput: any ConnectionInput
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var output = LineOutput()
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var client: ConnectionClient
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var scheduled = ScheduledWork()
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var writing = WritingState()
  @exclusivity(unchecked) package final internal(set) var context: ChannelHandlerContext?
  /// This handler as the protocol of its class, while it is in a pipeline.
  @exclusivity(unchecked) final var clientProtocol: (any ClientProtocol)?
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var underWay = WorkUnderWay()
  /// The subscriptions at the hub, by number.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var subscribers: [Int64: HubSubscription] = [:]
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var logins = LoginWatch()
  /// The reference to this connection for others, if they have one.
  final var ownReference: ConnectionReference?

  /// - Parameters:
  ///   - kind: the protocol, for the administrator.
  ///   - idleBytes: the bytes that the connection takes while it is idle, unless another part of its pipeline reports
  ///     them.
  package init(
    _ services: LoopServices, _ input: any ConnectionInput, _ kind: ClientState.Kind,
    idleBytes: Int = 0
  ) {
    self.services = services
    hub = services.hubs.shared
    keptInput = input
    client = ConnectionClient(kind, idleBytes: idleBytes)
    session = Session(limits: services.operations.limits)
  }

  package final var operations: Operations { services.operations }

  /// Asserts that the caller runs on the event loop of the connection. Other threads reach the connection by a task of
  /// the loop, or by its inbox.
  final func assertInEventLoop() {
    assert(services.loop.inEventLoop, "a connection is used outside its event loop")
  }

  // MARK: Methods with which a subclass may do more

  /// Notes that the connection is active.
  open func activate(_ context: ChannelHandlerContext) {
    beginClient(context)
  }

  /// Carries out a read and appends its reply, or begins it on another thread if it takes long.
  open func read(_ context: ChannelHandlerContext, _ request: ReadRequest) {
    let measurement = services.metrics.begin(request.verb)
    guard case .atLeast(let sequence, let request) = request else {
      return read(context, request, measurement)
    }
    guard operations.engine.isInForce(sequence) else {
      let slot = session.postponeRead(request)
      underWay.measurements[slot] = measurement
      return readLater(context, request, slot, atLeast: sequence)
    }
    hub.inbox.release()
    read(context, request, measurement)
  }

  /// Carries out a request. Its outcome goes to `finish`, now or later.
  open func begin(_ context: ChannelHandlerContext, _ request: Request, _ slot: Session.Slot) {
    switch request {
    case .read(.atLeast(let sequence, let request)):
      readLater(context, request, slot, atLeast: sequence)
    case .read(let request): orderedRead(context, request, slot)
    case .write(let request):
      let outcome = pendingOutcome(context, slot)
      // Only a write that runs alone takes long before the writer gets it, and a CAS whose value becomes large meanwhile.
      let mayTakeLong = session.runsAlone || request.isConditional
      let work = mayTakeLong ? workBeforeWrite(slot) : nil
      operations.write(
        request, as: session.identity, from: client.address, turns: client.turns, after: work
      ) { outcome.complete(Session.Completion($0)) }
    case .listen(let request): beginListening(context, request, slot)
    case .account(let request): beginAccount(context, request, slot)
    case .administration(let request): beginAdministration(context, request, slot)
    case .connection(let request): beginConnection(context, request, slot)
    }
  }

  /// Appends the answer to a check of the client, in a protocol that has checks.
  open func answerPing() {}

  /// Makes a namespace that of the requests that follow. The connection has no subscriptions and no other requests.
  open func use(_ lease: NamespaceLease) {
    // A protocol whose connections keep their namespace.
    lease.release()
  }

  /// Ends the use of the namespace, after the connection has ended.
  open func leaveNamespace() {}

  /// Notes that the connection is lost, and all of its changes have an outcome. May be called more than once.
  open func endChanges() {}

  /// Has the subscriptions authorized again when the login of the user expires, if any depends on it.
  open func watchIdentity() {
    watchSubscriptions()
  }

  /// Authorizes the subscriptions again, because the login of their user has expired.
  open func expire(_ login: UserSession) {
    Task { [operations] in await operations.reauthorize([login]) }
  }

  /// Ends the session of a connection that is gone.
  open func channelInactive(context: ChannelHandlerContext) {
    lose(context)
    context.fireChannelInactive()
  }

  // MARK: Outcomes and input

  /// Receives the outcome of a request.
  package final func finish(_ slot: Session.Slot, _ completion: Session.Completion) {
    assertInEventLoop()
    if let measurement = underWay.end(slot) { services.metrics.end(measurement) }
    switch completion.reply {
    case .failure: break
    default: client.hasSucceeded = true
    }
    if let lease = completion.namespace { use(lease) }
    if completion.identity != nil { hold(completion.login) }
    session.finish(slot, completion)
    if completion.closes { keptInput.drop() }
    if completion.identity != nil { watchIdentity() }
    scheduled.advances = true
    if hasNoChanges { endChanges() }
  }

  /// Performs the actions of the session, decodes input that was kept, and sends the output now or later.
  package final func advance(_ context: ChannelHandlerContext) {
    // The caller of the decoder advances when the decoder returns.
    if keptInput.isDecoding || session.isPerforming { return perform(context) }
    while true {
      noteInput()
      perform(context)
      if output.text.count
        >= min(SessionHandler.sentBytesMin, operations.limits.unreadReplyBytesMax),
        !output.hasPieces, writing.isWritable
      {
        flush(context)
        continue
      }
      guard session.wantsInput, let kept = keptInput.takeBacklog() else { break }
      clientProtocol?.decode(context, kept)
    }
    answerPing()
    if output.hasBuffers {
      // While the client does not read, the output stays here, where small replies and events share a buffer. In the
      // channel each buffer would take hundreds of bytes.
      if session.isOpen, writing.isWritable { services.unflushed.append(self) }
    } else {
      encodeLater(context)
    }
    // A flush that is due in this round of the loop charges the bytes that it leaves.
    if !scheduled.waitsForFlush { charge() }
  }

  // MARK: Actions

  /// Performs the actions of the session until it has no more.
  package final func perform(_ context: ChannelHandlerContext) {
    assertInEventLoop()
    session.beginPerforming()
    defer {
      session.endPerforming()
      // The loop drops the snapshot of the shared hub. Each would keep an old version of the tree in memory.
      if !session.isPerforming, hub !== services.hubs.shared { hub.inbox.release() }
    }
    while let action = session.nextAction(runsAlone: operations.runsAlone) {
      switch action {
      case .read(let request):
        countWork()
        read(context, request)
      case .begin(let request, let slot):
        countWork()
        if let measurement = services.metrics.begin(request.verb) {
          underWay.measurements[slot] = measurement
        }
        begin(context, request, slot)
      case .readAgain(let request): read(context, request, nil)
      case .send(let reply): clientProtocol?.send(context, reply, at: nil)
      case .sendAfterEvents(let reply):
        if drainEvents() {
          clientProtocol?.send(context, reply, at: nil)
        } else {
          wait(for: .reply(reply))
        }
      case .setReading(let isReading):
        context.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
      case .resume(let number, let since, let listening):
        resume(context, number, since: since, listening)
      case .unlisten(let number, let code): unlisten(number, code)
      case .endSubscriptions(let bytes): endSubscriptions(bytes: bytes)
      case .reauthorize(let subscriptions, let identity):
        reauthorize(context, subscriptions, identity)
      case .release(let login): operations.sessions.remove(login)
      case .carryOut(let armed, let identity): carryOut(context, armed, identity)
      case .close: close(context)
      }
    }
  }
}
