#if CANOPY_COUNT_WORK
  internal import Synchronization

  /// Counts the tree nodes that the code of one task touches: a page of a sorted tree read, copied
  /// or changed, or a value encoded, is one.
  ///
  /// Only debug builds count. Speed is checked in tests by this count, which is the same on every
  /// machine, and never by a clock.
  public final class WorkCounter: Sendable {
    @TaskLocal static var current: WorkCounter?
    private let nodes = Mutex(0)

    init() {}

    /// The nodes that `body` touches on this task.
    public static func nodesTouched(_ body: () throws -> Void) rethrows -> Int {
      let counter = WorkCounter()
      try $current.withValue(counter) { try body() }
      return counter.count
    }

    /// Counts what is touched in `body`, on this task and on those that begin in it; an engine that is
    /// to be counted runs in one of them.
    public static func counting<R>(
      isolation: isolated (any Actor)? = #isolation, _ body: (WorkCounter) async throws -> R
    ) async rethrows -> R {
      let counter = WorkCounter()
      return try await $current.withValue(counter) { try await body(counter) }
    }

    /// The nodes that were touched until now.
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
