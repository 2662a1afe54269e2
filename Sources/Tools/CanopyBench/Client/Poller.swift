import CEpoll
import Foundation

/// Says which of many sockets have something to read, or room to write.
///
/// Plain epoll, level-triggered: one call for a batch of sockets, and nothing allocated per event. The
/// client shares the machine with the server that it measures, so what it costs falsifies the result.
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

  /// Watches a socket; `wait` then names it by `id`.
  func add(_ socket: TCPSocket, id: Int) throws {
    try control(EPOLL_CTL_ADD, socket, id, wantsRoom: false)
  }

  /// Says whether room to write is waited for, besides something to read.
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

  /// Waits for the next events and hands each to `body`.
  ///
  /// - Throws: what `body` throws, or a failure when nothing has happened for ten seconds: a reply
  ///   that does not come is a wrong answer.
  func wait(_ body: (_ id: Int, _ hasRoom: Bool) throws -> Void) throws {
    var count: Int32
    repeat {
      count = epoll_wait(descriptor, events.baseAddress, Int32(events.count), 10_000)
    } while count < 0 && errno == EINTR
    guard count >= 0 else { throw BenchFailure("epoll_wait: \(systemError())") }
    guard count > 0 else { throw BenchFailure("no reply within ten seconds") }
    for i in 0..<Int(count) {
      let event = events[i]
      try body(Int(event.data.u64), event.events & EPOLLOUT.rawValue != 0)
    }
  }
}

/// The last error of the system, as a text.
func systemError() -> String {
  String(cString: strerror(errno))
}
