import CEpoll
import Foundation

/// A TCP connection to a port of this machine.
final class TCPSocket {
  let descriptor: Int32

  /// - Parameter receiveBytes: the bytes of the kernel's receive buffer; nil for the default.
  init(port: Int, receiveBytes: Int32? = nil) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    if var bytes = receiveBytes {
      setsockopt(
        descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
    }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard descriptor >= 0, result == 0 else {
      throw BenchFailure("cannot connect to port \(port): \(systemError())")
    }
    var yes: Int32 = 1
    setsockopt(
      descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
  }

  deinit {
    close(descriptor)
  }

  /// Makes `receive` and `send` return without waiting from now on.
  func stopWaiting() {
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  /// Sets the longest time for which `receive` waits.
  func waitAtMost(seconds: Int) {
    var time = timeval(tv_sec: seconds, tv_usec: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
  }

  /// Reads the available bytes. Returns zero if there are none now.
  ///
  /// - Throws: `BenchFailure` if the connection has ended.
  func receive(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
    let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
    if count > 0 { return count }
    if count < 0, errno == EAGAIN || errno == EINTR { return 0 }
    throw BenchFailure(
      count == 0 ? "the server closed a connection" : "recv: \(systemError())")
  }

  /// Sends the bytes that the kernel accepts, and returns their number.
  func send(_ bytes: UnsafeRawBufferPointer) throws -> Int {
    let count = Foundation.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    if count >= 0 { return count }
    if errno == EAGAIN || errno == EINTR { return 0 }
    throw BenchFailure("send: \(systemError())")
  }
}
