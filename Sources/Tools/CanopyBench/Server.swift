import Foundation

/// A `canopy serve` of this build that is a process of its own.
final class Server {
  let port: Int
  /// The port of HTTP; nil if there is none.
  let httpPort: Int?
  private let process: Process
  let folder: String

  /// The `canopy` command, built beside this program.
  static var executable: URL {
    URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
      .deletingLastPathComponent().appendingPathComponent("canopy")
  }

  /// Starts a server on a free port, and returns when it is ready.
  ///
  /// - Parameters:
  ///   - hasHTTP: whether it listens for HTTP too.
  ///   - command: a program, with its first arguments, that becomes the server.
  ///   - errors: the file for its log; nil for that of this program.
  init(
    folder: String, arguments: [String] = [], hasHTTP: Bool = false,
    through command: [String] = [], errors: FileHandle? = nil
  ) throws {
    self.folder = folder
    process = Process()
    if let errors { process.standardError = errors }
    let program = command.isEmpty ? [Server.executable.path] : command
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments =
      program + [
        "serve", "--data", folder, "--port", "0", "--http-port", hasHTTP ? "0" : "off",
        "--signups-per-minute", "1000000", "--log-level", "error",
      ] + arguments
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    Children.add(process.processIdentifier, endedBy: SIGKILL)
    var text = ""
    while text.split(separator: "\n", omittingEmptySubsequences: false).count <= (hasHTTP ? 2 : 1) {
      let data = output.fileHandleForReading.availableData
      guard !data.isEmpty else {
        process.waitUntilExit()
        Children.remove(process.processIdentifier)
        let isTrap = process.terminationReason == .uncaughtSignal
        throw EarlyEnding(status: process.terminationStatus + (isTrap ? 128 : 0))
      }
      text += String(decoding: data, as: UTF8.self)
    }
    func port(_ kind: String) -> Int? {
      let line = text.split(separator: "\n").first { $0.hasPrefix("ready \(kind) ") }
      return line?.split(separator: ":").last.flatMap { Int($0) }
    }
    guard let linePort = port("line"), !hasHTTP || port("http") != nil else {
      throw BenchFailure("the server printed no port: \(text)")
    }
    self.port = linePort
    httpPort = port("http")
  }

  /// Starts a server on a folder that may be damaged.
  ///
  /// - Returns: the server, or nil if it ended before it was ready, with its exit code and the text on stderr.
  static func start(folder: String) throws -> (server: Server?, status: Int32, errors: String) {
    let path = folder + ".errors"
    try Data().write(to: URL(fileURLWithPath: path))
    let errors = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    defer { try? errors.close() }
    do {
      return (try Server(folder: folder, errors: errors), 0, "")
    } catch let ending as EarlyEnding {
      return (nil, ending.status, (try? String(contentsOfFile: path, encoding: .utf8)) ?? "")
    }
  }

  /// The server ended before it was ready.
  private struct EarlyEnding: Error, CustomStringConvertible {
    var status: Int32
    var description: String { "the server ended with code \(status) before it was ready" }
  }

  var processID: Int32 { process.processIdentifier }

  /// Kills the process, as a loss of power would end it.
  func kill() {
    Foundation.kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
    Children.remove(process.processIdentifier)
  }

  /// Shuts the server down.
  func stop() throws {
    process.terminate()
    process.waitUntilExit()
    Children.remove(process.processIdentifier)
    guard process.terminationStatus == 0 else {
      throw BenchFailure("the server ended with code \(process.terminationStatus)")
    }
  }

  /// Runs another subcommand of `canopy`, or another program, and returns its output and exit code.
  static func run(
    _ arguments: [String], program: URL = executable
  ) throws -> (output: String, status: Int32) {
    let process = Process()
    process.executableURL = program
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    Children.add(process.processIdentifier, endedBy: SIGKILL)
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    Children.remove(process.processIdentifier)
    return (String(decoding: data, as: UTF8.self), process.terminationStatus)
  }

  /// Returns the metrics of the server that listens for HTTP on a port.
  static func metrics(_ port: Int) throws -> String {
    let socket = try TCPSocket(port: port)
    let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    _ = try Array(request.utf8).withUnsafeBytes { try socket.send($0) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = recv(socket.descriptor, &chunk, chunk.count, 0)
      guard count > 0 else { break }
      bytes += chunk[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Returns the value of a metric without labels, or 0 if the server has not measured it.
  static func metric(_ name: String, in metrics: String) -> Double {
    let line = metrics.split(separator: "\n").first { $0.hasPrefix(name + " ") }
    return line?.split(separator: " ").last.flatMap { Double($0) } ?? 0
  }

  /// Sets the peak of its memory, `VmHWM`, to the memory in use now.
  func forgetPeakMemory() {
    try? "5".write(toFile: "/proc/\(processID)/clear_refs", atomically: false, encoding: .utf8)
  }

  /// The numbers of its open files and of its sockets; 0 if it has ended.
  var descriptors: (all: Int, sockets: Int) {
    let folder = "/proc/\(processID)/fd/"
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    let sockets = names.count { name in
      (try? FileManager.default.destinationOfSymbolicLink(atPath: folder + name))?
        .hasPrefix("socket:") == true
    }
    return (names.count, sockets)
  }

  /// Returns an entry of `/proc/PID/status` in KiB: `VmHWM` or `VmRSS`.
  func memoryKibibytes(_ name: String) -> Int? {
    let path = "/proc/\(processID)/status"
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
    let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") }
    return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
  }
}
