#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif
internal import Synchronization

/// Runs tasks on one thread of its own, which may block.
///
/// The thread ends when the executor is no longer referenced.
public final class ThreadExecutor: TaskExecutor {
  private let work = Work()

  /// The jobs, and the thread that runs them. The thread keeps this alive, and not the executor.
  private final class Work: Sendable {
    struct State {
      var jobs: [Job] = []
      var thread: pthread_t?
      var isEnding = false
    }

    /// A job, and the executor that it runs on: so the executor lives as long as there are jobs.
    struct Job {
      let job: UnownedJob
      let executor: ThreadExecutor
    }

    let state = Mutex(State())
    let signal = Semaphore()

    func run() {
      state.withLock { $0.thread = pthread_self() }
      while true {
        signal.wait()
        let (jobs, isEnding) = state.withLock { state in
          var jobs: [Job] = []
          swap(&jobs, &state.jobs)
          return (jobs, state.isEnding)
        }
        for entry in jobs {
          entry.job.runSynchronously(on: entry.executor.asUnownedTaskExecutor())
        }
        if isEnding && jobs.isEmpty { return }
      }
    }
  }

  /// Starts the thread.
  ///
  /// - Throws: `ThreadError` if the system gives no more threads.
  public init() throws(ThreadError) {
    guard WorkerThread.start({ [work] in work.run() }) else { throw ThreadError() }
  }

  deinit {
    work.state.withLock { $0.isEnding = true }
    work.signal.signal()
  }

  /// Whether the caller runs on the thread. O(1).
  public var isCurrent: Bool {
    work.state.withLock { state in
      state.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false
    }
  }

  /// Queues a job. Swift's runtime calls this.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    work.state.withLock { $0.jobs.append(Work.Job(job: job, executor: self)) }
    work.signal.signal()
  }
}

/// The system gives no more threads.
public struct ThreadError: Error, CustomStringConvertible {
  /// The sentence for the log.
  public var description: String {
    "the system gives no more threads; raise the limit of processes (ulimit -u) or of the control group"
  }
}

/// A semaphore of the system, at 0.
///
/// `@unchecked Sendable`: the pointer is constant, and any thread may call the system's functions on a semaphore.
private final class Semaphore: @unchecked Sendable {
  private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  init() {
    sem_init(semaphore, 0, 0)
  }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  func signal() {
    sem_post(semaphore)
  }

  /// Waits for a signal. A signal of the process only interrupts the wait.
  func wait() {
    while sem_wait(semaphore) != 0 && errno == EINTR {}
  }
}
