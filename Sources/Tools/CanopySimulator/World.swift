import CanopyEngine
import CanopySession
import CanopySocial
import CanopyTesting
import CanopyTree

/// One run: a server, its clients, and the actions of a plan.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class World: @unchecked Sendable {
  private let plan: Plan
  private let scheduler = Scheduler.shared
  private let history: History
  private let disk: SimulatedDisk
  private let accounts = InMemoryAccountStore()
  private let network: Network
  private var server: Server?
  /// The number of the present process of the server.
  private var generation = 0
  private var raw: [RawClient] = []
  private var library: [LibraryClient] = []
  /// The increments of raw clients, by counter.
  private var increments: Int64 = 0
  private var hasEnded = false

  private static let place = Path.root.child("t")
  private static let counters = Path.root.child("c")
  private static let second: Int64 = 1_000_000_000

  init(_ plan: Plan) throws {
    self.plan = plan
    let root = Seeds.root
    history = History(root: root)
    disk = SimulatedDisk(root: root, history)
    network = Network()
    let paths = [World.place, World.counters]
    raw = (0..<plan.rawClients).map { number in
      RawClient(number, network, history, paths: number == 0 ? paths : [paths[number % 2]])
    }
    library = try (0..<plan.libraryClients).map {
      try LibraryClient($0, network, history, paths: $0 % 2 == 0 ? paths.reversed() : paths)
    }
  }

  /// Runs the plan. Returns the first failed check.
  func run() -> Finding? {
    start(generation)
    watchMemory()
    for client in raw { client.connect() }
    for client in library { client.observe() }
    for item in plan.items {
      scheduler.after(milliseconds: item.milliseconds) { [self] in
        guard !hasEnded else { return }
        scheduler.note("action \(item.number): \(item.action)")
        perform(item)
      }
    }
    _ = scheduler.run(until: { history.finding != nil }, atMost: 16 * World.second)
    if history.finding == nil { waitUntilQuiet() }
    if history.finding == nil { leave() }
    return history.finding
  }

  /// The most bytes that connections may hold: those of two resumptions for each subscription, and a little for the
  /// rest. After a break, that of the connection before may be under way.
  private var memoryMax: Int {
    let subscriptions = raw.reduce(0) { $0 + $1.subscriptionCount } + 2 * library.count
    return 1024 * 1024 + 2 * subscriptions * Session.resumptionBytes
  }

  /// Checks every few milliseconds, to the end, that the memory of connections is bounded.
  private func watchMemory() {
    let used = server?.operations.memory.used ?? 0
    if used > memoryMax {
      history.fail("connections hold \(used) bytes, and may hold \(memoryMax)")
    }
    scheduler.after(milliseconds: 5) { [self] in watchMemory() }
  }

  // MARK: The server

  private func start(_ generation: Int) {
    Task.detached { [self] in
      do {
        let server = try await Server.start(
          on: disk, accounts: accounts, checkpointEvery: plan.checkpointEvery)
        guard generation == self.generation else { return server.die() }
        scheduler.note("the server is up with commit \(server.engine.snapshot.sequence)")
        check(server)
        self.server = server
        network.serverLoop = { server.takeLoop() }
        network.accept = { try server.accept($0) }
      } catch {
        guard generation == self.generation else { return }
        guard disk.isFull || disk.isUnreadable else {
          return history.fail("the server does not start: \(error)")
        }
        scheduler.note("the server does not start: \(error)")
        scheduler.after(milliseconds: 200) { [self] in
          if generation == self.generation { start(generation) }
        }
      }
    }
  }

  /// Checks that a new process has everything that was seen of earlier ones.
  private func check(_ server: Server) {
    let (sequence, root) = (server.engine.snapshot.sequence, server.engine.root)
    if sequence < history.seen {
      history.fail("a new server has \(sequence) commits; commit \(history.seen) was seen")
    }
    if let truth = history.root(after: sequence), truth != root {
      history.fail("a new server has another tree after commit \(sequence) than the journal")
    }
  }

  private func crash(milliseconds: Int64, _ kept: SimulatedDisk.Kept) {
    guard let server else { return }
    self.server = nil
    generation += 1
    let generation = generation
    server.die()
    network.endServer()
    Task.detached { [self] in
      await disk.crash(keeping: kept)
      scheduler.after(milliseconds: milliseconds) { self.start(generation) }
    }
  }

  // MARK: Actions

  private func perform(_ item: Plan.Item) {
    let text = "v\(item.number)"
    func path(_ key: String) -> String { "/t/\(key)" }
    func place(_ key: String) -> Path { (try? Path("t/\(key)")) ?? World.place }
    switch item.action {
    case .set(let client, let key): raw[client].write("SET \(path(key)) \"\(text)\"")
    case .setLarge(let client, let key):
      let filling = String(repeating: "x", count: 500 + scheduler.random(below: 20_000))
      raw[client].write("SET \(path(key)) \"\(text)-\(filling)\"")
    case .update(let numbers):
      raw[numbers[0]].write("UPDATE /t {\"a\":\"\(text)-1\",\"e/f\":\"\(text)-2\",\"b\":null}")
    case .remove(let client, let key): raw[client].write("REMOVE \(path(key))")
    case .increment(let client, let counter):
      increments += 1
      raw[client].write("UPDATE /c {\"\(counter)\":{\".sv\":{\"increment\":1}}}")
    case .read(let client, let key): raw[client].read(place(key))
    case .burst(let client):
      for number in 0..<6 {
        raw[client].write("SET /t/\(number % 3) \"\(text)-\(number)\"")
        if number % 2 == 0 { raw[client].read(place("\(number % 3)")) }
      }
    case .listenAgain(let client): raw[client].listenAgain()
    case .arm(let client): raw[client].arm(place("gone/of-\(item.number)"), text)
    case .librarySet(let client, let key): library[client].write(place(key), text)
    case .libraryIncrement(let client, let counter):
      library[client].increment((try? Path("c/\(counter)")) ?? World.counters)
    case .transact(let client): library[client].transact(World.counters.child("z"))
    case .offline(let client, let milliseconds):
      library[client].goOffline()
      scheduler.after(milliseconds: milliseconds) { [self] in library[client].goOnline() }
    case .libraryBurst(let client, let milliseconds):
      for key in ["a", "b", "c"] { library[client].write(place(key), "\(text)-\(key)") }
      scheduler.after(nanoseconds: scheduler.random(0...milliseconds * 1_000_000)) { [self] in
        library[client].goOffline()
        scheduler.after(milliseconds: scheduler.random(0...50)) { [self] in
          library[client].goOnline()
        }
      }
    case .post(let client): raw[client].request(.post, text)
    case .star(let client): raw[client].request(.star)
    case .comment(let client): raw[client].request(.comment, text)
    case .delete(let client): raw[client].request(.delete)
    case .internalStar(let user, let post): star(user, post)
    case .breakConnection(let client): raw[client].breakConnection()
    case .breakAny(let number): network.breakAny(number)
    case .partition(let milliseconds): network.partition(milliseconds: milliseconds)
    case .crash(let milliseconds, let kept): crash(milliseconds: milliseconds, kept)
    case .failAppend(let fault, let unresolvable):
      disk.faults.append(fault)
      disk.unresolvable += unresolvable
    case .slowDisk(let milliseconds):
      disk.delayMax = 300_000_000
      scheduler.after(milliseconds: milliseconds) { [self] in disk.delayMax = 3_000_000 }
    case .fullDisk(let milliseconds):
      disk.isFull = true
      scheduler.after(milliseconds: milliseconds) { [self] in disk.isFull = false }
    case .unreadableDisk(let milliseconds):
      disk.isUnreadable = true
      scheduler.after(milliseconds: milliseconds) { [self] in disk.isUnreadable = false }
    }
  }

  private func star(_ user: Int, _ post: Int) {
    guard let server, let uid = try? Key("user-\(user)") else { return }
    let known = history.seen
    server.engine.submit { proposal in
      try Posts.toggleStar(Seeds.posts[post], by: uid, in: &proposal)
    } completion: { [self] result in
      guard server === self.server, case .success(let committed) = result else { return }
      history.note(seen: committed.sequence, "a star")
      if committed.sequence <= known {
        history.fail("a star is commit \(committed.sequence), and was put after commit \(known)")
      }
    }
  }

  // MARK: The end

  /// Ends all faults, and waits until everybody has the same state.
  private func waitUntilQuiet() {
    hasEnded = true
    scheduler.note("the faults end")
    disk.faults = []
    disk.unresolvable = 0
    disk.delayMax = 3_000_000
    disk.isFull = false
    disk.isUnreadable = false
    let isDone = { [self] in
      history.finding != nil
        || server != nil && raw.allSatisfy(\.isDone) && library.allSatisfy(\.isDone)
    }
    guard scheduler.run(until: isDone, atMost: 120 * World.second) else {
      let states = raw.map(\.state) + library.map(\.state)
      return history.fail(
        "not everybody has the last state, commit \(history.last), two minutes after the last fault: "
          + states.joined(separator: "; ") + (server == nil ? "; the server is down" : ""))
    }
    guard history.finding == nil else { return }
    for client in library { client.checkAll() }
    history.checkBlog()
    let root = history.root.at(World.counters)
    let sum = ["x", "y"].reduce(Int64(0)) {
      $0 + (root.child($1 == "x" ? "x" : "y").integerValue ?? 0)
    }
    let wanted = library.reduce(increments) { $0 + $1.increments }
    if sum != wanted { history.fail("\(wanted) increments have the sum \(sum)") }
    let transactions = library.reduce(Int64(0)) { $0 + $1.transactions }
    if root.child("z").integerValue ?? 0 != transactions {
      history.fail("\(transactions) transactions have the sum \(root.child("z").shown)")
    }
  }

  /// Ends all connections, and checks that nothing of them is left.
  private func leave() {
    for client in raw { client.leave() }
    for client in library { client.goOffline() }
    let isDone = { [self] in
      guard let server else { return false }
      return server.engine.listenerCounts.listeners == 0
        && server.engine.authorizationCounts.authorizations == 0
        && server.operations.memory.used == 0 && armedAreMade()
    }
    if !scheduler.run(until: isDone, atMost: 60 * World.second) {
      let listeners = server?.engine.listenerCounts.listeners ?? 0
      let bytes = server?.operations.memory.used ?? 0
      let armed = armedAreMade() ? "made" : "missing"
      history.fail(
        "a minute after the last connection the server has \(listeners) listeners and \(bytes) bytes of "
          + "connections; the on-disconnect writes are \(armed); \(network.open)")
    }
    _ = armedAreMade()
  }

  /// Whether all on-disconnect writes are made. Notes those that are made twice.
  private func armedAreMade() -> Bool {
    for client in raw {
      for text in client.armed where history.sequences(of: text).isEmpty { return false }
      for text in client.perhapsArmed where history.sequences(of: text).count > 1 {
        history.fail("the on-disconnect write of \(text) was made twice")
      }
    }
    return true
  }
}

/// The data with which every run begins: posts with two copies, on which stars are put.
enum Seeds {
  static let stars: Key = "stars"
  static let starCount: Key = "starCount"
  private static let author: Key = "author-1"
  /// The ids of the posts.
  static let posts: [Key] = ["post-1", "post-2"]
  /// The locations of all copies of posts.
  static let copies: [Path] = posts.flatMap { id in
    [
      Path.root.child("posts").child(id), Path.root.child("user-posts").child(author).child(id),
    ]
  }

  /// The root at the beginning.
  static var root: Node {
    let post = Node(children: [
      ("author", "Ada"), ("body", "text"), ("createdAt", 1), (starCount, 0), ("title", "title"),
      ("uid", Node(author.text)),
    ])
    let all = Node(children: posts.map { ($0, post) })
    return Node(children: [("posts", all), ("user-posts", Node(children: [(author, all)]))])
  }
}
