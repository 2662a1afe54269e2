import CanopyTesting
import Foundation

/// A client that is a process of its own: `canopy shell`.
final class ClientProcess: LineClient {
  let mailbox = LineMailbox()
  private let pid: Int32
  private let input = Pipe()
  private let ending = ProcessEnding()

  /// Starts the process.
  ///
  /// - Parameter command: a program, with its first arguments, that becomes the client.
  init(
    host: String = "127.0.0.1", port: Int, through command: [String] = []
  ) throws {
    let process = Process()
    let words = command + [Command.path, "shell", "--host", host, "--port", "\(port)"]
    process.executableURL = URL(fileURLWithPath: words[0])
    process.arguments = Array(words[1...])
    process.environment = Command.base
    process.standardInput = input
    process.standardError = FileHandle.nullDevice
    let output = Pipe()
    process.standardOutput = output
    mailbox.receive(from: output)
    let ending = ending
    process.terminationHandler = { ending.set($0) }
    try process.run()
    pid = process.processIdentifier
  }

  deinit {
    if ending.now == nil { kill(pid, SIGKILL) }
  }

  func send(_ bytes: [UInt8]) async throws {
    try input.fileHandleForWriting.write(contentsOf: bytes)
  }

  func shutDownSending() async throws {
    try input.fileHandleForWriting.close()
  }

  /// Stops the whole process.
  func pauseReading() async throws {
    kill(pid, SIGSTOP)
  }

  func resumeReading() async throws {
    kill(pid, SIGCONT)
  }

  /// Kills the process.
  func disconnect() async {
    kill(pid, SIGKILL)
    _ = try? await ending.status()
  }
}
