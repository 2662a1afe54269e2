import Foundation

/// `canopy serve` on a free port.
final class RunningServer: Sendable {
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  private let process: Process
  /// The address in its ready line.
  let host: String
  let port: UInt16
  /// The port of HTTP; nil if there is none.
  let httpPort: UInt16?

  /// Starts a server and waits, at most a minute, until it is ready.
  ///
  /// - Parameter hasHTTP: whether it listens for HTTP too.
  init(data: String, hasHTTP: Bool = false) async throws {
    let process = Process()
    process.executableURL = URL(filePath: Program.canopy)
    process.arguments = [
      "serve", "--data", data, "--port", "0", "--http-port", hasHTTP ? "0" : "off", "--log-level",
      "error",
    ]
    process.environment = Program.standardEnvironment
    process.standardInput = FileHandle.nullDevice
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    self.process = process
    let reader = output.fileHandleForReading
    let lines = try await blocking {
      try (0..<(hasHTTP ? 2 : 1)).map { _ in
        try RunningServer.firstLine(reader.fileDescriptor)
      }
    }
    let found = lines.compactMap { $0.firstMatch(of: /^ready (line|http) (.+):([0-9]+)$/) }
    guard found.count == lines.count, let line = found.first(where: { $0.1 == "line" }),
      let port = UInt16(line.3)
    else {
      process.terminate()
      throw Failure(description: "instead of ready lines the server printed: \(lines)")
    }
    host = String(line.2)
    self.port = port
    httpPort = found.first { $0.1 == "http" }.flatMap { UInt16($0.3) }
  }

  deinit {
    if process.isRunning { kill(process.processIdentifier, SIGKILL) }
  }

  /// Sends SIGTERM, and returns the exit code.
  func stop() async throws -> Int32 {
    process.terminate()
    return try await blocking { [process] in
      process.waitUntilExit()
      return process.terminationStatus
    }
  }

  private static func firstLine(_ descriptor: Int32) throws -> String {
    var line: [UInt8] = []
    while true {
      var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&wait, 1, 60_000) > 0 else {
        throw Failure(description: "the server is not ready within a minute")
      }
      var byte: UInt8 = 0
      guard read(descriptor, &byte, 1) == 1, byte != UInt8(ascii: "\n") else {
        return String(decoding: line, as: UTF8.self)
      }
      line.append(byte)
    }
  }
}

/// A connection that sends and receives lines, and waits for each at most half a minute.
final class LineConnection {
  private let descriptor: Int32
  private var received: [UInt8] = []

  /// - Parameter port: another port than that of the line protocol.
  init(to server: RunningServer, port: UInt16? = nil) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var time = timeval(tv_sec: 30, tv_usec: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = (port ?? server.port).bigEndian
    guard inet_pton(AF_INET, server.host, &address.sin_addr) == 1 else {
      throw RunningServer.Failure(description: "\(server.host) is not an IPv4 address")
    }
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 else {
      throw RunningServer.Failure(description: "cannot connect to \(server.host):\(server.port)")
    }
  }

  deinit {
    close(descriptor)
  }

  func send(_ line: String) throws {
    let bytes = Array((line + "\n").utf8)
    var sent = 0
    while sent < bytes.count {
      let count = bytes[sent...].withUnsafeBytes {
        Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw RunningServer.Failure(description: "sending failed") }
      sent += count
    }
  }

  /// Returns the next line without its end; nil if the server has closed the connection.
  func receive() throws -> String? {
    while true {
      if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
        let line = received[..<end].filter { $0 != UInt8(ascii: "\r") }
        received.removeSubrange(...end)
        return String(decoding: line, as: UTF8.self)
      }
      guard try receiveMore() else { return nil }
    }
  }

  /// Returns the next bytes; nil if the server has closed the connection before.
  func receive(_ count: Int) throws -> [UInt8]? {
    while received.count < count {
      guard try receiveMore() else { return nil }
    }
    defer { received.removeFirst(count) }
    return Array(received[..<count])
  }

  private func receiveMore() throws -> Bool {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    guard count >= 0 else { throw RunningServer.Failure(description: "no reply came in time") }
    received += buffer.prefix(count)
    return count > 0
  }
}
