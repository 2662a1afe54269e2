// What the harness of the line protocol needs of the world besides what CanopyTesting has for all: a
// gate that opens and shuts, a journal and a hash function behind such gates, and a log that is kept.

public import CanopyAccounts
public import CanopyEngine
public import CanopyTree
import Foundation
public import Logging
import Synchronization

/// What a test makes a store or a journal fail with.
public struct LinePlannedFailure: Error, Equatable {
  /// The failure.
  public init() {}
}

/// A place where work stops until it is let through.
public final class LineGate: Sendable {
  private struct State {
    var holds = 0
    var waiting: [CheckedContinuation<Void, Never>] = []
    var arrivals: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// An open gate.
  public init() {}

  /// Whoever comes from now on waits, or only so many.
  public func hold(_ count: Int = .max) {
    state.withLock { $0.holds = count }
  }

  /// Opens the gate.
  public func release() {
    let waiting = state.withLock { state in
      state.holds = 0
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Returns when somebody waits.
  public func arrival() async {
    await withCheckedContinuation { continuation in
      let isThere = state.withLock { state in
        guard state.waiting.isEmpty else { return true }
        state.arrivals.append(continuation)
        return false
      }
      if isThere { continuation.resume() }
    }
  }

  /// Goes through, or waits.
  public func pass() async {
    await withCheckedContinuation { continuation in
      let (isOpen, arrivals) = state.withLock {
        state -> (Bool, [CheckedContinuation<Void, Never>]) in
        guard state.holds > 0 else { return (true, []) }
        state.holds -= 1
        state.waiting.append(continuation)
        defer { state.arrivals = [] }
        return (false, state.arrivals)
      }
      for arrival in arrivals { arrival.resume() }
      if isOpen { continuation.resume() }
    }
  }
}

/// A journal in memory that fails or is held up while a test wishes, however many appends come.
public final class LineJournal: Journal, Sendable {
  private let journal = InMemoryJournal()
  private let isFailing = Mutex(false)
  private let isUnreadable = Mutex(false)
  private let next = Mutex<Fault?>(nil)
  private let disconnectReadCount = Mutex(0)

  /// What happens to one append.
  public enum Fault: Sendable {
    /// It fails, and nothing is stored.
    case failBefore
    /// It fails although everything is stored: the writer cannot know.
    case failAfter
  }

  /// Holds appends up.
  public let gate = LineGate()

  /// Holds readers of the history up.
  public let historyGate = LineGate()

  /// An empty journal.
  public init() {}

  /// Makes every append throw, or work again.
  public func fail(_ isFailing: Bool) {
    self.isFailing.withLock { $0 = isFailing }
  }

  /// Makes the next append throw, and only that.
  public func failNext(_ fault: Fault) {
    next.withLock { $0 = fault }
  }

  /// The number of commits.
  public var count: Int { journal.commits.count }

  /// The number of commits of each append.
  public var groups: [Int] { journal.groups }

  /// The most commits that came in one append.
  public var batchMax: Int { journal.groups.max() ?? 0 }

  /// See `Journal`.
  public func load(keeping indexes: IndexPlan) async throws -> JournalState {
    try await journal.load(keeping: indexes)
  }

  /// See `Journal`.
  public func append(_ commits: [Commit], after last: Int64) async throws {
    await gate.pass()
    if isFailing.withLock({ $0 }) { throw LinePlannedFailure() }
    let fault = next.withLock { $0.take() }
    if fault == .failBefore { throw LinePlannedFailure() }
    try await journal.append(commits, after: last)
    if fault == .failAfter { throw LinePlannedFailure() }
  }

  /// Makes every `resolveAppend` throw, or work again.
  public func failResolving(_ isFailing: Bool) {
    isUnreadable.withLock { $0 = isFailing }
  }

  /// See `Journal`.
  public func resolveAppend(after last: Int64) async throws -> [Commit] {
    if isUnreadable.withLock({ $0 }) { throw LinePlannedFailure() }
    return try await journal.resolveAppend(after: last)
  }

  /// See `Journal`.
  public func history(
    after first: Int64, through last: Int64, where isAsked: @escaping HistoryFilter
  ) async throws -> HistoryPage {
    await historyGate.pass()
    return try await journal.history(after: first, through: last, where: isAsked)
  }

  /// The number of pages of the history that were read.
  public var pagesRead: Int { journal.pages.count }

  /// Forgets the commits up to one.
  public func forget(through sequence: Int64) {
    journal.forget(through: sequence)
  }

  /// See `Journal`.
  public func checkpoint(
    _ root: Node, through sequence: Int64, resting rest: @Sendable () async throws -> Void
  ) async throws {
    try await journal.checkpoint(root, through: sequence, resting: rest)
  }
}

extension LineJournal: RulesRecordStore {
  /// See `RulesRecordStore`.
  public func rulesRecord() async throws -> RulesRecord? { try await journal.rulesRecord() }

  /// See `RulesRecordStore`. Fails as appends do.
  public func setRulesRecord(_ record: RulesRecord?) async throws {
    if isFailing.withLock({ $0 }) { throw LinePlannedFailure() }
    try await journal.setRulesRecord(record)
  }
}

extension LineJournal: DisconnectStore {
  /// See `DisconnectStore`.
  public func disconnectWrites(
    after id: DisconnectWriteID, countMax: Int, bytesMax: Int
  ) async throws -> [DisconnectWrite] {
    try await journal.disconnectWrites(after: id, countMax: countMax, bytesMax: bytesMax)
  }

  /// See `DisconnectStore`. Counted in `disconnectReads`.
  public func disconnectWriteIDs() async throws -> Set<DisconnectWriteID> {
    disconnectReadCount.withLock { $0 += 1 }
    return try await journal.disconnectWriteIDs()
  }

  /// How often the ids of the on-disconnect writes were read.
  public var disconnectReads: Int { disconnectReadCount.withLock { $0 } }

  /// See `DisconnectStore`. Held up and failing as appends are.
  public func changeDisconnectWrites(
    adding request: (identity: String, request: String)?,
    exceptions: [DisconnectWriteID: [String]], removing removed: [DisconnectWriteID]
  ) async throws -> DisconnectWriteID? {
    await gate.pass()
    if isFailing.withLock({ $0 }) { throw LinePlannedFailure() }
    return try await journal.changeDisconnectWrites(
      adding: request, exceptions: exceptions, removing: removed)
  }
}

/// The cheapest argon2id, held up while the test wishes.
public final class LineHash: PasswordHashFunction {
  private struct State {
    var isHeld = false
    var running = 0
  }

  private let state = Mutex(State())
  private let change = NSCondition()

  /// A function that is not held up.
  public init() {}

  /// Hashes that begin from now on do not end until `release`.
  public func hold() {
    state.withLock { $0.isHeld = true }
  }

  /// Lets all end.
  public func release() {
    state.withLock { $0.isHeld = false }
    change.lock()
    change.broadcast()
    change.unlock()
  }

  /// Hashes that have begun and not ended.
  public var running: Int { state.withLock { $0.running } }

  /// See `PasswordHashFunction`. Blocks its thread, which is the hasher's own.
  public func tag(
    password: [UInt8], salt: [UInt8], parameters: HashParameters, tagBytes: Int
  ) throws -> [UInt8] {
    state.withLock { $0.running += 1 }
    defer { state.withLock { $0.running -= 1 } }
    change.lock()
    while state.withLock({ $0.isHeld }) { change.wait() }
    change.unlock()
    return try Argon2id().tag(
      password: password, salt: salt, parameters: parameters, tagBytes: tagBytes)
  }
}

/// A log that keeps its lines, of every level, with all their metadata.
public final class LineLog: Sendable {
  private let kept = Mutex<[String]>([])

  /// An empty log.
  public init() {}

  /// The lines so far: level, message, metadata.
  public var lines: [String] { kept.withLock { $0 } }

  /// A logger that writes here.
  public var logger: Logger {
    var logger = Logger(label: "canopy.test") { _ in Handler(log: self) }
    logger.logLevel = .trace
    return logger
  }

  private struct Handler: LogHandler {
    let log: LineLog
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let all = metadata.merging(event.metadata ?? [:]) { $1 }
      log.kept.withLock { $0.append("\(event.level) \(event.message) \(all)") }
    }
  }
}
