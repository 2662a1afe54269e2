public import CanopyTree
internal import Synchronization

/// A durable version of the tree. It never changes.
public struct Snapshot: Sendable {
  /// The root.
  public var root: Node
  /// The sequence number of its last commit.
  public var sequence: Int64
}

/// Observes the batches that an engine publishes: an event loop, which reads and sends events from the same
/// snapshot.
public protocol BatchObserver: AnyObject, Sendable {
  /// Takes the snapshot after a batch. Called on the engine's thread, when the listeners have been notified of
  /// the batch and before its transactions complete; so it must be brief.
  ///
  /// It is also called when listeners have begun or were denied between two batches.
  func batchEnded(_ snapshot: Snapshot)
}

/// Observes the commits of an engine, its own and those of other nodes.
public protocol CommitObserver: AnyObject, Sendable {
  /// Takes commits that were published together. Called on the engine's thread, in the order of the commits, before
  /// the listeners are notified; so it must be brief.
  ///
  /// - Parameters:
  ///   - commits: the commits, in order. One that replaces the whole tree stands for commits that the node did not read
  ///     one by one. There may be none: the tree may have got an index.
  ///   - before: the root before the first commit.
  ///   - after: the root after the last commit.
  func committed(_ commits: [Commit], from before: Node, to after: Node)
}

/// A reference that does not keep its observer alive.
struct WeakCommitObserver: Sendable {
  weak let observer: (any CommitObserver)?
}

/// A reference that does not keep its observer alive.
struct WeakObserver: Sendable {
  weak let observer: (any BatchObserver)?
}

extension Engine.State {
  var snapshot: Snapshot { Snapshot(root: current.root, sequence: currentSequence) }
}

extension Engine {
  /// Hands the current snapshot to all observers.
  func endNotifying() {
    assertOnThread()
    let (observers, snapshot) = state.withLock { ($0.observers, $0.snapshot) }
    for entry in observers { entry.observer?.batchEnded(snapshot) }
  }
  /// Hands commits that were published to their observers.
  func notifyCommitObservers(_ commits: [Commit], from before: Node, to after: Node) {
    assertOnThread()
    for entry in state.withLock({ $0.commitObservers }) {
      entry.observer?.committed(commits, from: before, to: after)
    }
  }
}
