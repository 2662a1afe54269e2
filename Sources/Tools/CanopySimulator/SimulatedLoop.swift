import Dispatch
import NIOCore

/// An event loop of the simulation.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class SimulatedLoop: EventLoop, @unchecked Sendable {
  private let lane: Lane

  init(_ name: String) {
    lane = Scheduler.shared.lane(name)
  }

  var inEventLoop: Bool { Scheduler.shared.current === lane }

  var now: NIODeadline { .uptimeNanoseconds(UInt64(Scheduler.shared.now)) }

  func execute(_ task: @escaping @Sendable () -> Void) {
    Scheduler.shared.add(to: lane, task)
  }

  @discardableResult
  func scheduleTask<T>(
    deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T
  ) -> Scheduled<T> {
    scheduleTask(in: deadline - now, task)
  }

  @discardableResult
  func scheduleTask<T>(
    in amount: TimeAmount, _ task: @escaping @Sendable () throws -> T
  ) -> Scheduled<T> {
    let promise = makePromise(of: T.self)
    let timer = Scheduler.shared.after(nanoseconds: amount.nanoseconds) { [lane] in
      Scheduler.shared.add(to: lane) {
        do { promise.assumeIsolated().succeed(try task()) } catch { promise.fail(error) }
      }
    }
    return Scheduled(promise: promise) { Scheduler.shared.cancel(timer) }
  }

  func shutdownGracefully(
    queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void
  ) {
    queue.async { callback(nil) }
  }
}
