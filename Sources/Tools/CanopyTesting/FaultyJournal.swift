public import CanopyEngine
public import CanopyTree
internal import Synchronization

/// An error that a test makes a store or a journal throw.
public struct PlannedFailure: Error, Equatable {
  /// Creates the error.
  public init() {}
}

/// A fault of one operation of a ``FaultyJournal``.
public enum JournalFault: Sendable {
  /// The operation waits at a gate and is then performed.
  case delay(Gate)
  /// The operation fails, and nothing is stored.
  case failBefore
  /// The operation fails although everything is stored: the writer cannot know the outcome.
  case failAfter
  /// Another writer appends these commits just before.
  case overtaken([Commit])
}

/// A journal with planned faults in front of another journal, which performs all other operations.
///
/// A plan is a queue: each operation takes the faults at its front. `fail` and the gates hold for all operations until
/// they are switched off.
public final class FaultyJournal<Base: Journal>: Journal {
  private struct Plans {
    var appends: [[JournalFault]] = []
    var checkpoints: [JournalFault] = []
    var reads: [JournalFault] = []
    var resolutions: [JournalFault] = []
    var records: [Bool] = []
    var isFailing = false
    var isUnresolvable = false
    var disconnectReads = 0
  }

  /// The journal that performs the operations.
  public let base: Base

  /// The gate of appends and of changes to on-disconnect writes. It is open at first.
  public let gate = Gate(isOpen: true)

  /// The gate of reads of the history. It is open at first.
  public let historyGate = Gate(isOpen: true)

  private let plans = Mutex(Plans())

  /// Creates a journal without faults in front of another.
  public init(_ base: Base) {
    self.base = base
  }

  /// Plans the faults of one append, in their order. An append without a plan succeeds.
  public func plan(_ faults: JournalFault...) {
    plans.withLock { $0.appends.append(faults) }
  }

  /// Plans the fault of one checkpoint.
  public func planCheckpoint(_ fault: JournalFault) {
    plans.withLock { $0.checkpoints.append(fault) }
  }

  /// Plans the fault of one read of a page of the history.
  public func planRead(_ fault: JournalFault) {
    plans.withLock { $0.reads.append(fault) }
  }

  /// Plans the fault of one `resolveAppend`.
  public func planResolve(_ fault: JournalFault) {
    plans.withLock { $0.resolutions.append(fault) }
  }

  /// Plans whether the next changes of the rules record fail, in their order.
  public func planRecords(fail: Bool...) {
    plans.withLock { $0.records += fail }
  }

  /// Forgets the plans for changes of the rules record.
  public func forgetPlannedRecords() {
    plans.withLock { $0.records = [] }
  }

  /// Plans that the next append waits.
  ///
  /// - Returns: the gate at which it waits.
  public func holdNextAppend() -> Gate {
    let gate = Gate()
    plan(.delay(gate))
    return gate
  }

  /// Makes every write fail, or work again.
  public func fail(_ isFailing: Bool) {
    plans.withLock { $0.isFailing = isFailing }
  }

  /// Makes every `resolveAppend` fail, or work again.
  public func failResolving(_ isFailing: Bool) {
    plans.withLock { $0.isUnresolvable = isFailing }
  }

  /// The number of times that the ids of the on-disconnect writes were read.
  public var disconnectReads: Int { plans.withLock { $0.disconnectReads } }

  private func checkWritable() throws {
    if plans.withLock({ $0.isFailing }) { throw PlannedFailure() }
  }

  /// Loads from the base.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await base.load(keeping: indexes)
  }

  /// Performs the plan, then appends to the base.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    await gate.pass()
    try checkWritable()
    let planned = plans.withLock { $0.appends.isEmpty ? [] : $0.appends.removeFirst() }
    for fault in planned {
      switch fault {
      case .delay(let gate): await gate.pass()
      case .failBefore: throw PlannedFailure()
      case .failAfter:
        try await base.append(commits, after: last)
        throw PlannedFailure()
      case .overtaken(let others): try await base.append(others, after: last)
      }
    }
    try await base.append(commits, after: last)
  }

  /// Performs the plan, then resolves with the base.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    if plans.withLock({ $0.isUnresolvable }) { throw PlannedFailure() }
    switch plans.withLock({ $0.resolutions.isEmpty ? nil : $0.resolutions.removeFirst() }) {
    case .delay(let gate): await gate.pass()
    case .failBefore, .failAfter: throw PlannedFailure()
    case .overtaken(let others):
      try await base.append(others, after: (others.first?.sequence ?? 1) - 1)
    case nil: break
    }
    return try await base.resolveAppend(after: last)
  }

  /// Performs the plan, then reads a page of the base.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    await historyGate.pass()
    switch plans.withLock({ $0.reads.isEmpty ? nil : $0.reads.removeFirst() }) {
    case .delay(let gate): await gate.pass()
    case .failBefore, .failAfter, .overtaken: throw PlannedFailure()
    case nil: break
    }
    return try await base.history(after: first, through: last, where: isAsked)
  }

  /// Performs the plan, then makes the checkpoint in the base.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    switch plans.withLock({ $0.checkpoints.isEmpty ? nil : $0.checkpoints.removeFirst() }) {
    case .delay(let gate): await gate.pass()
    case .failBefore, .overtaken: throw PlannedFailure()
    case .failAfter:
      try await base.checkpoint(root, through: sequence, resting: rest)
      throw PlannedFailure()
    case nil: break
    }
    try await base.checkpoint(root, through: sequence, resting: rest)
  }
}

extension FaultyJournal: DisconnectStore where Base: DisconnectStore {
  /// Reads a page from the base.
  public func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await base.disconnectWrites(after: group, countMax: countMax, bytesMax: bytesMax)
  }

  /// Reads the ids from the base, and counts the read in `disconnectReads`.
  public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    plans.withLock { $0.disconnectReads += 1 }
    return try await base.disconnectWriteIDs()
  }

  /// Changes the base after the gate, unless writes fail.
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    await gate.pass()
    try checkWritable()
    return try await base.changeDisconnectWrites(
      adding: request, to: group, exceptions: exceptions, removing: removed)
  }

  /// Changes the base after the gate, unless writes fail.
  public func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {
    await gate.pass()
    try checkWritable()
    try await base.setDisconnectIdentities(identities)
  }
}

extension FaultyJournal: RulesRecordStore where Base: RulesRecordStore {
  /// Reads the record from the base.
  public func rulesRecord() async throws -> RulesRecord? { try await base.rulesRecord() }

  /// Performs the plan, then changes the record of the base.
  public func setRulesRecord(_ record: RulesRecord?) async throws {
    try checkWritable()
    let fails = plans.withLock { $0.records.isEmpty ? false : $0.records.removeFirst() }
    if fails { throw PlannedFailure() }
    try await base.setRulesRecord(record)
  }
}

extension FaultyJournal where Base == InMemoryJournal {
  /// Creates a journal without faults in front of an empty journal in memory.
  public convenience init() {
    self.init(InMemoryJournal())
  }

  /// The number of commits.
  public var count: Int { base.commits.count }

  /// The number of commits of each append that succeeded.
  public var groups: [Int] { base.groups }

  /// The most commits of one append.
  public var batchMax: Int { base.groups.max() ?? 0 }

  /// The number of pages of the history that were read.
  public var pagesRead: Int { base.pages.count }

  /// Removes the commits up to a sequence number, as a journal that keeps a bounded number.
  public func forget(through sequence: Int64) {
    base.forget(through: sequence)
  }
}
