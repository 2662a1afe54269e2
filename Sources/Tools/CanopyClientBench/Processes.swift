import CanopyClient
import Foundation
import Logging

/// A `canopy serve` of this build with a temporary data folder.
final class ServerProcess {
  let port: Int
  let token: String
  private let process: Process
  private let folder: String

  /// Starts a server on a free port and waits until it is ready.
  init() throws {
    folder =
      NSTemporaryDirectory() + "canopy-client-bench-\(ProcessInfo.processInfo.processIdentifier)"
    process = Process()
    process.executableURL = Self.built("canopy")
    process.arguments = [
      "serve", "--data", folder, "--port", "0", "--http-port", "off", "--signups-per-minute",
      "1000000", "--log-level",
      "error",
    ]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    var text = ""
    while !text.contains("\n") {
      let data = output.fileHandleForReading.availableData
      guard !data.isEmpty else { throw BenchFailure("the server ended before it was ready") }
      text += String(decoding: data, as: UTF8.self)
    }
    guard let last = text.split(separator: ":").last,
      let port = Int(last.trimmingCharacters(in: .whitespacesAndNewlines))
    else { throw BenchFailure("the server printed no port: \(text)") }
    self.port = port
    token = try String(contentsOfFile: folder + "/admin-token", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
  }

  func stop() {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(atPath: folder)
  }

  /// Returns the path of a program that was built beside this one.
  static func built(_ name: String) -> URL {
    URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
      .deletingLastPathComponent().appendingPathComponent(name)
  }
}

/// A child process of this program that runs one client.
final class ClientProcess {
  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()

  init(_ arguments: [String], token: String) throws {
    process.executableURL = ServerProcess.built("CanopyClientBench")
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(["CANOPY_TOKEN": token]) {
      $1
    }
    process.standardInput = input
    process.standardOutput = output
    try process.run()
  }

  /// Ends the client by closing its input.
  func finish() throws {
    try input.fileHandleForWriting.close()
  }

  /// Waits for the end of the process and returns the lines of its output.
  func lines() throws -> [String] {
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw BenchFailure("a client ended with code \(process.terminationStatus)")
    }
    return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
  }
}

extension DatabaseOptions {
  /// The default options, with a log of errors only.
  static var quiet: DatabaseOptions {
    var options = DatabaseOptions()
    options.logger.logLevel = .error
    return options
  }
}
