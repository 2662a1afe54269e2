package import NIOCore
internal import Synchronization

/// The event loops of a port while it serves, for a check that each of them turns.
package final class RunningLoops: Sendable {
  private let loops = Mutex<[any EventLoop]>([])

  package init() {}

  /// Adds the loops of a group. Call `end` before the group shuts down.
  package func begin(_ group: any EventLoopGroup) {
    let all = Array(group.makeIterator())
    loops.withLock { $0 = all }
  }

  /// Removes all loops.
  package func end() {
    loops.withLock { $0 = [] }
  }

  /// Waits until each loop has carried out a task that is queued now. Returns at once if the port does not serve.
  package func answer() async {
    // With the lock, so that no loop shuts down before it has the task. A loop carries out all its tasks before it ends.
    let answers = loops.withLock { $0.map { $0.submit {} } }
    for answer in answers { try? await answer.get() }
  }
}
