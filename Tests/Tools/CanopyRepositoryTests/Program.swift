import CanopyTesting
import Foundation

/// Other programs, which tests run to their end.
enum Program {
  struct Outcome: Sendable {
    var status: Int32
    var output: String
    var errors: String
  }

  /// The path of the built command, beside the bundle of the tests.
  static let canopy = URL(filePath: CommandLine.arguments[0])
    .resolvingSymlinksInPath().deletingLastPathComponent().appending(path: "canopy").path

  /// Runs a program, and returns its status and output. Cancelling the test ends the program.
  ///
  /// - Parameters:
  ///   - environment: the whole environment of the program.
  ///   - current: the folder in which it runs.
  static func run(
    _ program: String, _ arguments: [String], environment: [String: String] = standardEnvironment,
    in current: URL = Repository.root
  ) async throws -> Outcome {
    let folder = try TemporaryFolder()
    let process = Process()
    process.executableURL = URL(filePath: program)
    process.arguments = arguments
    process.environment = environment
    process.currentDirectoryURL = current
    process.standardInput = FileHandle.nullDevice
    // Unlike a pipe, a file accepts any amount of output without a reader.
    let files = try ["output", "errors"].map { name in
      try Data().write(to: folder.url.appending(path: name))
      return try FileHandle(forWritingTo: folder.url.appending(path: name))
    }
    (process.standardOutput, process.standardError) = (files[0], files[1])
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
        process.terminationHandler = { _ in done.resume() }
        do { try process.run() } catch { done.resume(throwing: error) }
      }
    } onCancel: {
      if process.isRunning { process.terminate() }
    }
    for file in files { try file.close() }
    return Outcome(
      status: process.terminationStatus,
      output: try String(contentsOfFile: folder.file("output"), encoding: .utf8),
      errors: try String(contentsOfFile: folder.file("errors"), encoding: .utf8))
  }

  static let standardEnvironment: [String: String] = {
    // The last three are those of `Scripts/sanitize`, whose reports come from the programs too.
    let names = [
      "PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "LD_PRELOAD", "TSAN_OPTIONS", "ASAN_OPTIONS",
    ]
    return ProcessInfo.processInfo.environment.filter { names.contains($0.key) }
  }()
}

/// Runs blocking work on a new thread.
func blocking<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
  try await withCheckedThrowingContinuation { done in
    Thread.detachNewThread { done.resume(with: Result { try body() }) }
  }
}
