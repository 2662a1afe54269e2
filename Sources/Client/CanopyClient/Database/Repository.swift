internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Dispatch
internal import Logging
internal import Synchronization

/// The implementation of a `Database`: its state, which one thread at a time uses, and the state's
/// dependencies.
///
/// Applications' calls run on their own thread if the state is idle; network events run on a
/// separate queue, so that no event loop is blocked.
final class Repository: Sendable {
  let state: Exclusive<RepositoryState>
  let callbacks = Callbacks()
  let observers = Observers()
  let session = SessionBox()
  private let endpointBox: Mutex<Endpoint>
  let options: DatabaseOptions
  let serverClock: ServerClock
  /// The queue for events of the network and of timers.
  let inbox = DispatchQueue(label: "canopy.client.network")
  /// The queue for transactions' functions.
  let transactions = DispatchQueue(label: "canopy.client.transactions")

  /// Whether persistence is enabled.
  let isPersistent = Atomic(false)
  private let lastHandle = Atomic(0)

  init(_ endpoint: Endpoint, _ options: DatabaseOptions) {
    endpointBox = Mutex(endpoint)
    self.options = options
    serverClock = ServerClock(options.environment)
    state = Exclusive(
      RepositoryState(
        options, callbacks, observers, session, serverClock, endpoint))
    state.use { [weak self] state in state.owner = self }
  }

  /// The server.
  var endpoint: Endpoint { endpointBox.withLock { $0 } }

  /// Changes the server. A connection to another one ends.
  func setEndpoint(_ endpoint: Endpoint) {
    endpointBox.withLock { $0 = endpoint }
    use { state in
      guard state.endpoint != endpoint else { return }
      state.endpoint = endpoint
      if state.phase.transport != nil { state.reconnect("the server was changed") }
    }
  }

  /// Returns the number of a new observer.
  func nextHandle() -> Int {
    lastHandle.add(1, ordering: .relaxed).newValue
  }

  /// Uses the state, then performs the resulting actions.
  func use(_ body: @escaping @Sendable (RepositoryState) -> Void) {
    state.use { state in
      body(state)
      state.finishStep()
    }
  }

  /// Uses the state to make a write. With persistence, the write survives the end of the process when this
  /// returns; see `Exclusive.useAndWait` for the exceptions.
  func write(_ body: @escaping @Sendable (RepositoryState) -> Void) {
    if isPersistent.load(ordering: .acquiring) { useAndWait(body) } else { use(body) }
  }

  /// Uses the state, and returns when that is done; see `Exclusive.useAndWait`.
  func useAndWait(_ body: @escaping @Sendable (RepositoryState) -> Void) {
    state.useAndWait { state in
      body(state)
      state.finishStep()
    }
  }

  /// Uses the state on the network's queue, after all earlier events.
  func useLater(_ body: @escaping @Sendable (RepositoryState) -> Void) {
    inbox.async { [weak self] in self?.use(body) }
  }

  /// Uses the state after a number of milliseconds, unless the repository is gone by then.
  func after(_ milliseconds: Int64, _ body: @escaping @Sendable (RepositoryState) -> Void) {
    options.environment.schedule(milliseconds) { [weak self] in self?.useLater(body) }
  }
}

/// A receiver of a result, called within the step that produces it.
typealias Answer<Value> = @Sendable (Value, RepositoryState) -> Void

/// The state of a repository. One thread at a time uses it; see `Exclusive`.
final class RepositoryState {
  let options: DatabaseOptions
  let callbacks: Callbacks
  let observers: Observers
  let session: SessionBox
  let clock: ServerClock
  /// The server; see `Repository.setEndpoint`.
  var endpoint: Endpoint
  /// The repository; nil once it is released.
  weak var owner: Repository?
  /// The repository, from the release of the database until its last operation has finished; else nil.
  var released: Repository?

  var tree = SyncTree()
  var registrations: [ListenerID: Registration] = [:]
  var infos: [ListenerID: (path: Path, registration: Registration)] = [:]
  var lastListener = 0
  /// The queries that are kept synchronized without an observer.
  var keptSynced: [QuerySpec: ListenerID] = [:]

