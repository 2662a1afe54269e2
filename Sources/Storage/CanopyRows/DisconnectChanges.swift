package import CanopyEngine
internal import Synchronization

/// The changes of the on-disconnect writes of a store. Changes that wait at the same time are made as one group.
///
/// A store makes a group in one transaction, so several callers wait for the disk once.
package final class DisconnectChanges: Sendable {
  /// The outcome of a change: the id of the write that it added.
  package typealias Outcome = Result<DisconnectWriteID?, any Error>

  /// Makes a group of changes. Returns an outcome for each of them; if it throws, no change was made.
  package typealias MakeGroup = @Sendable ([DisconnectChange]) async throws -> [Outcome]

  private typealias Waiter = CheckedContinuation<DisconnectWriteID?, any Error>

  private let queue = Mutex(DisconnectChangeQueue<Waiter>())

  /// Creates an empty queue.
  package init() {}

  /// Whether a task makes changes, and the number of changes that wait.
  package var state: (isBeingMade: Bool, count: Int) {
    queue.withLock { ($0.isBeingMade, $0.count) }
  }

  /// Makes a change, with the others that wait. Cancelling the task does not cancel the change.
  ///
  /// - Returns: the id of the write that the change added; nil if it added none.
  package func make(
    _ change: DisconnectChange, inGroups makeGroup: @escaping MakeGroup
  ) async throws -> DisconnectWriteID? {
    try await withCheckedThrowingContinuation { continuation in
      let mustBegin = queue.withLock { $0.add(change, continuation) }
      if mustBegin { Task { await makeAll(makeGroup) } }
    }
  }

  /// Makes all changes that wait, a group at a time.
  private func makeAll(_ makeGroup: MakeGroup) async {
    while let group = queue.withLock({ $0.takeGroup() }) {
      do {
        let outcomes = try await makeGroup(group.map(\.change))
        assert(outcomes.count == group.count, "each change has an outcome")
        for (waiting, outcome) in zip(group, outcomes) { waiting.waiter.resume(with: outcome) }
      } catch {
        for waiting in group { waiting.waiter.resume(throwing: error) }
      }
    }
  }
}
