internal import CanopyTree
internal import CanopyWire
internal import DequeModule
internal import Dispatch
internal import Logging
internal import Synchronization

/// What stands behind a `Database`: its state, which one thread uses at a time, and what that needs to
/// act.
///
/// What applications ask for is done on their thread, if nobody else is at it; what comes from the
/// network on a queue of its own, so that no event loop is ever held up.
final class Repository: Sendable {
  let state: Exclusive<RepositoryState>
  let callbacks = Callbacks()
  let session = SessionBox()
  let endpoint: Endpoint
  let options: DatabaseOptions
  let serverClock: ServerClock
  /// Where what comes from the network and from timers is dealt with.
  let inbox = DispatchQueue(label: "canopy.client.network")
  /// Where transactions' functions are called.
  let transactions = DispatchQueue(label: "canopy.client.transactions")

  private let lastHandle = Atomic(0)

  init(_ endpoint: Endpoint, _ options: DatabaseOptions) {
    self.endpoint = endpoint
    self.options = options
    serverClock = ServerClock(options.environment)
    state = Exclusive(RepositoryState(options, callbacks, session, serverClock, endpoint))
    state.use { [weak self] state in state.owner = self }
  }

  /// A number for a new observer.
  func nextHandle() -> Int {
    lastHandle.add(1, ordering: .relaxed).newValue
  }

  /// Uses the state, and then does what has come of it.
  func use(_ body: @escaping @Sendable (RepositoryState) -> Void) {
    state.use { state in
      body(state)
      state.finishStep()
    }
  }

  /// The same in the network's turn, after what arrived before.
  func useLater(_ body: @escaping @Sendable (RepositoryState) -> Void) {
    inbox.async { [weak self] in self?.use(body) }
  }

  /// Has something done after so many milliseconds, unless this has gone by then.
  func after(_ milliseconds: Int64, _ body: @escaping @Sendable (RepositoryState) -> Void) {
    options.environment.schedule(milliseconds) { [weak self] in self?.useLater(body) }
  }
}

/// What is called with an answer, in the step in which it comes.
typealias Answer<Value> = @Sendable (Value, RepositoryState) -> Void

/// The state of a repository. Used by one thread at a time; see `Exclusive`.
final class RepositoryState {
  let options: DatabaseOptions
  let callbacks: Callbacks
  let session: SessionBox
  let clock: ServerClock
  let endpoint: Endpoint
  /// Nil when its database has gone.
  weak var owner: Repository?

  var tree = SyncTree()
  var registrations: [ListenerID: Registration] = [:]
  var listenersByPath: [Path: [ListenerID]] = [:]
  var infos: [ListenerID: (path: Path, registration: Registration)] = [:]
  var lastListener = 0
  /// Queries that are kept synchronised without an observer.
  var keptSynced: [QuerySpec: ListenerID] = [:]

  var writeCompletions: [WriteID: Answer<DatabaseError?>] = [:]
  var transactions: [TransactionID: TransactionContext] = [:]

  // The connection.
  var phase = Phase.idle
  var isOnlineWanted = true
  /// Tells what belongs to this connection from what belongs to an earlier one.
  var generation = 0
  var backoff: Backoff
  var lines = RequestLines()
  /// Requests that were sent and not answered, in order.
  var awaited: Deque<Awaited> = []
  var subscriptions = ServerSubscriptions()
  var serverLimits = ServerLimits()
  /// When something was received last, in ticks of the keepalive.
  var silentTicks = 0
  /// On-disconnect requests that the server has not confirmed, in order.
  var disconnectRequests: [DisconnectOperation] = []
  /// Logins and the like that wait for a connection.
  var sessionRequests: Deque<SessionRequest> = []
  var writeNumbers: WriteNumbers
  /// Nil where nothing is to survive a restart.
  var persistence: Persistence?
  /// What is to be recorded at the end of the step.
  var changes: [StateChange] = []
  var hasWritten = false
  /// Writes that were sent on an earlier connection and not answered, in order.
  var unsettled: Deque<Awaited> = []
  /// Those of them that were answered on this connection: `Awaited.settled`.
  var settled: Deque<Awaited> = []
  /// Questions that wait for a connection.
  var waitingGets: [GetRequest] = []
  var lastGet = 0
  var lastSession = 0
  var lastDisconnect = 0

  /// What a step has to have done outside.
  private var calls: [@Sendable () -> Void] = []

