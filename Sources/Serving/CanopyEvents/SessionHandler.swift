package import CanopyEngine
internal import CanopyMetrics
public import CanopySession
internal import CanopyTree
public import CanopyWire
public import NIOCore

/// Drives the session of one connection, in any protocol whose clients send one request after the other.
///
/// The session decides, and the handler performs its actions on the connection's event loop. A subclass has the
/// protocol: as a `ClientProtocol` it turns bytes into requests, and replies into bytes. This file has the state, the
/// methods that a subclass may override, and the actions. The other files receive the events of the channel
/// (`+Channel`), carry out requests (`+Requests`), send (`+Sending`), connect subscriptions to the hub
/// (`+Subscriptions`), and close the connection (`+End`).
///
/// A request accesses the state some forty times, and the check that no two accesses overlap takes about a hundred
/// instructions each time. So only debug builds, which the tests use, have these checks for the values; loads and
/// stores of flags and references have none. The compiler knows this in this module alone: for each request, a subclass
/// in another module uses the state by way of methods of this class.
open class SessionHandler {
  /// The state that the connections to the present namespace share.
  @exclusivity(unchecked) final private(set) var services: LoopServices
  /// The hub of the subscriptions.
  @exclusivity(unchecked) package final private(set) var hub: EventHub
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var session: Session
  let keptInput: any ConnectionInput
  /// The protocol, for the administrator.
  let kind: ClientState.Kind
  /// The bytes that the connection takes while it is idle, unless another part of its pipeline reports them; then 0.
  let idleBytes: Int
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var output = LineOutput()
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var client = Client()
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var scheduled = ScheduledWork()
  /// Whether the connection is in the `FlushQueue`.
  @exclusivity(unchecked) package final var waitsForFlush = false
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var closing = Closing()
  @exclusivity(unchecked) package final private(set) var context: ChannelHandlerContext?
  /// This handler as the protocol of its class, while it is in a pipeline.
  @exclusivity(unchecked) final private(set) var clientProtocol: (any ClientProtocol)?
  /// The tasks of requests by slot, to cancel when the connection is gone.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var tasks: [Session.Slot: Task<Void, Never>] = [:]
  /// The measurements of requests that are under way, by slot.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var measurements: [Session.Slot: RequestMetrics.Measurement] = [:]
  /// The subscriptions at the hub, by number.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  package final var subscribers: [Int64: HubSubscription] = [:]
  final var withholding = Withholding()
  /// Whether the client has read anything since another namespace first needed the place of this one.
  final var unreadProgress = ReadProgress()
  private final var nextReply = NextReply.any
  /// The tasks that find the content with which a subscription begins, by number.
  package final var resumptions: [Int64: Task<Void, Never>] = [:]
  /// The task of the loop that authorizes the subscriptions again when the user's login expires.
  package final var expiry: Scheduled<Void>?
  /// The login of an administrator who has used a pass.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  final var heldLogin: HeldLogin?
  /// The reference to this connection for others, if they have one.
  final var ownReference: ConnectionReference?
  /// Whether the channel is writable. The handler keeps it, because it looks several times for each request.
  @exclusivity(unchecked) final var isWritable = true
  /// Whether output is being handed to the channel.
  @exclusivity(unchecked) final var isFlushing = false
  /// Whether an action is being performed.
  @exclusivity(unchecked) private final var isPerforming = false
  /// The number of calls that make on-disconnect writes and have no outcome.
  @exclusivity(unchecked) final var carryOutsUnderWay = 0

  /// The next reply to be sent. Two cases are for a read that has waited for events. Such a read runs alone.
  private enum NextReply {
    /// Any other reply.
    case any
    /// The reply reads the same tree version as the last event sent.
    case current
    /// The read is to be carried out when its reply can be sent.
    case delayed(ReadRequest)
  }

  /// The delivery of commits that were withheld.
  struct Withholding {
    /// The calls that wait until the subscriptions have got them.
    var waiters: [(Snapshot) -> Void] = []
    /// The calls that waited when the catch-up under way began. The version to which it leads is at least as new as
    /// their requests.
    var readyWaiters: [(Snapshot) -> Void] = []
    /// Whether the hub delivers them.
    var isCatchingUp = false
    /// The subscriptions that have not got their events since `Session.beginCatchUp`. If there is no room for all, the
    /// next catch-up goes on with these.
    var left: Set<Int64> = []
    /// Whether a call is resumed with the version to which a catch-up has led.
    var isResuming = false
    /// Whether the client has read anything since the last commit was withheld.
    var progress = ReadProgress()
  }

  /// Work of the connection that its event loop does later.
  struct ScheduledWork {
    /// Whether `advance` must run because a request has finished.
    var advances = false
    /// Whether the connection is in the queue of `LoopTurns`.
    var takesTurn = false
    /// Counts the requests of the present turn.
    var turn = WorkBudget.Turn()
    /// The task that decodes a long text beside the event loop.
    var decoding: Task<Void, Never>?
  }

