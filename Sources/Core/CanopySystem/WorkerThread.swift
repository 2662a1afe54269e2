#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

// CanopySystem owns the calls of the operating system that several modules need. It must not know the tree,
// storage or protocols.

/// A thread of its own for work that blocks.
///
/// Neither Swift's cooperative threads nor a dispatch queue will do: both share a pool of about
/// one thread for each core, and two hashes on a machine of two cores would stop every task of the
/// server. A thread of its own is scheduled beside them by the system. Starting one costs some
/// 20 µs, about a thousandth of a hash.
public enum WorkerThread {
  /// Runs `body` on a new thread, which ends with it.
  ///
  /// - Parameter niceness: how far the thread stands back when all cores are busy: 0 for as much time as any other
  ///   thread, 19 for the least.
  /// - Returns: false, without running `body`, if the system gives no more threads.
  public static func start(
    niceness: Int32 = 0, _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    var attributes = pthread_attr_t()
    guard pthread_attr_init(&attributes) == 0 else { return false }
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))

    let handed = Unmanaged.passRetained(Work(niceness, body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread,
      &attributes,
      { pointer in
        guard let pointer else { return nil }
        Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().run()
        return nil
      },
      handed.toOpaque()
    )
    guard code == 0 else {
      handed.release()
      return false
    }
    return true
  }

  #if canImport(Glibc)
    private static let processPriority = __priority_which_t(PRIO_PROCESS.rawValue)
  #elseif canImport(Musl)
    private static let processPriority = PRIO_PROCESS
  #endif

  /// A closure as an object, to pass through C by its address.
  private final class Work: Sendable {
    private let niceness: Int32
    private let body: @Sendable () -> Void

    init(_ niceness: Int32, _ body: @escaping @Sendable () -> Void) {
      self.niceness = niceness
      self.body = body
    }

    func run() {
      // On Linux 0 names the calling thread. The work is done at any priority, so an error changes nothing.
      if niceness > 0 { _ = setpriority(WorkerThread.processPriority, 0, niceness) }
      body()
    }
  }
}
