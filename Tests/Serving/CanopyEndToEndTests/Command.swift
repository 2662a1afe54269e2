import CanopyTesting
import Foundation
import Synchronization
import Testing

/// The `canopy` command, built beside the tests.
enum Command {
  /// The exit status and the output of a command.
  struct Ending: CustomStringConvertible {
    /// The command and its arguments.
    var command: [String]
    var status: Int32
    var output: [UInt8]
    var errors: String

    var text: String { String(decoding: output, as: UTF8.self) }

    /// The command and its ending, for the messages of failures.
    var description: String {
      """
      the ending of a command is wrong
      command: \(command.joined(separator: " "))
      status:  \(status)
      output:  \(Self.shortened(text))
      errors:  \(Self.shortened(errors))
      """
    }

    private static func shortened(_ text: String) -> String {
      text.count > 4_000 ? "\(text.prefix(4_000))… (\(text.utf8.count) bytes)" : text
    }

    /// Whether the command ended with an error sentence on stderr, and not by a trap.
    var isSentence: Bool {
      status > 0 && status < 128 && errors.hasPrefix("Error: ") && !errors.contains("Fatal error")
        && !errors.contains("NSError") && !errors.contains("errno")
    }

    /// Expects this exit status. A violation prints the command and its ending.
    func expect(status: Int32, at location: SourceLocation = #_sourceLocation) {
      #expect(self.status == status, "\(self)", sourceLocation: location)
    }

    /// Expects that the command ended with an error sentence.
    func expectSentence(
      _ comment: String? = nil, at location: SourceLocation = #_sourceLocation
    ) {
      #expect(
        isSentence, "\(comment.map { $0 + ": " } ?? "")\(self)", sourceLocation: location)
    }
  }

  static let path: String = {
    let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    return tests.deletingLastPathComponent().appendingPathComponent("canopy").path
  }()

  /// Runs a program to its end.
  @discardableResult
  static func run(
    _ arguments: [String], input: String = "", environment: [String: String] = [:],
    program: String = path
  ) async throws -> Ending {
    let folder = try TemporaryFolder()
    let (output, errors, standardInput) = (
      folder.path + "/output", folder.path + "/errors", folder.path + "/input"
    )
    for file in [output, errors] { try Data().write(to: URL(fileURLWithPath: file)) }
    try Data(input.utf8).write(to: URL(fileURLWithPath: standardInput))
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    process.environment = base.merging(environment) { $1 }
    process.standardInput = try FileHandle(forReadingFrom: URL(fileURLWithPath: standardInput))
    process.standardOutput = try FileHandle(forWritingTo: URL(fileURLWithPath: output))
    process.standardError = try FileHandle(forWritingTo: URL(fileURLWithPath: errors))
    let ending = ProcessEnding()
    process.terminationHandler = { ending.set($0) }
    try process.run()
    let pid = process.processIdentifier
    let status = try await withTaskCancellationHandler {
      try await ending.status()
    } onCancel: {
      kill(pid, SIGKILL)
    }
    return Ending(
      command: [program] + arguments, status: status,
      output: Array(try Data(contentsOf: URL(fileURLWithPath: output))),
      errors: String(decoding: try Data(contentsOf: URL(fileURLWithPath: errors)), as: UTF8.self))
  }

  /// The environment without the variables of the command, but for one: servers of tests have no HTTP port unless
  /// the test asks for it.
  static let base = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CANOPY_") }
    .merging(["CANOPY_HTTP_PORT": "off"]) { $1 }
}

/// The end of a process, for which a test can wait. The status of a process that a signal ended is 128 and its number.
final class ProcessEnding: Sendable {
  private let value = Mutex<Int32?>(nil)
  private let mailbox = LineMailbox()

  func set(_ process: Process) {
    let isExit = process.terminationReason == .exit
    let status = isExit ? process.terminationStatus : 128 + process.terminationStatus
    value.withLock { $0 = status }
    mailbox.close()
  }

  /// The status; nil while the process runs.
  var now: Int32? { value.withLock { $0 } }

  func status() async throws -> Int32 {
    _ = try await mailbox.next()
    try Task.checkCancellation()
    return now ?? -1
  }
}

extension LineMailbox {
  /// Adds the lines of a pipe.
  func receive(from pipe: Pipe) {
    PipeReader.start(pipe) { bytes in
      // The mailbox expects the line ends of the protocol.
      self.receive(bytes.flatMap { $0 == 0x0A ? [0x0D, 0x0A] : [$0] })
      if bytes.isEmpty { self.close() }
    }
  }
}

