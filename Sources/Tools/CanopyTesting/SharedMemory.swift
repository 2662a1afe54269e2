public import CanopyEngine
package import CanopyTree
internal import Synchronization

/// A journal in memory that several engines write, each through a ``NodeJournal``: a model of a shared database.
public final class SharedMemory: Sendable {
  struct State {
    var root = Node.absent
    var checkpoint: Int64 = 0
    var commits: [Commit] = []
    /// The text of the note of each commit, by its number.
    var notes: [Int64: String] = [:]
    var rules: JournaledRules?
    /// The number up to which the nodes have heard of commits. A lost message leaves a node behind.
    var heard: [Int: Int64] = [:]
    var listeners: [Int: [CheckedContinuation<Void, Never>]] = [:]
    /// Appends that were given up by their nodes and may still take place, by node.
    var late: [Int: [(commits: [Commit], last: Int64)]] = [:]
    /// The node that has the turn, and those that wait for it.
    var turn: Int?
    var turnsWaiting: [(node: Int, continuation: CheckedContinuation<Void, Never>)] = []
    /// Appends that wait for the end of a turn.
    var appendsWaiting: [CheckedContinuation<Void, Never>] = []
    /// The nodes that won a number, in order.
    var winners: [Int] = []
    var disconnectWrites: [(owner: String, write: DisconnectWrite)] = []
    var lastDisconnectID: DisconnectWriteID = 0
    /// The ends of the leases of nodes, in milliseconds since 1970 by the clock of the database.
    var leases: [String: Int64] = [:]
    var counters: [String: (count: Int, end: Int64)] = [:]
  }

  let state = Mutex(State())
  /// The clock of the database, in milliseconds since 1970.
  let now: @Sendable () -> Int64

  /// Creates an empty journal.
  ///
  /// - Parameter now: the clock of the database, by which leases run out.
  public init(now: @escaping @Sendable () -> Int64 = { 1_700_000_000_000 }) {
    self.now = now
  }

  /// All commits, with their notes and before-images.
  public var commits: [Commit] { state.withLock { $0.commits } }

  /// The number of the last commit.
  public var sequence: Int64 { state.withLock { $0.last } }

  /// The ids of all on-disconnect writes.
  public var disconnectWriteIDs: Set<DisconnectWriteID> {
    state.withLock { Set($0.disconnectWrites.map(\.write.id)) }
  }

  /// Adds on-disconnect writes of a node.
  public func addDisconnectWrites(_ ids: [DisconnectWriteID], of node: Int) {
    state.withLock { state in
      for id in ids {
        let write = DisconnectWrite(id: id, identity: "null", request: "SET /x 1")
        state.disconnectWrites.append((SharedMemory.owner(node), write))
        state.lastDisconnectID = max(state.lastDisconnectID, id)
      }
    }
  }

  /// Returns the name of a node, as the owner of on-disconnect writes.
  static func owner(_ node: Int) -> String { "node-\(node)" }

  /// The node of each append, in their order.
  public var winners: [Int] { state.withLock { $0.winners } }

  /// Folds all commits, and removes those up to a number.
  public func forget(through sequence: Int64) {
    state.withLock { state in
      let forgotten = state.commits.prefix { $0.sequence <= sequence }
      state.root = forgotten.folded(onto: state.root)
      state.checkpoint = max(state.checkpoint, forgotten.last?.sequence ?? 0)
      state.commits.removeFirst(forgotten.count)
    }
  }
}

extension SharedMemory.State {
  var last: Int64 { commits.last?.sequence ?? checkpoint }

  /// Returns the commits after a number as a node reads them: without before-images.
  func read(after sequence: Int64, atMost countMax: Int = .max) throws -> [Commit] {
    guard sequence >= checkpoint else { throw JournalError.forgotten }
    return try commits.dropFirst(Int(clamping: sequence - checkpoint)).prefix(countMax).map {
      commit in
      var commit = commit
      commit.beforeImage = nil
      commit.completedDisconnectWrites = []
      commit.keyTime = nil
      commit.note = try notes[commit.sequence].map { try CommitNote(text: $0) }
      return commit
    }
  }

  /// Stores commits if they are the next.
  ///
  /// - Throws: `JournalError`; `TurnTaken` while another node has the turn.
  mutating func append(
    _ new: [Commit], after last: Int64, of node: Int, owner: String
  ) throws {
    guard turn == nil || turn == node else { throw TurnTaken() }
    guard last == self.last else {
      throw JournalError.conflict(missed: try read(after: last))
    }
    let completed = Set(new.flatMap(\.completedDisconnectWrites))
    if !completed.isEmpty {
      let own = Set(disconnectWrites.filter { $0.owner == owner }.map(\.write.id))
      let taken = completed.subtracting(own)
      guard taken.isEmpty else { throw JournalError.disconnectWritesTaken(taken.sorted()) }
      disconnectWrites.removeAll { completed.contains($0.write.id) }
    }
    commits += new
    winners.append(node)
    for commit in new {
      notes[commit.sequence] = commit.note?.text
      if case .rules(let text) = commit.note?.mark {
        rules = JournaledRules(text: text, sequence: commit.sequence)
      }
    }
  }
}

/// Another node has the turn.
struct TurnTaken: Error {}

/// Nodes on a journal in memory, for the contract suite.
package struct MemoryNodes: SharedFixture {
  private let memory = SharedMemory()

  /// Creates an empty journal.
  package init() {}

  package func open(_ node: Int) -> NodeJournal { NodeJournal(memory, node: node) }

  package func close(_ store: NodeJournal, _ node: Int) { store.cut() }

  package func forget(
    through sequence: Int64, _ root: Node, of last: Int64, on store: NodeJournal
  ) {
    memory.forget(through: sequence)
  }

  package func endLease(of node: Int) {
    let now = memory.now()
    memory.state.withLock { $0.leases[SharedMemory.owner(node)] = now }
  }
}
