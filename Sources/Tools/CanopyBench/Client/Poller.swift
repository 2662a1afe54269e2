import CEpoll
import Foundation

/// Waits until some of many sockets can be read or written.
///
/// It uses epoll, level-triggered: one call for a batch of sockets, and no allocation for an event. The client shares
/// the machine with the server that it measures, so its own cost distorts the result.
final class Poller {
  private let descriptor: Int32
  private let events: UnsafeMutableBufferPointer<epoll_event>

  init() throws {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard descriptor >= 0 else { throw BenchFailure("epoll_create1: \(systemError())") }
    events = .allocate(capacity: 256)
  }

  deinit {
    close(descriptor)
    events.deallocate()
  }

  /// Watches a socket, which `wait` names by `id`.
  func add(_ socket: TCPSocket, id: Int) throws {
    try control(EPOLL_CTL_ADD, socket, id, wantsRoom: false)
  }

  /// Sets whether `wait` also waits until the socket can be written.
  func change(_ socket: TCPSocket, id: Int, wantsRoom: Bool) throws {
    try control(EPOLL_CTL_MOD, socket, id, wantsRoom: wantsRoom)
  }

  private func control(
    _ operation: Int32, _ socket: TCPSocket, _ id: Int, wantsRoom: Bool
  ) throws {
    var event = epoll_event()
    event.events = EPOLLIN.rawValue | (wantsRoom ? EPOLLOUT.rawValue : 0)
    event.data.u64 = UInt64(id)
    guard epoll_ctl(descriptor, operation, socket.descriptor, &event) == 0 else {
      throw BenchFailure("epoll_ctl: \(systemError())")
    }
  }

  /// Waits for the next events, and passes each to `body`.
  ///
  /// - Throws: errors of `body`, and a failure after ten seconds without an event: a missing reply is a wrong one.
  func wait(_ body: (_ id: Int, _ hasRoom: Bool) throws -> Void) throws {
    let end = monotonicNanoseconds() + 10_000_000_000
    while try wait(nanoseconds: end - monotonicNanoseconds(), body) == 0 {
      // A signal ends a wait early.
      guard monotonicNanoseconds() < end else {
        throw BenchFailure("no reply within ten seconds")
      }
    }
  }

  /// Waits for the next events for at most a time, passes each to `body`, and returns their number.
  ///
  /// - Parameter nanoseconds: the longest time. Negative is the same as zero.
  func wait(
    nanoseconds: Int64, _ body: (_ id: Int, _ hasRoom: Bool) throws -> Void
  ) throws -> Int {
    // Milliseconds, as `epoll_wait` has them, are too coarse for requests that are sent at given times.
    let count = EpollWait(
      descriptor, events.baseAddress, Int32(events.count), max(0, nanoseconds))
    if count < 0, errno == EINTR { return 0 }
    guard count >= 0 else { throw BenchFailure("epoll_pwait2: \(systemError())") }
    for i in 0..<Int(count) {
      let event = events[i]
      try body(Int(event.data.u64), event.events & EPOLLOUT.rawValue != 0)
    }
    return Int(count)
  }
}

/// Returns the last error of the system as text.
func systemError() -> String {
  String(cString: strerror(errno))
}
