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
  /// - Parameter nanoseconds: the longest wait; nil for ten seconds.
  /// - Throws: errors of `body`, and a failure after ten seconds without an event: a missing reply is a wrong one.
  func wait(
    atMost nanoseconds: Int64? = nil, _ body: (_ id: Int, _ hasRoom: Bool) throws -> Void
  ) throws {
    var count: Int32
    repeat {
      count = EpollWait(
        descriptor, events.baseAddress, Int32(events.count), max(0, nanoseconds ?? 10_000_000_000))
    } while count < 0 && errno == EINTR
    guard count >= 0 else { throw BenchFailure("epoll_pwait2: \(systemError())") }
    guard count > 0 || nanoseconds != nil else {
      throw BenchFailure("no reply within ten seconds")
    }
    for i in 0..<Int(count) {
      let event = events[i]
      try body(Int(event.data.u64), event.events & EPOLLOUT.rawValue != 0)
    }
  }
}

/// Returns the last error of the system as text.
func systemError() -> String {
  String(cString: strerror(errno))
}
