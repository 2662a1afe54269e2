import CanopyTesting
import Foundation
import Synchronization
import Testing

/// The `canopy` command as it was built beside the tests.
enum Command {
  /// How a command ended.
  struct Ending {
    var status: Int32
    var output: [UInt8]
    var errors: String

    var text: String { String(decoding: output, as: UTF8.self) }

    /// Whether it ended by itself with something to say on stderr, and nothing that looks like a trap.
    var isSentence: Bool {
      status > 0 && status < 128 && errors.hasPrefix("Error: ") && !errors.contains("Fatal error")
        && !errors.contains("NSError") && !errors.contains("errno")
    }
  }

  static let path: String = {
    let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    return tests.deletingLastPathComponent().appendingPathComponent("canopy").path
  }()

  /// Runs it to its end.
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
      status: status, output: Array(try Data(contentsOf: URL(fileURLWithPath: output))),
      errors: String(decoding: try Data(contentsOf: URL(fileURLWithPath: errors)), as: UTF8.self))
  }

  /// The environment without what would change a command.
  static let base = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("CANOPY_") }
}

/// The exit status of a process, above 128 by the signal that ended it; to be waited for.
final class ProcessEnding: Sendable {
  private let value = Mutex<Int32?>(nil)
  private let mailbox = LineMailbox()

  func set(_ process: Process) {
    let isExit = process.terminationReason == .exit
    let status = isExit ? process.terminationStatus : 128 + process.terminationStatus
    value.withLock { $0 = status }
    mailbox.close()
  }

  /// Nil as long as the process runs.
  var now: Int32? { value.withLock { $0 } }

  func status() async throws -> Int32 {
    _ = try await mailbox.next()
    try Task.checkCancellation()
    return now ?? -1
  }
}

extension LineMailbox {
  /// Takes the lines that come through a pipe.
  func receive(from pipe: Pipe) {
    PipeReader.start(pipe) { bytes in
      // The mailbox is made for lines of the protocol.
      self.receive(bytes.flatMap { $0 == 0x0A ? [0x0D, 0x0A] : [$0] })
      if bytes.isEmpty { self.close() }
    }
  }
}

/// A folder that goes with the last reference to it.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/canopy-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }
}

/// A server in a process of its own.
final class ServerProcess: Sendable {
  let pid: Int32
  let port: Int
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
    let line = try await withTaskCancellationHandler {
      try await lines.next()
    } onCancel: {
      kill(pid, SIGKILL)
    }
    guard let line, line.hasPrefix("ready line "),
      let port = line.split(separator: ":").last.flatMap({ Int($0) })
    else {
      _ = kill(pid, SIGKILL)
      let errors = try String(contentsOfFile: errorsPath, encoding: .utf8)
      throw LineClientError.unexpected("\(line ?? "no line") \(errors)")
    }
    self.port = port
  }

  deinit {
    if ending.now == nil { kill(pid, SIGKILL) }
  }

  /// What it has logged.
  var log: String {
    (try? String(contentsOfFile: errorsPath, encoding: .utf8)) ?? ""
  }

  func connect() async throws -> LineSocketClient {
    try await LineSocketClient(port: port)
  }

  /// The request that makes a connection the administrator's.
  static func authentication(data: String) throws -> String {
    let token = try String(contentsOfFile: data + "/admin-token", encoding: .utf8)
    return "AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))"
  }

  /// Asks it to end; returns its exit status.
  func terminate() async throws -> Int32 {
    kill(pid, SIGTERM)
    return try await end()
  }

  /// Ends it without asking.
  func destroy() async throws {
    kill(pid, SIGKILL)
    _ = try await end()
  }

  /// Returns its exit status when it has ended.
  func end() async throws -> Int32 {
    try await withTaskCancellationHandler {
      try await ending.status()
    } onCancel: { [pid] in
      kill(pid, SIGKILL)
    }
  }

  /// Memory that is in use, in bytes.
  func residentBytes() throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
    let kibibytes = try #require(
      line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first)
    return try #require(Int(kibibytes)) * 1_024
  }
}
