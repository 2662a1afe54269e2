public import CanopyTree
public import CanopyWire
internal import DequeModule

// CanopySession owns a connection apart from its transport: the order of its requests, its user, its
// subscriptions, its on-disconnect writes, its back-pressure and its end; and the operations that
// requests ask for. It must not know sockets, event loops, protocols or SQL.

/// One connection without its transport: a state machine that does no I/O.
///
/// A front end calls a method for each input, each outcome and each change of the transport. Then it performs
/// the actions that `nextAction` returns, until it returns nil:
///
///     session.receive(request, bytes: line.count)
///     session.beginPerforming()
///     while let action = session.nextAction() { perform(action) }
///     session.endPerforming()
///
/// Requests are carried out in the order that `RequestQueue` allows, and answered in the order in which
/// they came. No request begins while the client leaves too much unread, and no input is read while too
/// many bytes of requests wait. So the `ledger` stays within the limits, except that one request and one
/// reply may each be larger than its limit.
///
/// Call it on the connection's event loop only. It cannot be copied: a copy for each call of a method would count the
/// references of all its properties.
public struct Session: ~Copyable {
  /// Identifies a request that is under way.
  public typealias Slot = Int

  enum Phase {
    case open
    /// No more input is read. Input that was received is decoded, and its requests are answered.
    case draining
    /// No more requests are accepted. Earlier requests are answered.
    case ending
    /// `nextAction` has returned `close`.
    case closing
    /// The transport is gone.
    case lost
  }

  let limits: Limits
  /// Always nil. Because of its type, Swift passes the session by address. That avoids a copy of 600 bytes for each
  /// call from another module.
  private let atItsAddress: (any Sendable)? = nil
  /// The bytes that the connection makes the server hold.
  public internal(set) var ledger = Ledger()
  /// The user of the connection.
  public private(set) var identity = Identity.anonymous
  /// The on-disconnect writes.
  public internal(set) var armed: [ArmedWrite] = []
  var queue = RequestQueue()
  var phase = Phase.open
  private var isReading = true
  private var isWritable = true
  /// Whether input that was received is not decoded yet.
  var hasBacklog = false
  /// Whether no request begins because other connections have their turn.
  public private(set) var isPaused = false
  /// The number of waiters that hold up requests and replies: see `beginWaiting`.
  var waitsForEvents = 0
  /// The request that changes the on-disconnect writes.
  var armingSlot: Slot?
  /// The answer that waits for the subscriptions to be authorized for another user.
  var awaitingAuthorization: (slot: Slot, completion: Completion, identity: Identity)?
  var actions: Deque<Action> = []
  /// The number of calls of the front end that are performing actions: a call may come from within an action.
  private var performing = 0
  var nextReply = NextReply.any
  /// The reason for the end of the connection, which the client gets when it closes; nil for none.
  public internal(set) var endReason: WireError?
  /// The number of `carryOut` actions that have no outcome.
  var carryOutsUnderWay = 0
  var subscriptions: [Int64: Subscription] = [:]
  var lastSubscription: Int64 = 0
  var withholding = Withholding()
  /// The time since the client last read anything, since `hasStoppedReading` was first asked.
  var unreadProgress = ReadProgress()

  /// Creates the session of a new connection.
  public init(limits: Limits) {
    self.limits = limits
  }

  mutating func append(_ action: Action) {
    actions.append(action)
  }

  // MARK: Input

  /// Whether the session accepts requests now.
  public var wantsInput: Bool {
    takesRequests && !isPaused && queue.count < limits.outstandingRequestsMax
      && queue.requestBytes < limits.requestBytesMax && canBegin
  }

  /// Whether the session still accepts input. `wantsInput` says whether it does so now.
  public var takesInput: Bool { phase == .open }

  /// Pauses the connection while other connections have their turn, so that no request begins and no input is read;
  /// or ends the pause.
  public mutating func pause(_ isPaused: Bool) {
    self.isPaused = isPaused
  }

  var takesRequests: Bool { phase == .open || phase == .draining }

