public import CanopyEngine
public import CanopyTree
internal import CanopyWire
internal import Dispatch
public import Logging
internal import Synchronization

/// The memory of the trees of a server, and the bound on it.
///
/// No write of a user makes the trees larger than the bound: the engine asks when it has applied the write, before it
/// accepts the commit. Reads, removals and everything of the administrator go on.
///
/// When the bound is reached, writes of users that would make a tree larger are refused as soon as they come. They are
/// admitted again when a 64th of the bound is free.
///
/// Safe to use from any thread. A check costs one atomic load.
public final class TreeBound: Sendable {
  /// The wait that an error names, in milliseconds.
  static let wait: Int64 = 5_000

  /// The bound in bytes.
  public let bytesMax: Int
  private let logger: Logger
  private let used = Atomic(0)
  private let uncounted = Atomic(0)
  private let full = Atomic(false)
  private let refusedCount = Atomic(0)
  /// The number of trees.
  private let trees = Atomic(0)

  /// Creates a bound for trees that `count` adds.
  public init(bytesMax: Int, logger: Logger) {
    self.bytesMax = max(1, bytesMax)
    self.logger = logger
  }

  /// The bytes of all trees: an estimate.
  public var bytes: Int { used.load(ordering: .relaxed) }

  /// The bytes of all trees if each commit that was neither measured nor counted has added the most that it can.
  fileprivate var bytesAtMost: Int { bytes + uncounted.load(ordering: .relaxed) }

  /// The bytes of all trees up to which a measured commit is accepted. Commits that are not counted yet keep the most that
  /// they can have added, so that all together do not exceed the bound.
  fileprivate var bytesMaxOfMeasured: Int { bytesMax - max(0, uncounted.load(ordering: .relaxed)) }

  /// Whether at least some sixteenths of the bound may be used.
  fileprivate func mayUse(sixteenths: Int) -> Bool { bytesAtMost >= bytesMax / 16 * sixteenths }

  /// The part of the bound that may stay uncounted in one tree, if all trees together may keep some sixteenths uncounted,
  /// also those that get no more commits.
  fileprivate func share(sixteenths: Int) -> Int {
    bytesMax / 16 * sixteenths / max(1, trees.load(ordering: .relaxed))
  }

  /// Adds trees, or takes them away if the number is negative.
  fileprivate func change(treesBy difference: Int) {
    trees.wrappingAdd(difference, ordering: .relaxed)
  }

  /// The bytes of all trees up to which a namespace is opened. The rest is left to the writes of those in use.
  var bytesMaxOfOpening: Int { bytesMax - bytesMax / 64 }

  /// Whether most of the bound is used, so that namespaces are closed as soon as they are idle.
  var isAlmostFull: Bool { bytes >= bytesMax / 8 * 7 }

  /// Whether writes are refused that make a tree larger.
  public var isFull: Bool { full.load(ordering: .relaxed) }

  /// The number of writes that were refused.
  public var refused: Int { refusedCount.load(ordering: .relaxed) }

  fileprivate func change(by difference: Int) {
    note(used.wrappingAdd(difference, ordering: .relaxed).newValue)
  }

  fileprivate func change(uncountedBy difference: Int) {
    uncounted.wrappingAdd(difference, ordering: .relaxed)
  }

  /// Adds some bytes if all bytes are then at most a number. Returns whether they were added.
  func add(_ bytes: Int, atMost bytesMax: Int) -> Bool {
    var present = self.bytes
    while true {
      let (sum, overflow) = present.addingReportingOverflow(bytes)
      guard !overflow, sum <= bytesMax else { return false }
      let result = used.compareExchange(expected: present, desired: sum, ordering: .relaxed)
      if result.exchanged {
        note(sum)
        return true
      }
      present = result.original
    }
  }

  private func note(_ bytes: Int) {
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
    noteRefusal()
    return WireError(EngineError.treeFull)
  }

  fileprivate func noteRefusal() {
    refusedCount.add(1, ordering: .relaxed)
  }
}

