public import CanopyEngine
public import CanopyTree
internal import Synchronization

/// The journal of one node on a ``SharedMemory``, with faults from a seed.
public final class NodeJournal: SharedJournal {
  /// The rates of faults: each fault happens once in so many times, and never if the number is zero.
  public struct Faults: Sendable {
    /// Appends that fail. In a third of them nothing is stored, in a third all is stored, and the others may take place
    /// until the node asks for the outcome.
    public var appends = 0
    /// Reads, and questions for the outcome of an append, that fail.
    public var reads = 0
    /// Messages about commits that do not arrive.
    public var bells = 0
    /// Operations that other tasks overtake.
    public var delays = 0

    /// Creates faults that never happen.
    public init() {}
  }

  fileprivate struct Plan {
    var random: SeededGenerator
    var faults: Faults
    var isCut = false
    var hasLease = false
  }

  let memory: SharedMemory
  /// The number of the node.
  public let node: Int
  private let clock: any Clock<Duration>
  private let plan: Mutex<Plan>

  /// The name of the node, as the owner of on-disconnect writes.
  var name: String { SharedMemory.owner(node) }

  /// Connects a node.
  ///
  /// - Parameter clock: measures the waits for commits.
  public init(
    _ memory: SharedMemory, node: Int, clock: any Clock<Duration> = ContinuousClock(),
    faults: Faults = Faults(), seed: UInt64 = 0
  ) {
    self.memory = memory
    self.node = node
    self.clock = clock
    plan = Mutex(Plan(random: SeededGenerator(seed: seed), faults: faults))
  }

  /// Cuts the connection: all operations fail from now on, as for a node that was killed. Its turn ends.
  public func cut() {
    plan.withLock { $0.isCut = true }
    memory.endTurn(of: node)
  }

  /// Replaces the faults.
  public func setFaults(_ faults: Faults) {
    plan.withLock { $0.faults = faults }
  }

  /// Notes that this process has a lease. Returns whether it had none.
  func beginLease() -> Bool {
    plan.withLock { plan in
      defer { plan.hasLease = true }
      return !plan.hasLease
    }
  }

  /// Lets other tasks overtake this one, and fails if the connection was cut.
  func pass() async throws {
    let count = plan.withLock { plan in
      plan.happens(plan.faults.delays) ? Int.random(in: 1...20, using: &plan.random) : 0
    }
    for _ in 0..<count { await Task.yield() }
    if plan.withLock({ $0.isCut }) { throw PlannedFailure() }
  }

  private func passRead() async throws {
    try await pass()
    if plan.withLock({ $0.happens($0.faults.reads) }) { throw PlannedFailure() }
  }

  /// Reads the checkpoint and the commits since. Appends of an earlier life of the node take place now or never.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await pass()
    memory.resolveLate(of: node, owner: name, storing: plan.withLock { $0.random.oneIn(2) })
    return memory.state.withLock { state in
      var tree = Tree(root: state.root, indexPlan: indexes)
      for commit in state.commits { tree.apply(commit.assignments) }
      return JournalState(
        tree: tree, sequence: state.last, checkpoint: state.checkpoint,
        lastTime: state.commits.map { max($0.time, $0.keyTime ?? 0) }.max(),
        clientWrites: state.commits.compactMap(\.clientWrite), rules: state.rules)
    }
  }

  /// Appends commits, or fails by plan.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    try await pass()
    enum Outcome { case stored, storedAndFailed, failed, late }
    let outcome = plan.withLock { plan -> Outcome in
      guard plan.happens(plan.faults.appends) else { return .stored }
      return plan.random.pick([.storedAndFailed, .failed, .late])
    }
    switch outcome {
    case .failed: throw PlannedFailure()
    case .late:
      memory.state.withLock { $0.late[node, default: []].append((commits, last)) }
      throw PlannedFailure()
    case .stored, .storedAndFailed:
      while true {
        await memory.waitForEndOfTurn(ofOthersThan: node)
        do {
          try memory.append(commits, after: last, of: node, owner: name) { _ in
            plan.withLock { !$0.happens($0.faults.bells) }
          }
          break
        } catch is TurnTaken {}
      }
      if outcome == .storedAndFailed { throw PlannedFailure() }
    }
  }

  /// Returns the commits after a number. A late append takes place before, or never.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    try await passRead()
    memory.resolveLate(of: node, owner: name, storing: plan.withLock { $0.random.oneIn(2) })
    return try memory.state.withLock { try $0.read(after: last) }
  }

  /// Reads a page of commits of at least one.
  public func commits(after sequence: Int64, bytesMax: Int) async throws -> [Commit] {
    try await passRead()
    return try memory.state.withLock { state in
      var bytes = 0
      let page = try state.read(after: sequence, atMost: 1 + bytesMax / 100)
      return Array(
        page.prefix { commit in
          defer { bytes += commit.assignments.count * 100 }
          return bytes < bytesMax
        })
    }
  }

  /// Waits for a message about commits.
  public func waitForCommits(after sequence: Int64, atMost duration: Duration) async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { [clock, memory, node] in
        // A cancelled wait ends as well.
        try? await clock.sleep(for: duration)
        memory.wake(node)
      }
      await memory.waitForMessage(at: node, after: sequence)
      group.cancelAll()
    }
  }

  /// Waits for the turn, in the order of the requests.
  public func takeTurn() async throws -> Bool {
    try await pass()
    await memory.takeTurn(for: node)
    do {
      try await pass()
    } catch {
      memory.endTurn(of: node)
      throw error
    }
    return true
  }

  /// Ends the turn.
  public func endTurn() async {
    memory.endTurn(of: node)
  }

  /// Reads a page of the history.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    try await passRead()
    return memory.state.withLock { state in
      var page = HistoryPage()
      for commit in state.commits.reversed() where commit.sequence > first {
        guard commit.sequence <= last else { continue }
        let isThis = isAsked(commit.assignments.map(\.location))
        guard page.add(commit.sequence, bytes: 100, isThis ? commit : nil), !page.isFull
        else { break }
      }
      return page
    }
  }

  /// Does nothing: `SharedMemory.forget` folds commits.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {}
}

