import CanopyTree
import Foundation

/// A blocking connection to a server, with one request at a time.
final class LineSocket {
  private let socket: TCPSocket
  private var buffer: [UInt8] = []
  private var start = 0

  /// - Parameter secondsMax: the seconds after which a reply counts as missing; nil to wait without a bound.
  init(port: Int, secondsMax: Int? = nil) throws {
    socket = try TCPSocket(port: port)
    if let secondsMax { socket.waitAtMost(seconds: secondsMax) }
  }

  /// Sends a line, and returns the line of the reply; nil if the connection ended before.
  func request(_ line: String) -> String? {
    let bytes = Array((line + "\n").utf8)
    var sent = 0
    while sent < bytes.count {
      let count = bytes[sent...].withUnsafeBytes {
        send(socket.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
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
      let count = recv(socket.descriptor, &chunk, chunk.count, 0)
      guard count > 0 else { return nil }
      buffer.append(contentsOf: chunk[..<count])
    }
  }

  /// Sends a line, and returns the JSON of a successful reply. Events before the reply are dropped.
  func success(_ line: String) throws -> JSONValue {
    try success(to: line, request(line))
  }

  /// Sends lines together, and returns when all have successful replies.
  func successes(_ lines: [String]) throws {
    guard let last = lines.last else { return }
    var reply = request(lines.joined(separator: "\n"))
    for line in lines.dropLast() {
      _ = try success(to: line, reply)
      reply = readLine()
    }
    _ = try success(to: last, reply)
  }

  private func success(to line: String, _ first: String?) throws -> JSONValue {
    var reply = first
    while reply?.hasPrefix(">") == true { reply = readLine() }
    guard let reply else { throw BenchFailure("no reply to \(line.prefix(60))") }
    guard reply.hasPrefix("+") else { throw BenchFailure("\(line.prefix(60)): \(reply)") }
    return try JSONValue(json: String(reply.dropFirst()), limits: .none)
  }

  /// Creates an account, and returns its uid and token.
  func signUp(_ name: String) throws -> (uid: String, token: String) {
    let reply = try success("SIGNUP \(name)@bench.example tall-oaks-\(name)-grow \(name)")
    guard let uid = reply["uid"]?.string, let token = reply["token"]?.string else {
      throw BenchFailure("SIGNUP gave no token")
    }
    return (uid, token)
  }
}