  /// The end of the connection.
  struct Closing {
    /// The reason for the client; nil for none.
    var reason: WireError?
    /// Whether the connection closes when everything is encoded.
    var waitsForPieces = false
    /// The task of the loop that closes the connection if the client does not.
    var lingering: Scheduled<Void>?
  }

  /// The other side of the connection.
  package struct Client: ~Copyable {
    package fileprivate(set) var address = "local"
    /// The number in the list of the event loop; nil while the connection is not in the list.
    fileprivate(set) var id: Int64?
    /// The time of its beginning, in milliseconds since 1970.
    fileprivate(set) var since: Int64 = 0
    /// The group in which the long work of the connection takes turns; nil before the connection is active.
    package fileprivate(set) var turns: TurnGroup?
    /// Whether the client has ended its sending side.
    var hasEnded = false
    /// The place of the connection; nil for one that no gate has let in.
    fileprivate(set) var place: ConnectionPlace?
    /// The values that `place` has.
    var standing = ConnectionPlace.Standing.new
    var isBusy = false
    /// Whether a request was successful.
    var hasSucceeded = false
    /// Reports the memory that the connection holds. Nil until that is enough to report. An idle connection that takes
    /// memory has it from its beginning.
    var share: MemoryBudget.Share?
  }

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
    self.kind = kind
    self.idleBytes = idleBytes
    session = Session(limits: services.operations.limits)
  }

  package final var operations: Operations { services.operations }

  /// Asserts that the caller runs on the event loop of the connection. Other threads reach the connection by a task of
  /// the loop, or by its inbox.
  final func assertInEventLoop() {
    assert(services.loop.inEventLoop, "a connection is used outside its event loop")
  }

  /// Makes the state that of the present namespace.
  package final func move(to services: LoopServices) {
    assertInEventLoop()
    self.services = services
    hub = services.hubs.shared
  }

  /// Begins a subscription at the hub. If the connection now has too many for the hub that most connections share, or a
  /// large value, all of them move to another hub.
  package final func begin(
    _ subscription: HubSubscription, _ listening: Listening, _ authorization: ListenAuthorization?,
    owner: ListenerOwner?, started: @escaping (Result<ListenStart, EventHub.Refusal>) -> Void
  ) {
    assertInEventLoop()
    // The first subscription begins in the shared hub. There are no others whose events must keep their order.
    let present = subscribers.count > 1 ? hub : services.hubs.shared
    let isLarge =
      present === services.hubs.shared
      && services.hubs.isLarge(
        ListenStart(listening, operations.engine.snapshot), of: subscription,
        bytesMax: sharedValueBytesMax)
    chooseHub(using: present, needsOwn: isLarge, beginning: subscription)
    hub.begin(subscription, listening, authorization, owner: owner, started: started)
  }

  /// Chooses the hub of the connection, and moves its subscriptions there.
  ///
  /// - Parameters:
  ///   - needsOwn: whether the shared hub would wait for the events of one of them.
  ///   - new: a subscription that has not begun; nil for none.
  private func chooseHub(
    using present: EventHub, needsOwn: Bool, beginning new: HubSubscription? = nil
  ) {
    hub = services.hubs.hub(
      for: client.turns, using: present, count: subscribers.count, needsOwn: needsOwn)
    guard hub !== present else { return }
    let others = subscribers.values.filter { $0 !== new }
    hub.take(others.sorted { $0.number < $1.number }, from: present)
  }

  /// Moves the subscriptions out of the shared hub if one of them gets a large value, or if the values of the client have
  /// too many bytes together. The events before the move still come from there.
  ///
  /// - Parameter bytes: those of one event.
  final func noteEvent(bytes: Int, for subscription: Int64) {
    guard hub === services.hubs.shared,
      services.hubs.isLarge(
        eventBytes: bytes, of: subscribers[subscription], bytesMax: sharedValueBytesMax)
    else { return }
    chooseHub(using: hub, needsOwn: true)
  }

  /// Moves the subscriptions out of the shared hub if the rules take many steps to allow one of them an event. The
  /// events before the move still come from there.
  package final func noteLongCheck(of subscription: Int64) {
    assertInEventLoop()
    guard hub === services.hubs.shared, subscribers[subscription] != nil else { return }
    chooseHub(using: hub, needsOwn: true)
  }

  /// The most bytes of a value in the shared hub: fewer than those from which on its events are made on another thread,
  /// for which the shared hub would wait.
  private var sharedValueBytesMax: Int {
    min(operations.limits.wholeReplyBytesMax, operations.limits.replyBytesMax)
  }

  /// Appends the answer to a check of the client, in a protocol that has checks.
  open func answerPing() {}

  // MARK: Requests, with which a subclass may do more

  /// Notes that the connection is active.
  open func activate(_ context: ChannelHandlerContext) {
    assertInEventLoop()
    client.address = context.remoteAddress?.ipAddress ?? "local"
    client.turns = Operations.turns(of: ObjectIdentifier(self), at: client.address)
    client.since = operations.now()
    client.id = services.clients.add(self)
    client.place = ConnectionPlace.take(from: context.pipeline)
  }

  /// Carries out a read and appends its reply, or begins it beside the loop if it takes long.
  open func read(_ context: ChannelHandlerContext, _ request: ReadRequest) {
    let measurement = services.metrics.begin(request.verb)
    guard case .atLeast(let sequence, let request) = request else {
      return read(context, request, measurement)
    }
    guard operations.engine.isInForce(sequence) else {
      let slot = session.postponeRead(request)
      measurements[slot] = measurement
      return readLater(context, request, slot, atLeast: sequence)
    }
    hub.inbox.release()
    read(context, request, measurement)
  }

  private final func read(
    _ context: ChannelHandlerContext, _ request: ReadRequest,
    _ measurement: RequestMetrics.Measurement?
  ) {
    // The events that led to the snapshot go out first.
    let isCurrent = drainEvents()
    if isCurrent, clientProtocol?.readAtOnce(context, request) == true {
      client.hasSucceeded = true
      if let measurement { services.metrics.end(measurement) }
      return
    }
    let slot = session.postponeRead(request)
    measurements[slot] = measurement
    if isCurrent {
      readLong(context, request, slot)
    } else {
      readAfterEvents(request, slot)
    }
  }

  /// Carries out a read that has a slot, in the version of the tree up to which the events are sent. Its reply goes to
  /// `finish`, now or later. No other request is under way.
  final func read(
    _ context: ChannelHandlerContext, _ request: ReadRequest, _ slot: Session.Slot, in root: Node
  ) {
    guard session.canSend || withholding.isResuming else {
      // Further events will precede the reply, and it must not be older.
      nextReply = .delayed(request)
      return finish(slot, Session.Completion(.json(.null)))
    }
    if let reply = operations.read(request, as: session.identity, in: root) {
      nextReply = .current
      if withholding.isResuming { session.sendNextReply() }
      finish(slot, Session.Completion(reply))
    } else {
      readLong(context, request, slot)
    }
  }

  /// Carries out a request. Its outcome goes to `finish`, now or later.
  open func begin(_ context: ChannelHandlerContext, _ request: Request, _ slot: Session.Slot) {
    let identity = session.identity
    switch request {
    case .read(.atLeast(let sequence, let request)):
      readLater(context, request, slot, atLeast: sequence)
    case .read(let request): orderedRead(context, request, slot)
    case .write(let request):
      let outcome = pendingOutcome(context, slot)
      operations.write(request, as: identity, from: client.address, turns: client.turns) {
        outcome.complete(Session.Completion($0))
      }
    case .listen(let request): beginListening(context, request, slot)
    case .account(let request):
      if case .logOut = request { endOwnLogin() }
      let outcome = pendingOutcome(context, slot)
      let task = operations.begin(request, as: identity, from: client.address, session.armed) {
        outcome.complete($0)
      }
      if request.endsWithConnection { tasks[slot] = task }
    case .administration(.endPass(let token)) where isOwnLogin(token):
      endOwnLogin()
      finish(slot, Session.Completion(.json(.bool(true)), identity: .anonymous))
    case .administration(let request):
      let outcome = pendingOutcome(context, slot)
      operations.begin(request, as: identity, on: client.id, from: client.address) {
        outcome.complete($0)
      }
    case .connection(let request):
      if case .use = request {
        do throws(WireError) { try session.checkMayChangeNamespace() } catch {
          return finish(slot, Session.Completion(error))
        }
      }
      let outcome = pendingOutcome(context, slot)
      operations.begin(
        request, as: identity, from: client.address, turns: client.turns, session.armed,
        in: heldLogin?.login
      ) { outcome.complete($0) }
    }
  }

  private final func beginListening(
    _ context: ChannelHandlerContext, _ request: ListenRequest, _ slot: Session.Slot
  ) {
    if session.isBehind {
      // A subscription begins with a value that is newer than the events that are withheld.
      return waitForEvents { [self] context, _ in beginListening(context, request, slot) }
    }
    do throws(WireError) { try clientProtocol?.listen(context, request, slot) } catch {
      finish(slot, Session.Completion(error))
    }
  }

  /// Receives the outcome of a request.
  package final func finish(_ slot: Session.Slot, _ completion: Session.Completion) {
    assertInEventLoop()
    tasks[slot] = nil
    if !measurements.isEmpty, let measurement = measurements.removeValue(forKey: slot) {
      services.metrics.end(measurement)
    }
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
    guard case .user(let login) = session.identity, session.hasAuthorizedSubscriptions else {
      expiry?.cancel()
      return
    }
    expectExpiry(of: login)
  }

  /// Authorizes the subscriptions again, because the login of their user has expired.
  open func expire(_ login: UserSession) {
    Task { [operations] in await operations.reauthorize([login]) }
  }

  // MARK: The pipeline

  /// Notes the place in a pipeline, and this handler as the protocol of its class.
  final func enter(_ context: ChannelHandlerContext, as clientProtocol: any ClientProtocol) {
    self.context = context
    self.clientProtocol = clientProtocol
    isWritable = context.channel.isWritable
  }

  /// Notes that the handler is in no pipeline.
  final func leavePipeline() {
    context = nil
    clientProtocol = nil
    endReference()
  }

  /// Ends the session of a connection that is gone.
  open func channelInactive(context: ChannelHandlerContext) {
    assertInEventLoop()
    if let id = client.id.take() { services.clients.remove(id) }
    closing.lingering?.cancel()
    expiry?.cancel()
    hold(nil)
    for task in tasks.values { task.cancel() }
    scheduled.decoding?.cancel()
    session.lose()
    perform(context)
    output.removeAll()
    // Its memory is no longer charged.
    keptInput.drop()
    client.share?.leave(holding: session.ledger.requests)
    if hasNoChanges { endChanges() }
    endReference()
    context.fireChannelInactive()
  }

  // MARK: The session and its actions

  /// Performs the actions of the session, decodes input that was kept, and sends the output now or later.
  package final func advance(_ context: ChannelHandlerContext) {
    // The caller of the decoder advances when the decoder returns.
    if keptInput.isDecoding || isPerforming { return perform(context) }
    while true {
      noteInput()
      perform(context)
      if output.text.count
        >= min(SessionHandler.sentBytesMin, operations.limits.unreadReplyBytesMax),
        !output.hasPieces, isWritable
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
      if session.isOpen, isWritable { services.unflushed.append(self) }
    } else {
      encodeLater(context)
    }
    // A flush that is due in this round of the loop charges the bytes that it leaves.
    if !waitsForFlush { charge() }
  }

  /// The size of encoded replies from which on they are sent at once, and do not wait for other replies.
  static let sentBytesMin = 16 * 1024

  /// Reports the bytes of the input to the session.
  final func noteInput() {
    session.setInput(bytes: keptInput.byteCount, hasBacklog: keptInput.hasBacklog)
  }

  /// Performs the actions of the session until it has no more.
  ///
  /// A call from within an action performs those alone that the session has decided on already. A reply would precede
  /// the one that is being sent.
  package final func perform(_ context: ChannelHandlerContext) {
    assertInEventLoop()
    let isWithin = isPerforming
    isPerforming = true
    defer {
      isPerforming = isWithin
      // The loop drops the snapshot of the shared hub. Each would keep an old version of the tree in memory.
      if !isWithin, hub !== services.hubs.shared { hub.inbox.release() }
    }
    while let action = isWithin
      ? session.nextDecidedAction() : session.nextAction(runsAlone: operations.runsAlone)
    {
      switch action {
      case .read(let request):
        countWork()
        read(context, request)
      case .begin(let request, let slot):
        countWork()
        if let measurement = services.metrics.begin(request.verb) {
          measurements[slot] = measurement
        }
        begin(context, request, slot)
      case .send(let reply):
        let state = nextReply
        nextReply = .any
        if case .delayed(let request) = state {
          read(context, request, nil)
        } else if case .current = state {
          // Further events would be newer than the value.
          clientProtocol?.send(context, reply, at: nil)
        } else if !session.isBehind, clientProtocol?.mustFollowEvents(reply) == true,
          !drainEvents()
        {
          // No reply overtakes the events before it.
          waitForEvents { [self] context, snapshot in
            clientProtocol?.send(context, reply, at: snapshot)
          }
        } else {
          clientProtocol?.send(context, reply, at: nil)
        }
      case .setReading(let isReading):
        context.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
      case .resume(let number, let since, let listening):
        resume(context, number, since: since, listening)
      case .unlisten(let number, let code): unlisten(number, code)
      case .reauthorize(let subscriptions, let identity):
        reauthorize(context, subscriptions, identity)
      case .release(let login): operations.sessions.remove(login)
      case .carryOut(let armed, let identity):
        let loop = context.eventLoop
        let handler = NIOLoopBound(self, eventLoop: loop)
        carryOutsUnderWay += 1
        operations.carryOut(
          armed, as: identity, from: client.address, turns: client.turns,
          retry: { body in loop.scheduleTask(in: .seconds(1)) { body() } },
          completion: { loop.execute { handler.value.endCarryOut() } })
      case .close: close(context)
      }
    }
  }
}
