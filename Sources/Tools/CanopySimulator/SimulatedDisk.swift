import CanopyEngine
import CanopyTesting
import CanopyTree

/// The disk of the server, which outlives its processes.
///
/// An operation takes time. At its end everything that it wrote is durable. If the process dies before, the operation is
/// lost as a whole, or kept as a whole although its caller gets no answer. A crash may lose some operations and keep
/// others that were under way at the same time.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class SimulatedDisk: @unchecked Sendable {
  /// A fault of the next append.
  enum Fault: String, CaseIterable, Sendable {
    /// It fails, and nothing is stored.
    case failBefore
    /// It fails although everything is stored.
    case failAfter
  }

  /// The operations under way that a crash keeps.
  enum Kept: CaseIterable, Sendable {
    case all
    case none
    /// Each of them or not.
    case some
  }

  /// The durable contents.
  let journal: InMemoryJournal
  let history: History
  /// The faults of the next appends.
  var faults: [Fault] = []
  /// The number of times that the next failed append cannot be resolved.
  var unresolvable = 0
  /// The longest time of an operation in nanoseconds.
  var delayMax: Int64 = 3_000_000
  /// Whether every write fails, and nothing is stored.
  var isFull = false
  /// Whether every read fails.
  var isUnreadable = false
  /// The operations under way, which a crash loses or keeps.
  fileprivate var underWay: [Int: () async -> Void] = [:]
  private var lastOperation = 0

  init(root: Node, _ history: History) {
    journal = InMemoryJournal(root: root)
    self.history = history
  }

  /// Loses or keeps the operations under way, as a crash does.
  func crash(keeping kept: Kept) async {
    let operations = underWay.sorted { $0.key < $1.key }.map(\.value)
    underWay = [:]
    for operation in operations {
      let isKept =
        switch kept {
        case .all: true
        case .none: false
        case .some: Scheduler.shared.random(below: 2) == 0
        }
      if isKept { await operation() }
    }
  }

  fileprivate func begin(_ operation: @escaping () async -> Void) -> Int {
    lastOperation += 1
    underWay[lastOperation] = operation
    return lastOperation
  }

  fileprivate func end(_ number: Int) { underWay[number] = nil }

  /// Appends commits to the durable journal.
  fileprivate func append(_ commits: [Commit], after last: Int64) async throws {
    try await journal.append(commits, after: last)
    history.append(commits)
  }
}

/// The error of every operation of a process that has died.
struct ProcessEnded: Error {}

/// An error of the disk.
struct DiskError: Error {}

/// The journal of one process of the server.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class SimulatedJournal: Journal, DisconnectStore, RulesRecordStore, @unchecked Sendable {
  private let disk: SimulatedDisk
  private var hasDied = false

  init(_ disk: SimulatedDisk) {
    self.disk = disk
  }

  /// Ends the process: from now on nothing that it does reaches the disk.
  func die() { hasDied = true }

  private func check() throws {
    if hasDied { throw ProcessEnded() }
  }

  private func wait() async throws {
    try check()
    await pause(Scheduler.shared.random(20_000...disk.delayMax))
    try check()
  }

  /// Waits as a read does.
  ///
  /// - Throws: `DiskError` while the disk cannot be read.
  private func read() async throws {
    try await wait()
    guard disk.isUnreadable else { return }
    Scheduler.shared.note("a read fails")
    throw DiskError()
  }

  /// Carries out a change after a time, unless the process dies before.
  private func change<R: Sendable>(_ body: @escaping () async throws -> R) async throws -> R {
    try check()
    if disk.isFull {
      try await wait()
      Scheduler.shared.note("a write fails")
      throw DiskError()
    }
    let number = disk.begin { _ = try? await body() }
    await pause(Scheduler.shared.random(100_000...disk.delayMax))
    try check()
    disk.end(number)
    return try await body()
  }

  func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await read()
    return try await disk.journal.load(keeping: indexes)
  }

  func append(_ commits: [Commit], after last: Int64) async throws {
    try check()
    let fault = disk.faults.isEmpty ? nil : disk.faults.removeFirst()
    if fault == .failBefore {
      try await wait()
      Scheduler.shared.note("an append fails before")
      throw DiskError()
    }
    try await change { [disk] in try await disk.append(commits, after: last) }
    if fault == .failAfter {
      Scheduler.shared.note("an append fails after")
      throw DiskError()
    }
  }

  func resolveAppend(after last: Int64) async throws -> [Commit] {
    try await read()
    if disk.unresolvable > 0 {
      disk.unresolvable -= 1
      throw DiskError()
    }
    return try await disk.journal.resolveAppend(after: last)
  }

  func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    try await read()
    return try await disk.journal.history(after: first, through: last, where: isAsked)
  }

  func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    try await wait()
    try await rest()
    try await change { [disk] in
      try await disk.journal.checkpoint(root, through: sequence) {}
    }
  }

  func disconnectWrites(
    after group: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await read()
    return try await disk.journal.disconnectWrites(
      after: group, countMax: countMax, bytesMax: bytesMax)
  }

  func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    try await read()
    return try await disk.journal.disconnectWriteIDs()
  }

  func changeDisconnectWrites(
    adding request: (identity: String, request: String)?, to group: DisconnectWriteID?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    try await change { [disk] in
      try await disk.journal.changeDisconnectWrites(
        adding: request, to: group, exceptions: exceptions, removing: removed)
    }
  }

  func setDisconnectIdentities(_ identities: [DisconnectWriteID: String]) async throws {
    try await change { [disk] in try await disk.journal.setDisconnectIdentities(identities) }
  }

  func rulesRecord() async throws -> RulesRecord? {
    try check()
    return try await disk.journal.rulesRecord()
  }

  func setRulesRecord(_ record: RulesRecord?) async throws {
    try await change { [disk] in try await disk.journal.setRulesRecord(record) }
  }
}
