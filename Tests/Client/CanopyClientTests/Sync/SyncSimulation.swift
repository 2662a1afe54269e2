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
  private enum Message {
    case changed(ListenTag, [Assignment], isPatch: Bool, sequence: Int64)
    case acknowledged(WriteID)
    case refused(WriteID)
    case answered(TransactionID, TransactionAnswer)
  }

  /// A message to the server.
  private enum Request {
    case listen(ServerListen)
    case unlisten(ListenTag)
    case send(Outgoing)
  }

  private struct Subscription {
    var tag: ListenTag
    var spec: QuerySpec
  }

  private var random: SeededGenerator
  private var writes = RandomWrites()

  private(set) var client = SyncTree(restoring: SavedState())
  private var store = NaiveStore()
  private var isConnected = false
  private var nextListener = 0
  private var listeners: [(id: ListenerID, spec: QuerySpec, replica: EventReplica)] = []
  /// The server's reports, by listen.
  private var reported: [QuerySpec: Tree] = [:]
  /// Bounded queries about which other listens have reported; their own listens report the same,
  /// perhaps later.
  private var ahead: Set<QuerySpec> = []
  private var runs: [TransactionRun] = []
  private var committed = 0

  private var server = Tree()
  private var sequence: Int64 = 0
  private var subscriptions: [Subscription] = []

  private var toServer: [Request] = []
  private var toClient: [Message] = []
  /// The location of the transactions' counter; nothing else writes there.
  private let counter = Path.root.child("counter")

  /// The first problem found.
  private(set) var problem: String?
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

  private var isQuiet: Bool {
    toServer.isEmpty && toClient.isEmpty && runs.isEmpty && client.writes.isEmpty
      && client.transactions.all.isEmpty
  }

  private mutating func step() {
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
  private mutating func listen() {
    guard let spec = try? randomSpec() else { return }
    let id = ListenerID(nextListener)
    nextListener += 1
    note("listen \(id.number) to \(spec)")
    listeners.append((id, spec, EventReplica(spec.query)))
    take(client.listen(id, to: spec, for: .all))
  }

  private mutating func randomSpec() throws -> QuerySpec {
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

  private mutating func unlisten() {
    guard !listeners.isEmpty else { return }
    let index = Int.random(in: listeners.indices, using: &random)
    let listener = listeners.remove(at: index)
    note("unlisten \(listener.id.number)")
    take(client.unlisten(listener.id))
  }

  private mutating func write() {
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

  private mutating func beginTransaction() {
    let (id, effects) = client.beginTransaction(at: counter, hasLocalEvents: random.oneIn(2))
    note("transaction \(id.number)")
    take(effects)
  }

  private mutating func runTransaction(_ run: TransactionRun) {
    runs.removeFirst()
    let count = run.current.integerValue ?? 0
    note("transaction \(run.id.number) runs on \(count)")
    let value = random.oneIn(10) ? nil : WriteValue(Node(count + 1))
    take(client.transactionRan(run.id, attempt: run.attempt, returning: value, at: 0))
  }

  private mutating func send() {
    guard let outgoing = client.nextRequest() else { return }
    note("send \(outgoing)")
    toServer.append(.send(outgoing))
  }

  private mutating func connect() {
    isConnected = true
    note("connect")
    take(client.connected())
  }

  private mutating func disconnect() {
    isConnected = false
    note("disconnect")
    subscriptions = []
    toServer = []
    toClient = []
    take(client.disconnected())
  }

  /// Ends the client's process and starts another one with the stored state.
  private mutating func restart() {
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

  private mutating func purge() {
    note("give up all writes")
    take(client.purgeWrites().effects)
  }

  private mutating func receive() {
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
  private mutating func take(_ effects: Effects) {
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
  private func wholeTold(_ path: Path) -> Node? {
    for (spec, tree) in reported where spec.query.isUnbounded {
      if let rest = path.relative(to: spec.path) { return tree.root.at(rest) }
    }
    return nil
  }
}

// MARK: - The server

extension SyncSimulation {
  private mutating func serve() {
    guard !toServer.isEmpty else { return }
    switch toServer.removeFirst() {
    case .listen(let listen):
      subscriptions.append(Subscription(tag: listen.tag, spec: listen.spec))
      guard listen.since != sequence else { return }
      let node = listen.spec.query.value(of: server.root.at(listen.spec.path))
      toClient.append(
        .changed(listen.tag, [Assignment(.root, node)], isPatch: false, sequence: sequence))
    case .unlisten(let tag):
      subscriptions.removeAll { $0.tag == tag }
    case .send(.write(let id, let write)):
      guard !random.oneIn(8) else { return toClient.append(.refused(id)) }
      commit(write)
      toClient.append(.acknowledged(id))
    case .send(.compareAndSet(let id, let path, let base, let value)):
      let present = server.root.at(path)
      guard present.hash == base.hash else {
        return toClient.append(.answered(id, .conflict(present)))
      }
      if let write = try? Write.set(Location(path), value) { commit(write) }
      toClient.append(.answered(id, .committed))
    }
  }

  private mutating func somebodyElseWrites() {
    let write =
      random.oneIn(5)
      ? try? Write.set(Location(counter), WriteValue(Node(Int64(committed) + 100)))
      : writes.next(&random)
    guard let write else { return }
    note("somebody else: \(describe(write))")
    commit(write)
  }

  private mutating func commit(_ write: Write) {
    let before = server.root
    let done = server.apply(write.resolved(in: before, at: 0))
    sequence += 1
    for subscription in subscriptions {
      let spec = subscription.spec
      let (old, new) = (before.at(spec.path), server.root.at(spec.path))
      guard old != new else { continue }
      let puts = spec.query.isUnbounded ? Self.puts(done, spec.path, new) : []
      let narrow = spec.query.changes(from: old, to: new).filter { $0.kind != .moved }.map {
        Assignment(Path.root.child($0.key), $0.kind == .removed ? .absent : $0.node)
      }
      let assignments = spec.query.isUnbounded ? puts : narrow
      guard !assignments.isEmpty else { continue }
      let isPatch = !assignments.contains { $0.location == Location(.root) }
      toClient.append(
        .changed(subscription.tag, assignments, isPatch: isPatch, sequence: sequence))
    }
  }

  /// Returns the written locations at and below a path, relative to it.
  private static func puts(
    _ assignments: [Assignment], _ path: Path, _ node: Node
  ) -> [Assignment] {
    var result: [Assignment] = []
    for assignment in assignments {
      let location = assignment.location
      if !location.isPriority, path.hasPrefix(location.path) { return [Assignment(.root, node)] }
      guard let rest = location.path.relative(to: path) else { continue }
      result.append(
        Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
    }
    return result
  }
}

// MARK: - Checking

extension SyncSimulation {
  private mutating func check(_ events: [DataEvent]) {
    var byListener: [ListenerID: [DataEvent]] = [:]
    for event in events { byListener[event.listener, default: []].append(event) }
    for index in listeners.indices {
      let (id, spec, _) = listeners[index]
      let own = byListener.removeValue(forKey: id) ?? []
      guard let view = client.viewOfListener[id].flatMap({ client.views[$0] }) else {
        return fail("listener \(id.number) has no view")
      }
      if let wrong = view.shown.root.brokenInvariant() { return fail(wrong) }
      if let expected = expected(spec) {
        if !view.shown.isReady { return fail("\(spec) is reported, and not ready") }
        if spec.query.value(of: expected) != spec.query.value(of: view.shown.root) {
          return fail(
            "\(spec) shows \(view.shown.root.json(.export)) instead of \(expected.json(.export))")
        }
      }
      let shown = view.shown.isReady ? spec.query.value(of: view.shown.root) : nil
      if let wrong = listeners[index].replica.take(own, children: view.shown.root, value: shown) {
        return fail("listener \(id.number) of \(spec): \(wrong); it was reported \(own)")
      }
    }
    if let stray = byListener.first { fail("\(stray) is for nobody") }
  }

  /// Returns the expected result of a query: the server's reports with all pending writes, in
  /// order; nil if the reports are incomplete.
  private func expected(_ spec: QuerySpec) -> Node? {
    let pending = client.writes.records.filter(\.value.isVisible).sorted { $0.key < $1.key }
      .map(\.value.assignments)
    let isShadowed = pending.contains { assignments in
      assignments.contains { !$0.location.isPriority && spec.path.hasPrefix($0.location.path) }
    }
    if let node = wholeTold(spec.path) {
      return Self.applied(pending, to: node, at: spec.path)
    }
    guard let node = reported[spec]?.root else { return nil }
    if isShadowed { return Self.applied(pending, to: node, at: spec.path) }
    if ahead.contains(spec) { return nil }
    // A child outside the result is known only if it was written as a whole.
    var known = Set<Key>()
    node.forEachChild { key, _ in
      known.insert(key)
      return true
    }
    let visible = pending.map { assignments in
      assignments.filter { assignment in
        guard let rest = assignment.location.path.relative(to: spec.path), let key = rest.keys.first
        else { return true }
        if rest.count == 1, !assignment.location.isPriority { known.insert(key) }
        return known.contains(key)
      }
    }
    return Self.applied(visible, to: node, at: spec.path)
  }

  /// Applies writes one after the other to a tree in which only one location is known.
  private static func applied(_ writes: [[Assignment]], to node: Node, at path: Path) -> Node {
    var tree = Tree(root: node)
    for assignments in writes {
      var below: [Assignment] = []
      for assignment in assignments {
        let location = assignment.location
        if !location.isPriority, let rest = path.relative(to: location.path) {
          tree = Tree(root: assignment.value.at(rest))
          below = []
          break
        }
        guard let rest = location.path.relative(to: path) else { continue }
        below.append(
          Assignment(Location(rest, isPriority: location.isPriority), assignment.value))
      }
      tree.apply(below)
    }
    return tree.root
  }

  private mutating func checkAtRest() {
    guard problem == nil else { return }
    for (id, spec, _) in listeners {
      let shown = client.viewOfListener[id].flatMap { client.views[$0] }?.shown
      let right = spec.query.value(of: server.root.at(spec.path))
      guard let shown, shown.isReady, spec.query.value(of: shown.root) == right else {
        return fail(
          "at rest, \(spec) shows \(shown?.root.json(.export) ?? "nothing") instead of "
            + right.json(.export))
      }
    }
    if !client.increments.isEmpty { fail("something is left of increments") }
  }

  private mutating func fail(_ text: String) {
    if problem == nil { problem = text }
  }

  private func note(_ text: @autoclosure () -> String) {
    trace?.steps.append(text())
  }

  private func describe(_ write: Write) -> String {
    write.items.map {
      let isRelative = $0.value.serverValues.isEmpty ? "" : " and server values"
      return "\($0.location.text)=\($0.value.node.json(.export))\(isRelative)"
    }.joined(separator: ", ")
  }

  private func describe(_ assignments: [Assignment]) -> String {
    assignments.map { "\($0.location.text)=\($0.value.json(.export))" }.joined(separator: ", ")
  }
}

@Suite(.timeLimit(.minutes(5))) struct RandomSyncTests {
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
