public import CanopyEngine
public import CanopyTree
internal import Synchronization

/// A journal that fails as it is told to, and otherwise does what the one behind it does.
public final class FaultyJournal: Journal {
  /// What happens to one append.
  public enum Fault: Sendable {
    /// It waits at a gate and is then carried out.
    case delay(Gate)
    /// It fails, and nothing is stored.
    case failBefore
    /// It fails although everything is stored: the writer cannot know.
    case failAfter
    /// Another writer appends these just before.
    case overtaken([Commit])
  }

  /// What a fault makes an append fail with.
  public struct Failure: Error {}

  private let journal: any Journal
  private let faults = Mutex<[[Fault]]>([])
  private let checkpointFaults = Mutex<[Fault]>([])
  private let readFaults = Mutex<[Fault]>([])
  private let resolveFaults = Mutex<[Fault]>([])

  /// A journal in front of another.
  public init(_ journal: any Journal) {
    self.journal = journal
  }

  /// Plans what happens to the next append that has no plan yet: the given faults, in order. Without
  /// any, it succeeds.
  public func plan(_ faults: Fault...) {
    self.faults.withLock { $0.append(faults) }
  }

  /// Plans what happens to the next checkpoint that has no plan yet.
  public func planCheckpoint(_ fault: Fault) {
    checkpointFaults.withLock { $0.append(fault) }
  }

  /// Plans what happens to the next reading of a page of history that has no plan yet.
  public func planRead(_ fault: Fault) {
    readFaults.withLock { $0.append(fault) }
  }

  /// Plans what happens to the next `resolveAppend` that has no plan yet.
  public func planResolve(_ fault: Fault) {
    resolveFaults.withLock { $0.append(fault) }
  }

  /// Plans that the next append waits.
  ///
  /// - Returns: where it waits.
  public func holdNextAppend() -> Gate {
    let gate = Gate()
    plan(.delay(gate))
    return gate
  }

  /// What the journal behind this one holds.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await journal.load(keeping: indexes)
  }

  /// Does what is planned, then appends to the journal behind this one.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    let planned = faults.withLock { $0.isEmpty ? [] : $0.removeFirst() }
    for fault in planned {
      switch fault {
      case .delay(let gate): await gate.pass()
      case .failBefore: throw Failure()
      case .failAfter:
        try await journal.append(commits, after: last)
        throw Failure()
      case .overtaken(let others): try await journal.append(others, after: last)
      }
    }
    try await journal.append(commits, after: last)
  }

  /// Does what is planned, then resolves with the journal behind this one.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    switch resolveFaults.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
    case .delay(let gate): await gate.pass()
    case .failBefore, .failAfter: throw Failure()
    case .overtaken(let others):
      try await journal.append(others, after: (others.first?.sequence ?? 1) - 1)
    case nil: break
    }
    return try await journal.resolveAppend(after: last)
  }

  /// Does what is planned, then reads a page of the journal behind this one.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    switch readFaults.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
    case .delay(let gate): await gate.pass()
    case .failBefore, .failAfter, .overtaken: throw Failure()
    case nil: break
    }
    return try await journal.history(after: first, through: last, where: isAsked)
  }

  /// Does what is planned, then has the journal behind this one make the checkpoint.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    switch checkpointFaults.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
    case .delay(let gate): await gate.pass()
    case .failBefore, .overtaken: throw Failure()
    case .failAfter:
      try await journal.checkpoint(root, through: sequence, resting: rest)
      throw Failure()
    case nil: break
    }
    try await journal.checkpoint(root, through: sequence, resting: rest)
  }
}
