public import CanopyEngine
public import CanopyTree
internal import CanopyWire
internal import Dispatch
public import Logging
internal import Synchronization

/// The memory of the trees of a server, and the bound on it.
///
/// When the bound is reached, the server makes no writes of users that would make a tree larger. Reads, removals, writes
/// that replace a value by one that is not larger, and everything of the administrator go on. All writes are made again
/// when a 64th of the bound is free.
///
/// Writes that were admitted and are not made yet do not count, so the trees may exceed the bound a little.
///
/// Safe to use from any thread. A check costs one atomic load.
public final class TreeBound: Sendable {
  /// The wait that an error names, in milliseconds.
  static let wait: Int64 = 5_000

  /// The bound in bytes.
  public let bytesMax: Int
  private let logger: Logger
  private let used = Atomic(0)
  private let full = Atomic(false)
  private let refusedCount = Atomic(0)

  /// Creates a bound for trees that `count` adds.
  public init(bytesMax: Int, logger: Logger) {
    self.bytesMax = max(1, bytesMax)
    self.logger = logger
  }

  /// The bytes of all trees: an estimate.
  public var bytes: Int { used.load(ordering: .relaxed) }

  /// Whether writes are refused that make a tree larger.
  public var isFull: Bool { full.load(ordering: .relaxed) }

  /// The number of writes that were refused.
  public var refused: Int { refusedCount.load(ordering: .relaxed) }

  fileprivate func change(by difference: Int) {
    let bytes = used.wrappingAdd(difference, ordering: .relaxed).newValue
    let wasFull = isFull
    let isFull = bytes >= (wasFull ? bytesMax - bytesMax / 64 : bytesMax)
    guard isFull != wasFull,
      full.compareExchange(expected: wasFull, desired: isFull, ordering: .relaxed).exchanged
    else { return }
    if isFull {
      logger.error(
        "the tree has reached its bound: writes that make it larger are refused",
        metadata: ["bytes": "\(bytes)", "bytesMax": "\(bytesMax)"])
    } else {
      logger.notice(
        "the tree is below its bound again: all writes are accepted",
        metadata: ["bytes": "\(bytes)"])
    }
  }

  /// Returns the error of a write that is refused, and counts it.
  func refuse() -> WireError {
    refusedCount.add(1, ordering: .relaxed)
    return WireError(
      .unavailable, retryMilliseconds: TreeBound.wait,
      "the data of this server has as many bytes as it may have, so the write was not made, as it would add some; "
        + "reads and removals go on, try again later, or tell the administrator")
  }
}

/// Counts the memory of the tree of one engine as long as it exists.
///
/// The number follows from the tree: it is counted when the server starts, and after that from the pages that commits
/// change. So it is also right after writes of the administrator, of other nodes, a restore and an import.
///
/// Complexity: O(size) at the start; afterwards O(log n) for each place that a commit changes. Large values that a commit
/// adds or removes are counted on another thread.
public final class TreeCount: CommitObserver {
  /// The children of added and removed values that are counted on the engine's thread: some tens of microseconds.
  static let childrenAtOnceMax = 2_048
  private static let queue = DispatchQueue(label: "canopy.memory")

  private let bound: TreeBound
  private let counted = Atomic(0)

  /// Counts the tree of an engine, and follows its commits. The engine does not keep it alive.
  ///
  /// - Precondition: the engine does not run yet, or is idle: its thread waits for the count.
  public init(of engine: Engine, in bound: TreeBound) {
    self.bound = bound
    var count = MemoryCount()
    count.add(engine.add(self).root)
    change(by: count.bytes)
  }

  deinit { bound.change(by: -bytes) }

  /// The bytes of the tree: an estimate.
  public var bytes: Int { counted.load(ordering: .relaxed) }

  private func change(by difference: Int) {
    guard difference != 0 else { return }
    counted.add(difference, ordering: .relaxed)
    bound.change(by: difference)
  }

  /// Counts the difference that commits made.
  public func committed(_ commits: [Commit], from before: Node, to after: Node) {
    var count = MemoryCount(stepsMax: TreeCount.childrenAtOnceMax)
    count.addDifference(from: before, to: after)
    guard !count.isComplete else { return change(by: count.bytes) }
    let unfinished = count
    TreeCount.queue.async { [self] in
      var count = unfinished
      count.finish()
      change(by: count.bytes)
    }
  }

  /// Waits until everything is counted.
  static func finish() { queue.sync {} }
}
