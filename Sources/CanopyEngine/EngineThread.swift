internal import Dispatch

/// Runs the engine's task on a thread of its own: one that may wait for the disk, and that keeps what
/// it allocates and frees to itself.
final class EngineThread: TaskExecutor {
  private let queue = DispatchQueue(label: "canopy.engine")

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
