import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyClient

/// A client, a server and the connection between them in one thread, with random steps.
///
/// The server is as simple as possible, and so is the model of the client's results: for each
/// query, a copy of the server's reports with all pending writes applied from scratch.
struct SyncSimulation {
  /// A message to the client.
  enum Message {
    case changed(ListenTag, [Assignment], isPatch: Bool, sequence: Int64)
    case acknowledged(WriteID)
    case refused(WriteID)
    case answered(TransactionID, TransactionAnswer)
  }

  /// A message to the server.
  enum Request {
    case listen(ServerListen)
    case unlisten(ListenTag)
    case send(Outgoing)
  }

  struct Subscription {
    var tag: ListenTag
    var spec: QuerySpec
  }

  var random: SeededGenerator
  var writes = RandomWrites()

  var client = SyncTree(restoring: SavedState())
  var store = NaiveStore()
  var isConnected = false
  var nextListener = 0
  var listeners: [(id: ListenerID, spec: QuerySpec, replica: EventReplica)] = []
  /// The server's reports, by listen.
  var reported: [QuerySpec: Tree] = [:]
  /// Bounded queries about which other listens have reported; their own listens report the same,
  /// perhaps later.
  var ahead: Set<QuerySpec> = []
  var runs: [TransactionRun] = []
  var committed = 0

  var server = Tree()
  var sequence: Int64 = 0
  var subscriptions: [Subscription] = []

  var toServer: [Request] = []
  var toClient: [Message] = []
  /// The location of the transactions' counter; nothing else writes there.
  let counter = Path.root.child("counter")

  /// The first problem found.
  var problem: String?
  /// The log of the steps, if it is kept.
  let trace: Trace?

  /// A log of steps.
  final class Trace {
    var steps: [String] = []
  }

  init(_ random: SeededGenerator, trace: Trace? = nil) {
    self.trace = trace
    self.random = random
    writes.keysMax = 3
    writes.depthMax = 3
    writes.bigOnceIn = 1_000
  }

  /// Runs random steps, then delivers all messages.
  mutating func run(steps: Int) {
    for _ in 0..<steps where problem == nil { step() }
    if !isConnected { connect() }
    var rest = 10_000
    while problem == nil, rest > 0, !isQuiet {
      rest -= 1
      if let run = runs.first { runTransaction(run) } else { send() }
      if !toServer.isEmpty { serve() }
      if !toClient.isEmpty { receive() }
    }
    if rest == 0 { fail("it does not come to rest") }
    checkAtRest()
  }

  var isQuiet: Bool {
    toServer.isEmpty && toClient.isEmpty && runs.isEmpty && client.writes.isEmpty
      && client.transactions.all.isEmpty
  }

  mutating func step() {
    switch Int.random(in: 0..<24, using: &random) {
    case 0, 1: listen()
    case 2: unlisten()
    case 3, 4, 5: write()
    case 6: beginTransaction()
    case 7: if let run = runs.first { runTransaction(run) }
    case 8, 9: somebodyElseWrites()
    case 10...13: send()
    case 14...17: serve()
    case 18...22: receive()
    default:
      if random.oneIn(12) {
        restart()
      } else if random.oneIn(20) {
        purge()
      } else if isConnected, random.oneIn(3) {
        disconnect()
      } else if !isConnected {
        connect()
      }
    }
  }
}

// MARK: - The client

extension SyncSimulation {
  mutating func listen() {
    guard let spec = try? randomSpec() else { return }
    let id = ListenerID(nextListener)
    nextListener += 1
    note("listen \(id.number) to \(spec)")
    listeners.append((id, spec, EventReplica(spec.query)))
    take(client.listen(id, to: spec, for: .all))
  }

  mutating func randomSpec() throws -> QuerySpec {
    let keys = RandomWrites.keys.prefix(3)
    let count = Int.random(in: 0...2, using: &random)
    let path = (0..<count).reduce(Path.root) { path, _ in path.child(random.pick(keys)) }
    if random.oneIn(3) { return QuerySpec(path) }
    let order: Order = random.pick([.key, .value, .priority, .child(Path.root.child(keys[0]))])
    let n = Int.random(in: 1...2, using: &random)
    let limit: Query.Limit? = random.pick([nil, .first(n), .last(n)])
    var lower: Query.Bound?
    if random.oneIn(3) {
      lower = Query.Bound(.absent, key: random.pick(keys), isInclusive: random.oneIn(2))
    }
    return QuerySpec(path, try Query(order: order, lower: lower, limit: limit))
  }

  mutating func unlisten() {
    guard !listeners.isEmpty else { return }
    let index = Int.random(in: listeners.indices, using: &random)
    let listener = listeners.remove(at: index)
    note("unlisten \(listener.id.number)")
    take(client.unlisten(listener.id))
  }