/// Counts the memory of the tree of one engine as long as it exists.
///
/// The number follows from the tree: it is counted when the server starts. So it is also right after writes of the
/// administrator, of other nodes, a restore and an import.
///
/// Far below the bound, commits only add the bytes of their text. The tree is counted again, on another thread, when the
/// most that they can have added is a quarter of the bound or comes near the bound; for large commits, a sixteenth. It is
/// also counted when the engine's thread had to measure a commit. Near the bound, that thread measures what a commit adds
/// before it accepts the commit, and the other thread counts the pages that commits change.
///
/// A count of a large tree may cost more than all commits since the last count. From then on, the other thread counts the
/// pages that commits change also below that, in groups of many commits.
///
/// Complexity: O(size) at the start and for a new count. If commits alone make new counts necessary, and one visits more
/// than `stepsPerCommitMax` nodes for each of them, O(log n) for each location that differs instead. For each commit on
/// the engine's thread O(1), and near the bound O(log n) for each location that differs.
public final class TreeCount: CommitObserver {
  /// The most bytes of a commit from which on it is a large one. Counting it costs much less than making it, and a few of
  /// them may take the estimate to the bound.
  private static let largeCommitBytes = 64 * 1024
  /// The bytes of memory that count for one byte of the text of a commit of another node.
  private static let memoryOfTextByteMax = 32
  /// The children of added indexes that are counted on the engine's thread: some tens of microseconds.
  private static let childrenAtOnceMax = 2_048
  /// The children of the branches at the top from which on several threads count at the start.
  private static let sharedFrom = 10_000
  /// The nodes that a whole count may visit for each commit since the count before. In profiles with four million posts, a
  /// node took at least 0.3 µs, and the pages that a commit changes took 14 µs.
  static let stepsPerCommitMax = 48
  private static let queue = DispatchQueue(label: "canopy.memory", qos: .utility)

  private struct State {
    /// The bytes that were counted, with the growth since.
    var bytes = 0
    /// The bytes of the tree that was counted last.
    var countedBytes = 0
    /// The growth since the tree that is counted or was counted last.
    var since = 0
    /// The most bytes that commits which were not measured have added beyond the growth that is noted for them, since the
    /// tree that is counted or was counted last.
    var uncounted = 0
    /// The part of it that large commits may have added.
    var large = 0
    /// The same number as `uncounted` of the tree that is being counted.
    var counting = 0
    /// The bytes of text that commits have removed since that tree.
    var removed = 0
    /// The number of commits since that tree.
    var commits = 0
    /// The bytes, and the most bytes, of the batch under way.
    var admitted = 0
    var admittedAtMost = 0
    /// Whether the tree is near the bound.
    var isNear = false
    /// Whether the engine's thread has to measure commits, because the tree may be near the bound. If only the most bytes
    /// of earlier commits are the reason, it ends with the next count.
    var mustMeasure = false
    /// The bytes at which a whole count took too many steps; nil if whole counts are cheap.
    var expensiveBytes: Int?
    /// The number of counts of the whole tree since the start.
    var wholeCounts = 0
    /// The tree that was counted, if the next count is that of the difference to it.
    var counted: Node?
    /// The tree after the last commit that is to be counted. It is the latest one.
    var latest: Node?
    var isCounting = false
    var hasEnded = false
  }

  private let bound: TreeBound
  private let state = Mutex(State())

  /// Counts the tree of an engine, and follows its commits. The engine does not keep it alive.
  ///
  /// - Parameter counted: the bytes of the tree, if they were counted and added to the bound.
  /// - Precondition: the engine does not run yet, or is idle: its thread waits for the count.
  public init(of engine: Engine, in bound: TreeBound, counted: Int? = nil) {
    self.bound = bound
    bound.change(treesBy: 1)
    let root = engine.add(self).root
    // The start waits for it.
    let bytes = counted ?? TreeCount.bytesAtStart(of: root)
    state.withLock { state in
      state.bytes = counted ?? 0
      setCount(of: root, bytes, in: &state)
    }
    engine.count(in: self)
  }

  deinit { end() }

  /// Takes the tree from the bound, because the engine has ended.
  func end() {
    state.withLock { state in
      guard !state.hasEnded else { return }
      state.hasEnded = true
      bound.change(treesBy: -1)
      bound.change(by: -state.bytes - state.admitted)
      bound.change(uncountedBy: -state.uncounted - state.counting - state.admittedAtMost)
      state.bytes = 0
      (state.counted, state.latest) = (nil, nil)
    }
  }

  /// The bytes of the tree: an estimate.
  public var bytes: Int { state.withLock { $0.bytes } }

