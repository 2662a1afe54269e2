import CanopyTree
import Foundation

/// A blocking connection to a server: one request, one reply.
final class LineSocket {
  private let descriptor: Int32
  private var buffer: [UInt8] = []
  private var start = 0

  init(port: Int) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
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
      throw BenchFailure("cannot connect: \(String(cString: strerror(errno)))")
    }
  }

  deinit {
    close(descriptor)
  }

  /// Sends a line and returns the reply's line; nil if the connection ended first.
  func request(_ line: String) -> String? {
    let bytes = Array((line + "\n").utf8)
    var sent = 0
    while sent < bytes.count {
      let count = bytes[sent...].withUnsafeBytes {
        send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return nil }
      sent += count
    }
    return readLine()
  }

  private func readLine() -> String? {
    while true {
      if let end = buffer[start...].firstIndex(of: UInt8(ascii: "\n")) {
        let line = buffer[start..<end]
        start = end + 1
        if start == buffer.count {
          buffer.removeAll(keepingCapacity: true)
          start = 0
        }
        return String(decoding: line.last == 13 ? line.dropLast() : line, as: UTF8.self)
      }
      var chunk = [UInt8](repeating: 0, count: 65536)
      let count = recv(descriptor, &chunk, chunk.count, 0)
      guard count > 0 else { return nil }
      buffer.append(contentsOf: chunk[..<count])
    }
  }

  /// Sends a line and reads the JSON of a successful reply.
  func success(_ line: String) throws -> JSONValue {
    guard let reply = request(line) else { throw BenchFailure("no reply to \(line.prefix(60))") }
    guard reply.hasPrefix("+") else { throw BenchFailure("\(line.prefix(60)): \(reply)") }
    return try JSONValue(json: String(reply.dropFirst()), limits: .none)
  }

  /// Opens an account named after a number and returns its uid and token.
  func signUp(_ name: String) throws -> (uid: String, token: String) {
    let reply = try success("SIGNUP \(name)@bench.example tall-oaks-\(name)-grow \(name)")
    guard let uid = reply["uid"]?.string, let token = reply["token"]?.string else {
      throw BenchFailure("SIGNUP gave no token")
    }
    return (uid, token)
  }
}
