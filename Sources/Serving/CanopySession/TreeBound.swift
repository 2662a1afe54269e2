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
/// The number follows from the tree: it is counted when the server starts. So it is also right after writes of the
/// administrator, of other nodes, a restore and an import.
///
/// Far below the bound, commits only add the bytes of their text. The tree is counted again, on another thread, before
/// so many bytes were added that it may have come near the bound. Near the bound, that thread counts the pages that
/// commits change.
///
/// Complexity: O(size) at the start and for a new count; O(1) for each commit on the engine's thread.
public final class TreeCount: CommitObserver {
  /// The most bytes of memory that one byte of a commit's text takes: a child with a key and a value of one character has
  /// six bytes of text, and up to 200 in pages that are half full and in indexes.
  static let memoryOfTextByteMax = 32
  /// The children of added indexes that are counted on the engine's thread: some tens of microseconds.
  private static let childrenAtOnceMax = 2_048
  /// The children of the branches at the top from which on several threads count at the start.
  private static let sharedFrom = 10_000
  private static let queue = DispatchQueue(label: "canopy.memory", qos: .utility)

  private struct State {
    /// The bytes that were counted, with the estimated growth since.
    var bytes = 0
    /// The bytes of commits since the count.
    var text = 0
    /// The tree that was counted, if it is near the bound.
    var counted: Node?
    /// The tree after the last commit that is to be counted.
    var latest: Node?
    var isCounting = false
  }

  private let bound: TreeBound
  private let state = Mutex(State())

  /// Counts the tree of an engine, and follows its commits. The engine does not keep it alive.
  ///
  /// - Precondition: the engine does not run yet, or is idle: its thread waits for the count.
  public init(of engine: Engine, in bound: TreeBound) {
    self.bound = bound
    let root = engine.add(self).root
    // The start waits for it.
    let parts = TreeCount.size(of: root) < TreeCount.sharedFrom ? 1 : 4
    state.withLock { setCount(of: root, TreeCount.bytes(of: root, parts: parts), in: &$0) }
  }

  deinit { bound.change(by: -bytes) }

  /// The bytes of the tree: an estimate.
  public var bytes: Int { state.withLock { $0.bytes } }

  /// Whether the tree is near the bound, so that its bytes are counted after each batch of commits.
  var isNear: Bool { state.withLock { $0.counted != nil } }

  /// Returns the number of children of the branches at the top.
  private static func size(of root: Node) -> Int {
    var size = 0
    root.forEachChild { _, branch in
      size += branch.childCount
      return size < sharedFrom
    }
    return size
  }

  /// Returns the bytes of a tree, counted in several parts at the same time.
  private static func bytes(of root: Node, parts: Int = 1) -> Int {
    let bytes = Atomic(0)
    DispatchQueue.concurrentPerform(iterations: parts) { part in
      var count = MemoryCount()
      count.add(root, part: part, of: parts)
      bytes.add(count.bytes, ordering: .relaxed)
    }
    return bytes.load(ordering: .relaxed)
  }

  /// Notes commits.
  public func committed(_ commits: [Commit], from before: Node, to after: Node) {
    let text = commits.reduce(0) { $0 + $1.textBytes }
    let replacesAll = commits.contains { $0.assignments.contains { $0.location.path.isRoot } }
    let begins = state.withLock { state in
      if commits.isEmpty, state.counted == nil {
        // The tree may have got an index.
        var count = MemoryCount(stepsMax: TreeCount.childrenAtOnceMax)
        count.addDifference(from: before, to: after)
        change(by: count.bytes, in: &state)
        guard !count.isComplete else { return false }
      }
      let isNear = state.counted != nil
      state.text += text
      if !isNear { change(by: commits.reduce(0) { $0 + $1.textGrowth }, in: &state) }
      guard isNear || replacesAll || commits.isEmpty || mayBeNear(state) else { return false }
      state.latest = after
      defer { state.isCounting = true }
      return !state.isCounting
    }
    if begins { TreeCount.queue.async { [self] in count() } }
  }

  /// Whether the tree may have come near the bound since it was counted.
  private func mayBeNear(_ state: State) -> Bool {
    state.text >= max(0, bound.bytesMax / 8 * 7 - state.bytes) / TreeCount.memoryOfTextByteMax
  }

  /// Counts until there is no newer tree.
  private func count() {
    while let (root, counted) = next() {
      guard let counted else {
        let bytes = TreeCount.bytes(of: root)
        state.withLock { setCount(of: root, bytes, in: &$0) }
        continue
      }
      var count = MemoryCount()
      count.addDifference(from: counted, to: root)
      state.withLock { setCount(of: root, $0.bytes + count.bytes, in: &$0) }
    }
  }

  private func next() -> (root: Node, counted: Node?)? {
    state.withLock { state in
      guard let latest = state.latest.take() else {
        state.isCounting = false
        return nil
      }
      state.text = 0
      return (latest, state.counted)
    }
  }

  /// Notes a count. From three quarters of the bound on, later counts are differences to this tree.
  private func setCount(of root: Node, _ bytes: Int, in state: inout State) {
    change(by: bytes - state.bytes, in: &state)
    let isNear = bytes >= bound.bytesMax / 8 * (state.counted == nil ? 6 : 5)
    state.counted = isNear ? root : nil
  }

  private func change(by difference: Int, in state: inout State) {
    guard difference != 0 else { return }
    state.bytes += difference
    bound.change(by: difference)
  }

  /// Waits until everything is counted.
  package static func finish() { queue.sync {} }
}