  /// Whether the tree is near the bound, so that its bytes are counted after each batch of commits.
  var isNear: Bool { state.withLock { $0.isNear } }

  /// The number of counts of the whole tree since the start.
  var wholeCounts: Int { state.withLock { $0.wholeCounts } }

  /// Returns the bytes of a tree, for a caller that waits for them.
  static func bytesAtStart(of root: Node) -> Int {
    count(of: root, parts: size(of: root) < sharedFrom ? 1 : 4).bytes
  }

  /// Returns the number of children of the branches at the top.
  private static func size(of root: Node) -> Int {
    var size = 0
    root.forEachChild { _, branch in
      size += branch.childCount
      return size < sharedFrom
    }
    return size
  }

  /// Returns the bytes of a tree and the visited nodes, counted in several parts at the same time.
  private static func count(of root: Node, parts: Int = 1) -> (bytes: Int, steps: Int) {
    let bytes = Atomic(0)
    let steps = Atomic(0)
    DispatchQueue.concurrentPerform(iterations: parts) { part in
      var count = MemoryCount()
      count.add(root, part: part, of: parts)
      bytes.add(count.bytes, ordering: .relaxed)
      steps.add(count.steps, ordering: .relaxed)
    }
    return (bytes.load(ordering: .relaxed), steps.load(ordering: .relaxed))
  }

  /// Notes commits.
  public func committed(_ commits: [Commit], from before: Node, to after: Node) {
    let replacesAll = commits.contains { $0.assignments.contains { $0.location.path.isRoot } }
    let begins = state.withLock { state in
      guard !state.hasEnded else { return false }
      let isNear = state.isNear
      state.commits += commits.count
      var (growth, atMost) = (0, 0)
      for commit in commits {
        let most: Int
        switch commit.treeGrowth {
        case .measured(let bytes):
          growth += bytes
          continue
        case .atMost(let bytes): most = bytes
        case nil: most = commit.textBytes * TreeCount.memoryOfTextByteMax
        }
        if most >= TreeCount.largeCommitBytes { state.large += most }
        guard !isNear else {
          atMost += most
          continue
        }
        // The text also has the keys of the paths, which may exist. A removed text may have taken fewer bytes of memory,
        // or more.
        let textGrowth = min(commit.textGrowth, most)
        growth += textGrowth
        atMost += most - textGrowth
        state.removed += max(0, -textGrowth)
      }
      var isCounted = false
      if commits.isEmpty, !isNear {
        // The tree may have got an index.
        var count = MemoryCount(stepsMax: TreeCount.childrenAtOnceMax)
        count.addDifference(from: before, to: after)
        growth += count.bytes
        isCounted = count.isComplete
      }
      publish(growth, atMost, in: &state)
      // A count that is under way will change the most bytes.
      let mayBeNear = self.mayBeNear(state) && !state.isCounting || hasMuchUncounted(state)
      let counts =
        isNear || replacesAll || state.removed >= removedMax
        || (commits.isEmpty ? !isCounted : mayBeNear)
        || state.counted != nil && state.uncounted >= differenceMax
      // A tree that is to be counted is the latest one, so that `since` has what it lacks.
      guard counts || state.latest != nil else { return false }
      state.latest = after
      defer { state.isCounting = true }
      return !state.isCounting
    }
    if begins { TreeCount.queue.async { [self] in count() } }
  }

  /// Whether the tree is to be counted, because the bound may nearly be reached. That is before `admit` has commits
  /// measured, unless one commit adds so much that it passes both bounds.
  private func mayBeNear(_ state: State) -> Bool {
    bound.mayUse(sixteenths: 13) || state.mustMeasure
  }

  /// Whether the tree is to be counted, so that the most bytes of commits take a small part of the bound only.
  private func hasMuchUncounted(_ state: State) -> Bool {
    state.uncounted >= bound.share(sixteenths: 4) || state.large >= bound.share(sixteenths: 1)
  }

  /// The bytes of removed texts after which the tree is counted again: they may have taken an eighth of the bound.
  private var removedMax: Int { bound.bytesMax / 8 / TreeCount.memoryOfTextByteMax }

  /// The most bytes of commits after which a difference is counted. Until then, the replaced pages stay in memory.
  private var differenceMax: Int { min(bound.bytesMax / 64, bound.share(sixteenths: 4)) }

