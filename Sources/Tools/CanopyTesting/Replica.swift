public import CanopyEngine
public import CanopyTree
internal import Synchronization
internal import Testing

/// A copy of the data of a query that a listener builds from its events. It must equal the result of the query.
///
/// The replica records a problem if a child is added twice, or removed or changed without being present, and if the
/// events of a commit arrive late or twice.
public final class Replica: Sendable {
  fileprivate struct State {
    var children: [(key: Key, node: Node)] = []
    var arrived: [ChildChange] = []
    var value = Node.absent
    var copy = Tree()
    var sequences: [Int64] = []
    var problem: String?
    /// The notifications since it resumed, until the missed changes are known.
    var held: [Notification]?
    /// A number that grows when listening begins or ends. A notification of an earlier number is late and ignored.
    var turn = 0
  }

  /// The path and the query.
  public let listening: Listening
  private let state = Mutex(State())

  /// Creates a replica that does not listen yet.
  public init(_ listening: Listening) {
    self.listening = listening
  }

  /// Begins to listen. Returns nil if the engine is stopping.
  public func start(_ engine: Engine) async -> ListenerID? {
    await listen(engine) { $0.reset($1, self.listening) }.id
  }

  /// Begins to listen again with its present copy, and receives the missed changes.
  ///
  /// - Returns: the id, and whether the engine sent the whole state again; nil if the engine is stopping.
  /// - Throws: the error of the journal. Then the copy is unchanged, and the replica does not listen.
  public func resume(_ engine: Engine) async throws -> (id: ListenerID, isAnew: Bool)? {
    let (id, start) = await listen(engine) { state, _ in state.held = [] }
    guard let id else { return nil }
    let since = sequences.last ?? 0
    let changes: [ListenEvent]?
    do { changes = try await engine.changes(since: since, to: start) } catch {
      leave(engine, id)
      throw error
    }
    state.withLock { state in
      let held = state.held ?? []
      state.held = nil
      if let changes {
        state.take(changes, listening)
        state.sequences.append(start.sequence)
      } else {
        state.reset(start, listening)
      }
      for notification in held { state.take(notification, listening) }
    }
    return (id, changes == nil)
  }

  /// Stops listening, and ignores later notifications.
  public func leave(_ engine: Engine, _ id: ListenerID) {
    state.withLock { state in
      state.turn += 1
      state.held = nil
    }
    engine.unlisten(id)
  }

  private func listen(
    _ engine: Engine, _ begin: @escaping @Sendable (inout State, ListenStart) -> Void
  ) async -> (id: ListenerID?, start: ListenStart) {
    let turn = state.withLock { state in
      state.turn += 1
      return state.turn
    }
    return await withCheckedContinuation { continuation in
      engine.listen(listening) { [self] notification in
        state.withLock { state in
          guard state.turn == turn else { return }
          if state.held != nil {
            state.held?.append(notification)
          } else {
            state.take(notification, listening)
          }
        }
      } started: { [self] id, start in
        if id != nil { state.withLock { begin(&$0, start) } }
        continuation.resume(returning: (id, start))
      }
    }
  }

  /// The sequence number at which it began or resumed, then those of all notifications.
  public var sequences: [Int64] { state.withLock { $0.sequences } }

  /// Returns the first problem of the replica for a tree; nil if it has none.
  public func problem(_ root: Node) -> String? {
    state.withLock { state in
      let node = root.at(listening.path)
      let isRight =
        switch listening.form {
        case .child:
          state.children.elementsEqual(listening.query.children(of: node)) {
            $0.key == $1.key && $0.node == $1.node
          }
        case .value: state.value == listening.query.value(of: node)
        case .sync: state.copy.root == listening.query.value(of: node)
        }
      return state.problem ?? (isRight ? nil : "the replica of \(listening) differs")
    }
  }
}

extension Replica.State {
  fileprivate mutating func reset(_ start: ListenStart, _ listening: Listening) {
    children = listening.query.children(of: start.node)
    value = listening.query.value(of: start.node)
    copy = Tree(root: listening.query.value(of: start.node))
    sequences = [start.sequence]
  }

  fileprivate mutating func take(_ notification: Notification, _ listening: Listening) {
    if let last = sequences.last, last >= notification.sequence {
      problem = problem ?? "commit \(notification.sequence) came after \(last)"
    }
    sequences.append(notification.sequence)
    take(notification.events, listening)
  }

  fileprivate mutating func take(_ events: [ListenEvent], _ listening: Listening) {
    for event in events {
      switch event {
      case .child(let change): take(change)
      case .value(let node): value = listening.query.value(of: node)
      case .put(let puts): copy.apply(puts)
      }
    }
    insertArrived()
  }

  /// Applies a change. Added children wait in `arrived` until all removals of the commit are applied.
  private mutating func take(_ change: ChildChange) {
    let index = children.firstIndex { $0.key == change.key }
    if (index == nil) != (change.kind == .added), !arrived.contains(where: { $0.key == change.key })
    {
      problem = problem ?? "\(change.key.text) was \(change.kind); it was present: \(index != nil)"
    }
    switch change.kind {
    case .removed: children.removeAll { $0.key == change.key }
    case .moved, .added:
      children.removeAll { $0.key == change.key }
      arrived.append(change)
    case .changed:
      if let index { children[index].node = change.node }
    }
  }

  private mutating func insertArrived() {
    while !arrived.isEmpty {
      let ready = arrived.firstIndex { change in
        change.previous.map { key in children.contains { $0.key == key } } ?? true
      }
      guard let ready else {
        problem = problem ?? "the previous child is missing"
        return
      }
      let change = arrived.remove(at: ready)
      let index = change.previous.flatMap { key in children.firstIndex { $0.key == key } }
      children.insert((change.key, change.node), at: index.map { $0 + 1 } ?? 0)
    }
  }
}

extension Listening {
  /// Returns a random query at a path to which `RandomWrites` with few keys writes.
  public static func random(
    _ random: inout SeededGenerator, keysMax: Int = 4
  ) throws -> Listening {
    let keys = RandomWrites.keys.prefix(keysMax)
    let count = Int.random(in: 0...2, using: &random)
    let path = (0..<count).reduce(Path.root) { path, _ in path.child(random.pick(keys)) }
    let form = random.pick(EventForm.allCases)
    if random.oneIn(2) { return Listening(path, form: form) }
    let order: Order = random.pick([.key, .value, .priority, .child(Path.root.child(keys[0]))])
    let n = Int.random(in: 1...3, using: &random)
    let limit: Query.Limit? = random.pick([nil, .first(n), .last(n)])
    var lower: Query.Bound?
    if random.oneIn(3) {
      lower = Query.Bound(.absent, key: random.pick(keys), isInclusive: random.oneIn(2))
    }
    return Listening(path, try Query(order: order, lower: lower, limit: limit), form: form)
  }
}

extension Engine {
  /// Returns the changes between a commit and the starting point of a listener.
  public func changes(since: Int64, to start: ListenStart) async throws -> [ListenEvent]? {
    try await changes(since: since, to: start) { $0 }
  }
}

extension Replica {
  /// Begins to listen to the first engine on a journal, or resumes at a later one, and checks that the copy is right.
  ///
  /// - Parameter run: the number of the engine; 0 for the first.
  package func check(_ run: Int, _ engine: Engine) async throws {
    if run == 0 {
      let id = await start(engine)
      _ = try #require(id)
    } else {
      let resumed = try await resume(engine)
      let (_, isAnew) = try #require(resumed)
      #expect(!isAnew)
    }
    if let found = problem(engine.root) { Issue.record("run \(run): \(found)") }
  }
}