  var writeCompletions: [WriteID: Answer<DatabaseError?>] = [:]
  var transactions: [TransactionID: TransactionContext] = [:]
  /// The transactions' functions to call at the end of the step, in order.
  var transactionRuns: Deque<TransactionRun> = []

  // Connection
  var phase = Phase.idle
  var isOnlineWanted = true
  /// The number of the current connection, to recognise events of earlier ones.
  var generation = 0
  var backoff: Backoff
  /// The reasons of failed attempts to connect.
  var trouble = ConnectionTrouble()
  var lines = RequestLines()
  /// The sent and unanswered requests, in order.
  var sentRequests: Deque<SentRequest> = []
  var subscriptions = ServerSubscriptions()
  /// The connection by the realtime protocol.
  var link = RealtimeLink()
  /// The identity token of the session, if the server's identity requests gave it.
  var identityToken: IdentityToken?
  /// The requests under way that replace the session by one with new credentials, or delete the account.
  var replacedSessions = 0
  var serverLimits = ServerLimits()
  /// The keepalive ticks since the last received line.
  var silentTicks = 0
  /// The on-disconnect requests that the server has not confirmed, in order.
  var disconnectRequests: [DisconnectOperation] = []
  /// The on-disconnect writes that the server makes when this connection ends.
  var registeredWrites = RegisteredWrites()
  /// The session requests that wait for a connection.
  var sessionRequests: Deque<SessionRequest> = []
  /// The requests that have begun or changed the session, and whose accounts are being read, in order.
  var accountReadings: [AccountReading] = []
  /// The requests about the account that wait for the outcome of a sign-in.
  var heldRequests: Deque<SessionRequest> = []
  var writeNumbers: WriteNumbers
  /// The persistence; nil if it is not enabled.
  var persistence: Persistence?
  /// The state changes to record at the end of the step.
  var changes: [StateChange] = []
  var hasWritten = false
  /// The writes that an earlier connection left unanswered, in order.
  var unanswered: Deque<SentRequest> = []
  /// The writes among them whose replies arrived on this connection: `SentRequest.deferred`.
  var deferredReplies: Deque<SentRequest> = []
  /// The writes that the server has refused for a time.
  var held = HeldWrites()
  /// The reads that wait for a connection.
  var waitingGets: [GetRequest] = []
  var lastGet = 0
  /// The server's sentences about missing indexes that were logged.
  var missingIndexes: Set<String> = []
  var lastSession = 0
  var lastDisconnect = 0
  /// The error of every operation, once the database has ended.
  var ending: DatabaseError?

  /// The application's functions to call at the end of the step.
  private var calls: [ApplicationCall] = []

  init(
    _ options: DatabaseOptions, _ callbacks: Callbacks, _ observers: Observers,
    _ session: SessionBox, _ clock: ServerClock, _ endpoint: Endpoint
  ) {
    self.options = options
    self.callbacks = callbacks
    self.observers = observers
    self.session = session
    self.clock = clock
    self.endpoint = endpoint
    backoff = options.backoff
    if endpoint.isRealtime { serverLimits = .realtime }
    writeNumbers = WriteNumbers(options.environment.random)
  }

  /// Queues a call of an application's function, after the earlier ones.
  func call<Argument: Sendable>(_ callback: Callback<Argument>, _ argument: Argument) {
    call(ApplicationCall(isolation: callback.isolation) { callback.body(argument) })
  }

  /// Queues a call of an observer, which does nothing if the observer has ended by then.
  func call(_ registration: Registration, _ observation: Observation) {
    call(
      ApplicationCall(isolation: registration.event.isolation) {
        registration.notify(observation)
      })
  }

  /// Queues a call of an application's function, after the earlier ones.
  func call(_ call: ApplicationCall) {
    calls.append(call)
  }

  /// Ends a step: calls functions, records changes and sends requests.
  func finishStep() {
    // Call first: sending wakes another thread, which would take the processor from the waiting
    // application.
    makeCalls()
    record()
    sendWrites()
    flush()
    endReleased()
    makeCalls()
    guard !transactionRuns.isEmpty, let owner else { return }
    owner.state.handOver(to: owner.transactions) { state in
      state.runTransactions()
      state.finishStep()
    }
  }

