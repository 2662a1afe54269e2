import Foundation

/// nats-server from Debian: messages to many subscribers, without storage.
final class NATSServer {
  let port: Int
  private let process: ChildProcess

  var usage: Usage { Usage(processID: process.processID) }

  init(folder: String, connectionsMax: Int) throws {
    port = try freePort()
    let file = folder + "/nats.conf"
    // By default, a client must answer a PING within two minutes.
    try """
    listen: 127.0.0.1:\(port)
    max_connections: \(connectionsMax)
    ping_interval: "1h"

    """.write(toFile: file, atomically: true, encoding: .utf8)
    process = try ChildProcess(
      "/usr/bin/env", ["nats-server", "-c", file], log: folder + "/nats.log", endedBy: SIGKILL)
    _ = try process.waitUntilReady { [port] in try TCPSocket(port: port) }
  }

  func stop() {
    process.stop(SIGKILL)
  }

  static func fanOut(textBytes: Int) -> FanOutDialect<NATSFramer> {
    // PONG answers after everything before it is done.
    let greeting = Array("CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n".utf8)
    return FanOutDialect(
      subscribe: [greeting, Array("SUB fan-out 1\r\nPING\r\n".utf8)], logIn: [greeting],
      publish: { Array("PUB fan-out \($0.utf8.count)\r\n\($0)\r\nPING\r\n".utf8) },
      eventPrefix: "MSG fan-out 1 ", textBytes: textBytes)
  }
}

/// The framer of the protocol of NATS. A message is a line `MSG subject id bytes` and its text. INFO and PING of the
/// server, and `+OK`, belong to what follows.
struct NATSFramer: ReplyFramer {
  /// The end of the lines that belong to what follows.
  private var offset = 0

  mutating func next(in bytes: UnsafeRawBufferPointer) throws -> Frame? {
    while true {
      let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
      guard let lineEnd = rest.firstIndex(of: 0x0A) else { return nil }
      let start = offset
      var count = start + lineEnd + 1
      if rest.starts(with: "INFO ") || rest.starts(with: "PING") || rest.starts(with: "+OK") {
        offset = count
        continue
      }
      if rest.starts(with: "MSG ") {
        var length = 0
        var digits = lineEnd - 1
        while digits > 0, rest[digits - 1] != 0x20 { digits -= 1 }
        for digit in rest[digits..<max(digits, lineEnd - 1)] {
          length = length &* 10 &+ Int(digit & 0x0F)
        }
        count += length + 2
        guard count <= bytes.count else { return nil }
      }
      offset = 0
      return Frame(
        count: count, contentStart: start, isError: rest.starts(with: "-ERR"))
    }
  }
}