  /// Whether a read may be carried out at once, without a call of `receive`.
  ///
  /// The most frequent case then does not touch the queue.
  public func readsAtOnce(_ request: ReadRequest) -> Bool {
    guard queue.isIdle, case .read = order(of: request) else { return false }
    return actions.isEmpty && wantsInput
  }

  /// Receives a request.
  ///
  /// - Parameters:
  ///   - bytes: the memory that the request takes.
  ///   - runsAlone: whether no later request may begin before this one is answered, although it is a write. If that
  ///     depends on the namespace, `nextAction` asks for it.
  public mutating func receive(_ request: Request, bytes: Int, runsAlone: Bool = false) {
    guard takesRequests else { return }
    queue.append(
      .request(request), runsAlone ? .exclusive : order(of: request), bytes: bytes)
    updateLedger()
  }

  /// Marks a read as under way, because it takes too long to be carried out at once. `finish` must be called
  /// with the slot.
  ///
  /// Precondition: the read is that of the last action, or of the last call of `readsAtOnce`.
  public mutating func postponeRead(_ request: ReadRequest) -> Slot {
    defer { updateLedger() }
    return queue.postpone(bytes: request.memoryBytes)
  }

  /// Receives the error for input that is not a request. The error is sent when its turn comes.
  public mutating func refuse(_ error: WireError) {
    guard takesRequests else { return }
    queue.append(.refusal(error), .read, bytes: 256)
    updateLedger()
  }

  /// Sets the number of bytes of input that are kept and not decoded yet.
  ///
  /// - Parameters:
  ///   - bytes: the number.
  ///   - hasBacklog: whether whole requests may be among the bytes.
  public mutating func setInput(bytes: Int, hasBacklog: Bool) {
    ledger.input = bytes
    self.hasBacklog = hasBacklog
  }

  private func order(of request: ReadRequest) -> RequestOrder {
    switch request {
    case .get(_, let options) where options.hasQuery && options.query.order != .key: .exclusive
    case .count(_, let query) where query != .all && query.order != .key: .exclusive
    case .hello, .ping, .help, .whoAmI, .blog, .get, .count, .info, .rules, .keys, .atLeast: .read
    }
  }

  private func order(of request: Request) -> RequestOrder {
    switch request {
    case .read(let request): order(of: request)
    case .write: .write
    case .account, .listen, .connection, .administration: .exclusive
    }
  }

  /// Whether the request that began last runs alone, and is under way.
  public var runsAlone: Bool { queue.exclusiveIsUnderWay }

  // MARK: Output

  /// Sets the number of bytes that are encoded and not sent, and whether the transport accepts more.
  ///
  /// - Parameter unencoded: the bytes of replies and events that are kept to be encoded later. Until there are
  ///   none, no request begins and the connection does not close.
  public mutating func setUnsent(bytes: Int, unencoded: Int = 0, isWritable: Bool) {
    ledger.unsent = bytes
    ledger.unencoded = unencoded
    self.isWritable = isWritable
  }

  /// Whether any reply may be sent now. While commits are withheld, only those that an earlier catch-up covers.
  public var canSend: Bool { canBegin && !isBehind }

  /// Whether a request may begin now, and whatever need not follow the events that are withheld may be sent.
  public var canBegin: Bool {
    isWritable && waitsForEvents == 0 && ledger.unencoded == 0
      && ledger.unsent < limits.unreadReplyBytesMax
  }

  /// Whether `nextAction` would return nil. No request waits, and more input is accepted.
  public var isAtRest: Bool {
    wantsInput && phase == .open && isReading && !hasBacklog && queue.isIdle && actions.isEmpty
  }

  /// Whether requests of the client wait, are under way, or have replies that wait.
  public var hasRequests: Bool { hasBacklog || !queue.isIdle }

  /// Whether the connection has neither subscriptions nor on-disconnect writes.
  public var holdsNothing: Bool { subscriptions.isEmpty && armed.isEmpty }

  /// Whether the front end is performing an action.
  public var isPerforming: Bool { performing > 0 }

  /// Notes that the front end begins to perform actions.
  ///
  /// If it does so from within an action, `nextAction` returns only the actions that are decided on already. A reply would
  /// precede the one that is being sent.
  public mutating func beginPerforming() {
    performing += 1
  }

