#if CANOPY_COUNT_WORK
  internal import Synchronization

  /// A counter of the tree nodes that the code of one task touches: each page of a sorted tree that
  /// is read, copied or changed, and each encoded value.
  ///
  /// Only debug builds count. Tests check speed by this count, which is the same on every machine,
  /// and never by a clock.
  public final class WorkCounter: Sendable {
    @TaskLocal static var current: WorkCounter?
    private let nodes = Mutex(0)

    init() {}

    /// Returns the number of nodes that `body` touches on this task.
    public static func nodesTouched(_ body: () throws -> Void) rethrows -> Int {
      let counter = WorkCounter()
      try $current.withValue(counter) { try body() }
      return counter.count
    }

    /// Counts the nodes touched in `body`, on this task and on its child tasks. To count an engine,
    /// start it in one of them.
    public static func counting<R>(
      isolation: isolated (any Actor)? = #isolation, _ body: (WorkCounter) async throws -> R
    ) async rethrows -> R {
      let counter = WorkCounter()
      return try await $current.withValue(counter) { try await body(counter) }
    }

    /// The number of nodes touched so far.
    public var count: Int { nodes.withLock { $0 } }

    static func touch(_ count: Int = 1) {
      current?.nodes.withLock { $0 += count }
    }
  }
#else
  enum WorkCounter {
    @inline(__always) static func touch(_ count: Int = 1) {}
  }
#endif