/// A server that is a process of its own.
final class ServerProcess: Sendable {
  let pid: Int32
  let port: Int
  /// The HTTP port; 0 if the server has none.
  let httpPort: Int
  /// The names of the listeners in the lines `ready NAME HOST:PORT`.
  let readyNames: Set<String>
  private let ending: ProcessEnding
  private let errorsPath: String
  private let folder: TemporaryFolder

  /// Starts `canopy serve` and waits until it is ready.
  ///
  /// - Parameter command: a program, with its first arguments, that becomes the server.
  init(
    data: String?, _ arguments: [String] = [], environment: [String: String] = [:],
    through command: [String] = []
  ) async throws {
    folder = try TemporaryFolder()
    errorsPath = folder.path + "/errors"
    try Data().write(to: URL(fileURLWithPath: errorsPath))
    let process = Process()
    let words =
      command + [Command.path, "serve"] + (data.map { ["--data", $0, "--port", "0"] } ?? [])
      + arguments
    process.executableURL = URL(fileURLWithPath: words[0])
    process.arguments = Array(words[1...])
    process.environment = Command.base.merging(environment) { $1 }
    process.standardError = try FileHandle(forWritingTo: URL(fileURLWithPath: errorsPath))
    let output = Pipe()
    process.standardOutput = output
    process.standardInput = FileHandle.nullDevice
    let ending = ProcessEnding()
    self.ending = ending
    let lines = LineMailbox()
    lines.receive(from: output)
    process.terminationHandler = { ending.set($0) }
    try process.run()
    pid = process.processIdentifier
    let pid = pid
    var listeners: Set = ["line"]
    if (environment["CANOPY_HTTP_PORT"] ?? "off") != "off" { listeners.insert("http") }
    var ports: [String: Int] = [:]
    var readyNames: Set<String> = []
    while ports.count < listeners.count {
      let line = try await withTaskCancellationHandler {
        try await lines.next()
      } onCancel: {
        kill(pid, SIGKILL)
      }
      let words = line?.split(separator: " ") ?? []
      let name =
        words.count == 3 ? ["tls": "line", "https": "http"][words[1]] ?? String(words[1]) : ""
      guard words.first == "ready", listeners.contains(name),
        let port = words[2].split(separator: ":").last.flatMap({ Int($0) })
      else {
        _ = kill(pid, SIGKILL)
        let errors = try String(contentsOfFile: errorsPath, encoding: .utf8)
        throw LineClientError.unexpected("\(line ?? "no line") \(errors)")
      }
      ports[name] = port
      readyNames.insert(String(words[1]))
    }
    port = ports["line"] ?? 0
    httpPort = ports["http"] ?? 0
    self.readyNames = readyNames
  }

  deinit {
    if ending.now == nil { kill(pid, SIGKILL) }
  }

  /// The log so far.
  var log: String {
    (try? String(contentsOfFile: errorsPath, encoding: .utf8)) ?? ""
  }

  /// - Parameter trusted: the certificate of the server, to connect with TLS; nil for plain text.
  func connect(trusting trusted: TestCertificate? = nil) async throws -> LineSocketClient {
    try await LineSocketClient(port: port, trusting: trusted)
  }

  /// Returns the request that authenticates a connection as the administrator.
  static func authentication(data: String) throws -> String {
    let token = try String(contentsOfFile: data + "/admin-token", encoding: .utf8)
    return "AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))"
  }

  /// Sends SIGTERM, and returns the exit status.
  func terminate() async throws -> Int32 {
    kill(pid, SIGTERM)
    return try await end()
  }

  /// Kills the process.
  func destroy() async throws {
    kill(pid, SIGKILL)
    _ = try await end()
  }

  /// Waits for the end, and returns the exit status.
  func end() async throws -> Int32 {
    try await withTaskCancellationHandler {
      try await ending.status()
    } onCancel: { [pid] in
      kill(pid, SIGKILL)
    }
  }

  /// Returns the bytes of memory in use.
  func residentBytes() throws -> Int { try memoryBytes("VmRSS") }

  /// Returns an entry of `/proc/PID/status` in bytes: `VmRSS`, or `VmHWM` for the peak.
  func memoryBytes(_ name: String) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name + ":") })
    let kibibytes = try #require(line.split { !$0.isNumber }.first)
    return try #require(Int(kibibytes)) * 1_024
  }

  /// Sets the peak of memory, `VmHWM`, to the memory in use now.
  func forgetPeak() throws {
    try "5".write(toFile: "/proc/\(pid)/clear_refs", atomically: false, encoding: .utf8)
  }
}