  mutating func write() {
    var write = writes.next(&random)
    if random.oneIn(5), let json = try? WriteValue(json: #"{".sv":{"increment":2}}"#),
      let path = write.items.first?.location.path, !path.isRoot,
      let increment = try? Write.set(Location(path), json)
    {
      write = increment
    }
    let (id, effects) = client.write(write, at: 0)
    note("write \(id.number): \(describe(write))")
    take(effects)
  }

  mutating func beginTransaction() {
    let (id, effects) = client.beginTransaction(at: counter, hasLocalEvents: random.oneIn(2))
    note("transaction \(id.number)")
    take(effects)
  }

  mutating func runTransaction(_ run: TransactionRun) {
    runs.removeFirst()
    let count = run.current.integerValue ?? 0
    note("transaction \(run.id.number) runs on \(count)")
    let value = random.oneIn(10) ? nil : WriteValue(Node(count + 1))
    take(client.transactionRan(run.id, attempt: run.attempt, returning: value, at: 0))
  }

  mutating func send() {
    guard let outgoing = client.nextRequest() else { return }
    note("send \(outgoing)")
    toServer.append(.send(outgoing))
  }

  mutating func connect() {
    isConnected = true
    note("connect")
    take(client.connected())
  }

  mutating func disconnect() {
    isConnected = false
    note("disconnect")
    subscriptions = []
    toServer = []
    toClient = []
    take(client.disconnected())
  }

  /// Ends the client's process and starts another one with the stored state.
  mutating func restart() {
    note("restart")
    ahead = []
    client = SyncTree(restoring: store.load())
    isConnected = false
    listeners = []
    reported = [:]
    runs = []
    subscriptions = []
    toServer = []
    toClient = []
  }

  mutating func purge() {
    note("give up all writes")
    take(client.purgeWrites().effects)
  }

  mutating func receive() {
    guard !toClient.isEmpty else { return }
    switch toClient.removeFirst() {
    case .changed(let tag, let assignments, let isPatch, let sequence):
      note(
        "reported of \(client.listens[tag]?.spec.path.description ?? "-"): \(describe(assignments))"
      )
      if let spec = client.listens[tag]?.spec {
        reported[spec, default: Tree()].apply(assignments)
        for other in client.viewOfSpec.keys
        where other != spec && !other.query.isUnbounded && spec.path.hasPrefix(other.path) {
          ahead.insert(other)
        }
      }
      take(client.changed(tag, assignments, isPatch: isPatch, sequence: sequence))
    case .acknowledged(let id):
      note("acknowledged \(id.number)")
      take(client.acknowledged(id))
    case .refused(let id):
      note("refused \(id.number)")
      take(client.refused(id))
    case .answered(let id, let answer):
      note("answered \(id.number): \(answer)")
      take(client.transactionAnswered(id, answer))
    }
  }

  /// Performs the effects of a step and checks its events.
  mutating func take(_ effects: Effects) {
    for listen in effects.starts {
      // Without a starting commit, the server sends the whole state again.
      if listen.since == nil { reported[listen.spec] = nil }
      toServer.append(.listen(listen))
    }
    // The reports of a wider listen are the starting point of others.
    for listen in client.listens.all where listen.sequence != nil && reported[listen.spec] == nil {
      // After a restart, the stored state is the starting point.
      let stored = client.views.values.first { $0.spec.serverSpec == listen.spec }?.server.root
      reported[listen.spec] = (wholeTold(listen.spec.path) ?? stored).map { Tree(root: $0) }
    }
    store.record(effects.changes)
    for tag in effects.stops { toServer.append(.unlisten(tag)) }
    for run in effects.runs {
      runs.removeAll { $0.id == run.id }
      runs.append(run)
    }
    for end in effects.ended {
      runs.removeAll { $0.id == end.id }
      if case .committed = end.outcome { committed += 1 }
    }
    if !effects.cancelled.isEmpty { fail("nothing was refused, and listeners are gone") }
    reported = reported.filter { client.listens[$0.key] != nil }
    if isConnected, toClient.isEmpty, toServer.isEmpty { ahead = [] }
    check(effects.events)
  }

  /// Returns the server's report of a whole location, if there is one.
  func wholeTold(_ path: Path) -> Node? {
    for (spec, tree) in reported where spec.query.isUnbounded {
      if let rest = path.relative(to: spec.path) { return tree.root.at(rest) }
    }
    return nil
  }
}

@Suite(.timeLimit(.minutes(20))) struct RandomSyncTests {
  @Test func `listeners see the model's results in every sequence of steps`() {
    var random = SeededGenerator(printingSeedFor: "RandomSyncTests")
    for run in 0..<2_000 {
      let seed = random.next()
      var simulation = SyncSimulation(SeededGenerator(seed: seed))
      simulation.run(steps: 60)
      guard let problem = simulation.problem else { continue }
      let trace = SyncSimulation.Trace()
      var again = SyncSimulation(SeededGenerator(seed: seed), trace: trace)
      again.run(steps: 60)
      Issue.record("run \(run): \(problem)\nafter:\n\(trace.steps.joined(separator: "\n"))")
      return
    }
  }
}
