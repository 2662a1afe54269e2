import Foundation
import Synchronization

/// The servers beside this program, and their folder. They end with this program, even if it ends by a failure or a
/// signal.
enum Children {
  private static let state = Mutex<(signals: [Int32: Int32], folder: String?)>(([:], nil))

  /// - Parameter signal: the signal that ends the process at once, with its own child processes.
  static func add(_ processID: Int32, endedBy signal: Int32) {
    state.withLock { $0.signals[processID] = signal }
  }

  static func remove(_ processID: Int32) {
    state.withLock { $0.signals[processID] = nil }
  }

  /// Creates a folder that is removed at the end. Other users may enter it, because PostgreSQL does not run as root.
  static func makeFolder() throws -> String {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-bench-\(ProcessInfo.processInfo.processIdentifier)").path
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
    state.withLock { $0.folder = folder }
    return folder
  }

  /// Ends the servers, and removes the folder.
  ///
  /// - Parameter code: the exit code with which this program then ends; nil to continue. A thread that fails because
  ///   its server has ended waits here, so it cannot change the exit code.
  static func endAll(thenExitWith code: Int32? = nil) {
    state.withLock { state in
      for (processID, signal) in state.signals { kill(processID, signal) }
      for processID in state.signals.keys {
        // If another thread waits for the process, this call fails, which also means that the process has ended.
        var status: Int32 = 0
        waitpid(processID, &status, 0)
      }
      if let folder = state.folder { try? FileManager.default.removeItem(atPath: folder) }
      state = ([:], nil)
      if let code { exit(code) }
    }
  }

  /// Makes the signals that end a program call `endAll` first.
  ///
  /// - Returns: the sources of the signals, which the caller must keep.
  static func endAllOnSignals() -> [any DispatchSourceSignal] {
    [SIGINT, SIGTERM, SIGHUP].map { number in
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        endAll(thenExitWith: 128 + number)
      }
      source.resume()
      return source
    }
  }
}