  private func makeCalls() {
    guard !calls.isEmpty else { return }
    callbacks.call(calls)
    calls.removeAll(keepingCapacity: true)
  }

  // MARK: Observing

  func observe(_ registration: Registration, as id: ListenerID) {
    // The application may have removed it while another thread used the state.
    guard !registration.hasEnded else { return }
    if let ending {
      observers.forget(id, registration)
      return refuse(registration, ending)
    }
    registrations[id] = registration
    connectIfWanted()
    let kinds = registration.type.map { DataEvent.Kinds($0.kind) } ?? []
    perform(tree.listen(id, to: registration.spec, for: kinds))
  }

  func forget(_ id: ListenerID) -> Registration? {
    guard let registration = registrations.removeValue(forKey: id) else { return nil }
    observers.forget(id, registration)
    return registration
  }

  /// Stops listening for observers that have ended.
  func removeObservers(_ ids: [ListenerID]) {
    for id in ids where forget(id) != nil { perform(tree.unlisten(id)) }
  }

  func keepSynced(_ query: DatabaseQuery, _ spec: QuerySpec, _ isKept: Bool) {
    guard ending == nil else { return }
    if persistence != nil { changes.append(.kept(spec.serverSpec, isKept)) }
    if !isKept {
      guard let id = keptSynced.removeValue(forKey: spec) else { return }
      _ = forget(id)
      perform(tree.unlisten(id))
    } else if keptSynced[spec] == nil {
      lastListener += 1
      // Negative numbers; positive ones are handles.
      let id = ListenerID(-lastListener)
      keptSynced[spec] = id
      let registration = Registration(
        query, spec, nil, isOnce: false, .direct, event: Callback { _ in }, cancel: nil)
      observe(registration, as: id)
    }
  }

  // MARK: Effects of the tree

  /// Performs the effects of a step of the tree.
  func perform(_ effects: Effects) {
    if persistence != nil { changes += effects.changes }
    for listen in effects.starts { start(listen) }
    for tag in effects.stops { stop(tag) }
    for event in effects.events { notify(event) }
    for id in effects.cancelled { cancel(id) }
    transactionRuns.append(contentsOf: effects.runs)
    for end in effects.ended { finish(end) }
  }

  private func notify(_ event: DataEvent) {
    guard let registration = registrations[event.listener], registration.type != nil else { return }
    let query = registration.query
    let snapshot: DataSnapshot
    if let key = event.key {
      snapshot = DataSnapshot(query.reference.child(key), event.node, order: .priority)
    } else {
      snapshot = DataSnapshot(query.reference, event.node, order: registration.spec.query.order)
    }
    let observation = Observation(
      snapshot: snapshot, previousSiblingKey: event.previous?.text)
    switch registration.delivery {
    case .direct: registration.notify(observation)
    case .callbackQueue:
      call(registration, observation)
    }
    if registration.isOnce, forget(event.listener) != nil {
      // Safe: the tree's step has ended.
      perform(tree.unlisten(event.listener))
    }
  }

  private func cancel(_ id: ListenerID) {
    guard let registration = forget(id) else { return }
    keptSynced = keptSynced.filter { $0.value != id }
    refuse(registration, subscriptions.lastRefusal ?? .notAllowed)
  }

  /// Ends an observer with an error, which is logged if the observer has no function for it.
  func refuse(_ registration: Registration, _ error: DatabaseError) {
    guard !cancel(registration, error) else { return }
    registration.end()
    options.logger.warning(
      "an observer was refused, and has no function for that",
      metadata: ["path": "\(registration.spec.path)", "error": "\(error)"])
  }

  /// Ends an observer with an error. Returns false if the observer has no function for it, and goes on.
  func cancel(_ registration: Registration, _ error: DatabaseError) -> Bool {
    guard let cancel = registration.cancel else { return false }
    let body: @Sendable () -> Void = { if registration.end() { cancel.body(error) } }
    switch registration.delivery {
    case .direct: body()
    case .callbackQueue: call(ApplicationCall(isolation: cancel.isolation, body: body))
    }
    return true
  }
}

extension DatabaseError {
  static let notAllowed = DatabaseError(
    .permissionDenied, "the security rules do not allow reading this")
}
