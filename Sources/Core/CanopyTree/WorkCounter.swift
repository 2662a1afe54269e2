#if CANOPY_COUNT_WORK
  internal import Synchronization

  /// A counter of the tree nodes that the code of one task touches: each page of a sorted tree that
  /// is read, copied or changed, and each encoded value. It also counts the copied pages and the created objects of the
  /// tree, and the comparisons of a location with text.
  ///
  /// Only debug builds count. Tests check speed by this count, which is the same on every machine,
  /// and never by a clock.
  public final class WorkCounter: Sendable {
    @TaskLocal static var current: WorkCounter?
    private let nodes = Mutex(0)
    private let copies = Mutex(0)
    private let creations = Mutex(0)
    private let comparisons = Mutex(0)

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

    /// The number of pages copied so far.
    public var pagesCopied: Int { copies.withLock { $0 } }

    /// The number of pages, packed branches and boxes created so far. Each is one allocation.
    public var objectsCreated: Int { creations.withLock { $0 } }

    /// The number of comparisons of a location with text so far, while text was read back.
    public var locationsCompared: Int { comparisons.withLock { $0 } }

    static func touch(_ count: Int = 1) {
      current?.nodes.withLock { $0 += count }
    }

    static func copyPage() {
      current?.copies.withLock { $0 += 1 }
    }

    static func createObject() {
      current?.creations.withLock { $0 += 1 }
    }

    static func compareLocation() {
      current?.comparisons.withLock { $0 += 1 }
    }
  }
#else
  enum WorkCounter {
    @inline(__always) static func touch(_ count: Int = 1) {}
    @inline(__always) static func copyPage() {}
    @inline(__always) static func createObject() {}
    @inline(__always) static func compareLocation() {}
  }
#endif
