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
  ///
  /// - Parameters:
  ///   - transport: the protocol of `port`.
  ///   - folder: the data folder, which is removed at the end; nil for one of this process.
  ///   - seed: a file of demo content; nil for an empty server.
  ///   - arguments: further options of the server.
  init(
    _ transport: ChaosTransport = .line, folder: String? = nil, seed: String? = nil,
    _ arguments: String...
  ) throws {
    let folder =
      folder
      ?? NSTemporaryDirectory()
      + "canopy-client-bench-\(ProcessInfo.processInfo.processIdentifier)"
    self.folder = folder
    if let seed {
      let seeding = Process()
      seeding.executableURL = Self.built("canopy")
      seeding.arguments = ["seed", "--data", folder, seed]
      seeding.standardError = FileHandle.nullDevice
      try seeding.run()
      seeding.waitUntilExit()
      guard seeding.terminationStatus == 0 else { throw BenchFailure("\(seed) was not read") }
    }
    process = Process()
    process.executableURL = Self.built("canopy")
    process.arguments =
      [
        "serve", "--data", folder, "--port", "0",
        "--http-port", transport == .line ? "off" : "0", "--signups-per-minute", "1000000",
        "--tree-max", "0", "--log-level", "error",
      ] + arguments
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let name = transport == .line ? "ready line " : "ready http "
    var text = ""
    var ready: Substring?
    while ready == nil {
      let data = output.fileHandleForReading.availableData
      guard !data.isEmpty else { throw BenchFailure("the server ended before it was ready") }
      text += String(decoding: data, as: UTF8.self)
      // The last part may be half a line.
      ready = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        .first { $0.hasPrefix(name) }
    }
    guard let last = ready?.split(separator: ":").last, let port = Int(last) else {
      throw BenchFailure("the server printed no port: \(text)")
    }
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

/// The protocol between the clients and the server.
enum ChaosTransport: String, CaseIterable, Sendable {
  /// `canopy://`
  case line
  /// `http://`: a WebSocket.
  case realtime

  /// Returns the URL of a port of this machine.
  func url(port: Int) -> String {
    "\(self == .line ? "canopy" : "http")://127.0.0.1:\(port)"
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