  init(
    _ options: DatabaseOptions, _ callbacks: Callbacks, _ session: SessionBox, _ clock: ServerClock,
    _ endpoint: Endpoint
  ) {
    self.options = options
    self.callbacks = callbacks
    self.session = session
    self.clock = clock
    self.endpoint = endpoint
    backoff = options.backoff
    writeNumbers = WriteNumbers(options.environment.random)
  }

  /// Has a function of the application called, after those before.
  func call(_ body: @escaping @Sendable () -> Void) {
    calls.append(body)
  }

  /// Does what has come of a step: sends what is to be sent, and has functions called.
  func finishStep() {
    // First: sending wakes another thread, which would take the processor from whoever waits for these.
    makeCalls()
    record()
    sendWrites()
    flush()
    makeCalls()
  }

  private func makeCalls() {
    guard !calls.isEmpty else { return }
    callbacks.call(calls)
    calls.removeAll(keepingCapacity: true)
  }

  // MARK: Observing

  func observe(_ registration: Registration, as id: ListenerID) {
    registrations[id] = registration
    listenersByPath[registration.spec.path, default: []].append(id)
    connectIfWanted()
    let kinds = registration.type.map { DataEvent.Kinds($0.kind) } ?? []
    carryOut(tree.listen(id, to: registration.spec, for: kinds))
  }

  func forget(_ id: ListenerID) -> Registration? {
    guard let registration = registrations.removeValue(forKey: id) else { return nil }
    let path = registration.spec.path
    listenersByPath[path]?.removeAll { $0 == id }
    if listenersByPath[path]?.isEmpty == true { listenersByPath[path] = nil }
    return registration
  }

  /// Ends the observers that are meant: all at the path, or those of one query.
  func removeObservers(at spec: QuerySpec, where isMeant: (ListenerID) -> Bool) {
    for id in listenersByPath[spec.path] ?? [] {
      guard isMeant(id), let registration = registrations[id], registration.type != nil,
        spec.query == .all || registration.spec == spec
      else { continue }
      registration.remove()
      _ = forget(id)
      carryOut(tree.unlisten(id))
    }
  }

  func keepSynced(_ query: DatabaseQuery, _ spec: QuerySpec, _ isKept: Bool) {
    if persistence != nil { changes.append(.kept(spec.asked, isKept)) }
    if !isKept {
      guard let id = keptSynced.removeValue(forKey: spec) else { return }
      _ = forget(id)
      carryOut(tree.unlisten(id))
    } else if keptSynced[spec] == nil {
      lastListener += 1
      // Names below zero: those above are handles.
      let id = ListenerID(-lastListener)
      keptSynced[spec] = id
      let registration = Registration(
        query, spec, nil, isOnce: false, .direct, event: Callback { _ in }, cancel: nil)
      observe(registration, as: id)
    }
  }

  // MARK: What the tree wants done

  /// Does what a step of the tree asks for.
  func carryOut(_ effects: Effects) {
    if persistence != nil { changes += effects.changes }
    for listen in effects.starts { start(listen) }
    for tag in effects.stops { stop(tag) }
    for event in effects.events { tell(event) }
    for id in effects.cancelled { cancel(id) }
    for run in effects.runs { callTransaction(run) }
    for end in effects.ended { finish(end) }
  }

  private func tell(_ event: DataEvent) {
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
    case .direct: registration.tell(observation)
    case .callbackQueue: call { registration.tell(observation) }
    }
    if registration.isOnce, forget(event.listener) != nil {
      // The tree is in the middle of nothing here: its step is over.
      carryOut(tree.unlisten(event.listener))
    }
  }

  private func cancel(_ id: ListenerID) {
    guard let registration = forget(id) else { return }
    keptSynced = keptSynced.filter { $0.value != id }
    let error = subscriptions.lastRefusal ?? .notAllowed
    guard let cancel = registration.cancel else {
      registration.end()
      options.logger.warning(
        "an observer was refused, and has no function for that",
        metadata: ["path": "\(registration.spec.path)", "error": "\(error)"])
      return
    }
    let body: @Sendable () -> Void = { if registration.end() { cancel.body(error) } }
    switch registration.delivery {
    case .direct: body()
    case .callbackQueue: call(body)
    }
  }
}

extension DatabaseError {
  static let notAllowed = DatabaseError(
    .permissionDenied, "the security rules do not allow reading this")
}