  /// Notes that the front end has performed the actions.
  public mutating func endPerforming() {
    assert(performing > 0, "no action is being performed")
    performing -= 1
  }

  /// Returns the next action; nil if there is none until the front end calls another method.
  ///
  /// - Parameter runsAlone: whether no later request may begin before a write is answered, as `Operations.runsAlone`
  ///   says for the present namespace.
  public mutating func nextAction(
    runsAlone: (Request) -> Bool = { _ in false }
  ) -> Action? {
    if let action = actions.popFirst() { return action }
    guard isOpen, performing < 2 else { return nil }
    if canBegin && (!isBehind || withholding.coveredReplies > 0) || withholding.sendsNextReply
      || queue.nextIsSubscription, let reply = queue.nextReply()
    {
      withholding.noteReply()
      updateLedger()
      return send(reply)
    }
    if canBegin, !isPaused, !isReadDelayed {
      if let beginning = queue.begin(runsAlone: runsAlone) {
        withholding.hasCaughtUp = false
        updateLedger()
        switch beginning {
        case .atOnce(.refusal(let error)): return send(.failure(error))
        case .atOnce(.request(.read(let request))): return .read(request)
        case .atOnce(.request(let request)):
          preconditionFailure("only a read is carried out at once: \(request)")
        case .underWay(let request, let slot):
          if case .connection(.onDisconnect) = request { armingSlot = slot }
          return .begin(request, slot)
        }
      }
    }
    // After the end of the input, reading continues and the bytes are dropped: so the server notices when the client
    // closes.
    let wantsReading = phase != .open || (!hasBacklog && wantsInput)
    if wantsReading != isReading {
      isReading = wantsReading
      return .setReading(wantsReading)
    }
    if phase != .open, queue.isIdle, !hasBacklog, awaitingAuthorization == nil,
      ledger.unencoded == 0, waitsForEvents == 0, !isBehind || withholding.hasCaughtUp
    {
      return close()
    }
    return nil
  }

  /// Receives the outcome of a request that is under way.
  public mutating func finish(_ slot: Slot, _ completion: Completion) {
    if let identity = completion.identity { return finish(slot, completion, as: identity) }
    if slot == armingSlot {
      armingSlot = nil
      if let armed = completion.armed { setArmed(armed) }
      if phase == .closing || phase == .lost { carryOut() }
    }
    if completion.closes {
      endRequests()
      queue.dropWaiting()
    }
    queue.finish(slot, completion.reply)
    updateLedger()
  }

  /// Receives the outcome of a login or of its end: changes the user, and then finishes the request.
  private mutating func finish(_ slot: Slot, _ completion: Completion, as identity: Identity) {
    var completion = completion
    completion.identity = nil
    // The end of a login ends its on-disconnect writes.
    if let armed = completion.armed { setArmed(armed) }
    guard !identity.isSameCaller(as: self.identity) else {
      // The connection keeps its own login, on which its subscriptions rest.
      if case .user(let login) = identity { actions.append(.release(login)) }
      return finish(slot, completion)
    }
    let authorized = subscriptions.filter { $0.value.authorized != nil }.sorted {
      $0.key < $1.key
    }
    guard authorized.isEmpty || phase == .lost else {
      // Subscriptions that the next user may not have must end before the login of that user.
      awaitingAuthorization = (slot, completion, identity)
      return actions.append(
        .reauthorize(
          authorized.compactMap { number, subscription in
            subscription.authorized.map { (number, $0) }
          }, identity))
    }
    changeIdentity(identity)
    finish(slot, completion)
  }

  /// Finishes the change of the user, after the subscriptions have been authorized for that user.
  public mutating func reauthorized() {
    guard let (slot, completion, identity) = awaitingAuthorization else { return }
    awaitingAuthorization = nil
    changeIdentity(identity)
    finish(slot, completion)
  }

  private mutating func changeIdentity(_ identity: Identity) {
    setIdentity(identity)
    // The connection may be gone: then it holds no login.
    if phase == .lost { setIdentity(.anonymous) }
  }

  mutating func setIdentity(_ identity: Identity) {
    if case .user(let old) = self.identity { actions.append(.release(old)) }
    self.identity = identity
    chargeLogins()
  }
}