extension NodeJournal.Plan {
  /// Whether a fault happens that happens once in so many times.
  fileprivate mutating func happens(_ interval: Int) -> Bool {
    interval > 0 && random.oneIn(interval)
  }
}

extension SharedMemory {
  /// Stores commits, and sends messages to the other nodes.
  ///
  /// - Parameter isHeard: whether the message to a node arrives.
  fileprivate func append(
    _ commits: [Commit], after last: Int64, of node: Int, owner: String,
    isHeard: (Int) -> Bool
  ) throws {
    let waiting = try state.withLock { state -> [CheckedContinuation<Void, Never>] in
      try state.append(commits, after: last, of: node, owner: owner)
      var waiting: [CheckedContinuation<Void, Never>] = []
      for other in state.heard.keys where other != node && isHeard(other) {
        state.heard[other] = state.last
        waiting += state.listeners.removeValue(forKey: other) ?? []
      }
      return waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Carries out the late appends of a node, or drops them.
  fileprivate func resolveLate(of node: Int, owner: String, storing stores: Bool) {
    let late = state.withLock { $0.late.removeValue(forKey: node) ?? [] }
    guard stores else { return }
    for (commits, last) in late {
      // One that lost its race is dropped.
      try? append(commits, after: last, of: node, owner: owner) { _ in true }
    }
  }

  fileprivate func waitForMessage(at node: Int, after sequence: Int64) async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          // A node that waits for the first time has heard of all commits before.
          let heard = state.heard[node] ?? state.last
          state.heard[node] = heard
          if Task.isCancelled || heard > sequence { return true }
          state.listeners[node, default: []].append(continuation)
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      wake(node)
    }
  }

  /// Ends the waits of a node.
  fileprivate func wake(_ node: Int) {
    let waiting = state.withLock { $0.listeners.removeValue(forKey: node) ?? [] }
    for continuation in waiting { continuation.resume() }
  }

  fileprivate func takeTurn(for node: Int) async {
    await withCheckedContinuation { continuation in
      let isFree = state.withLock { state in
        guard state.turn == nil else {
          state.turnsWaiting.append((node, continuation))
          return false
        }
        state.turn = node
        return true
      }
      if isFree { continuation.resume() }
    }
  }

  fileprivate func endTurn(of node: Int) {
    let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      guard state.turn == node else { return [] }
      guard state.turnsWaiting.isEmpty else {
        let next = state.turnsWaiting.removeFirst()
        state.turn = next.node
        return [next.continuation]
      }
      state.turn = nil
      defer { state.appendsWaiting = [] }
      return state.appendsWaiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Waits while another node has the turn.
  fileprivate func waitForEndOfTurn(ofOthersThan node: Int) async {
    while true {
      let isFree = state.withLock { $0.turn == nil || $0.turn == node }
      if isFree { return }
      await withCheckedContinuation { continuation in
        let isFree = state.withLock { state in
          if state.turn == nil || state.turn == node { return true }
          state.appendsWaiting.append(continuation)
          return false
        }
        if isFree { continuation.resume() }
      }
    }
  }
}