  /// Counts commits that were published, instead of the bytes that were admitted for them.
  private func publish(_ growth: Int, _ atMost: Int, in state: inout State) {
    // The removal of a location that does not exist has a text too.
    let growth = max(growth, -state.bytes)
    bound.change(uncountedBy: atMost - state.admittedAtMost)
    if growth != state.admitted { bound.change(by: growth - state.admitted) }
    (state.admitted, state.admittedAtMost) = (0, 0)
    state.bytes += growth
    state.since += growth
    state.uncounted += atMost
  }

  /// Counts until there is no newer tree.
  private func count() {
    while let next = next() {
      guard let counted = next.counted else {
        let (bytes, steps) = TreeCount.count(of: next.root)
        let isExpensive =
          next.isNecessary && steps / TreeCount.stepsPerCommitMax > next.commits
        state.withLock { state in
          state.wholeCounts += 1
          if isExpensive { state.expensiveBytes = bytes }
          setCount(of: next.root, bytes, in: &state)
        }
        continue
      }
      var count = MemoryCount()
      count.addDifference(from: counted, to: next.root)
      state.withLock { setCount(of: next.root, $0.countedBytes + count.bytes, in: &$0) }
    }
  }

  /// A tree that is to be counted, the commits since the one before, and whether they may have come near the bound.
  private typealias Next = (root: Node, counted: Node?, commits: Int, isNecessary: Bool)

  private func next() -> Next? {
    state.withLock { state in
      guard let latest = state.latest.take() else {
        state.isCounting = false
        return nil
      }
      let isNecessary = mayBeNear(state) || hasMuchUncounted(state)
      let commits = state.commits
      state.mustMeasure = false
      state.commits = 0
      state.since = 0
      state.removed = 0
      state.counting += state.uncounted
      (state.uncounted, state.large) = (0, 0)
      return (latest, state.counted, commits, isNecessary)
    }
  }

  /// Notes a count. From three quarters of the bound on, or if whole counts are expensive, later counts are differences to
  /// this tree.
  private func setCount(of root: Node, _ bytes: Int, in state: inout State) {
    guard !state.hasEnded else { return }
    let present = max(0, bytes + state.since)
    if present != state.bytes { bound.change(by: present - state.bytes) }
    state.bytes = present
    state.countedBytes = bytes
    bound.change(uncountedBy: -state.counting)
    state.counting = 0
    state.isNear = bound.mayUse(sixteenths: state.isNear ? 10 : 12)
    // A tree that has become much smaller is cheap to count.
    if let bytes = state.expensiveBytes, state.bytes < bytes / 2 { state.expensiveBytes = nil }
    state.counted = state.isNear || state.expensiveBytes != nil ? root : nil
  }

  /// Waits until everything is counted.
  package static func finish() { queue.sync {} }
}

/// The questions of the engine, before it accepts a commit.
extension TreeCount: TreeMemory {
  /// Whether commits may have to be measured soon.
  public var isNearBound: Bool { bound.mayUse(sixteenths: 12) }

  /// Takes back the bytes that were admitted and not published.
  public func beginBatch() {
    state.withLock { state in
      guard !state.hasEnded, state.admitted > 0 || state.admittedAtMost > 0 else { return }
      bound.change(by: -state.admitted)
      bound.change(uncountedBy: -state.admittedAtMost)
      (state.admitted, state.admittedAtMost) = (0, 0)
    }
  }

  /// Counts a commit that adds at most some bytes, unless seven eighths of the bound may be used then.
  public func admit(atMost bytes: Int) -> Bool {
    let fits = bytes < bound.bytesMax / 8 * 7 - bound.bytesAtMost
    return state.withLock { state in
      guard fits else {
        state.mustMeasure = true
        return false
      }
      guard !state.hasEnded else { return true }
      state.admittedAtMost += bytes
      bound.change(uncountedBy: bytes)
      return true
    }
  }

  /// Counts the measured bytes that a commit adds. Those that it removes count when it is published.
  public func admit(_ bytes: Int, isBounded: Bool) -> Bool {
    guard bytes > 0 else { return true }
    return state.withLock { state in
      guard !state.hasEnded else { return true }
      guard bound.add(bytes, atMost: isBounded ? bound.bytesMaxOfMeasured : .max) else {
        bound.noteRefusal()
        return false
      }
      state.admitted += bytes
      return true
    }
  }
}
