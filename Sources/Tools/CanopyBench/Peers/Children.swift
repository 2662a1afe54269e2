import Foundation
import Synchronization

/// The servers that run beside this program, and the folder that they work in: none outlives it,
/// whether it ends by itself, by a failure or by a signal.
enum Children {
  private static let state = Mutex<(signals: [Int32: Int32], folder: String?)>(([:], nil))

  /// - Parameter signal: what ends the process at once and cleanly enough that nothing of it is left.
  static func add(_ processID: Int32, endedBy signal: Int32) {
    state.withLock { $0.signals[processID] = signal }
  }

  static func remove(_ processID: Int32) {
    state.withLock { $0.signals[processID] = nil }
  }

  /// Makes a folder that is removed at the end. Others may pass through it, as PostgreSQL does not run
  /// as root.
  static func makeFolder() throws -> String {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-bench-\(ProcessInfo.processInfo.processIdentifier)").path
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
    state.withLock { $0.folder = folder }
    return folder
  }

  /// Ends them, and removes the folder.
  ///
  /// - Parameter code: with which this program then ends, if it is to. Nobody else gets past here
  ///   meanwhile: whoever fails because its server is gone waits, and the code is this one.
  static func endAll(thenExitWith code: Int32? = nil) {
    state.withLock { state in
      for (processID, signal) in state.signals { kill(processID, signal) }
      for processID in state.signals.keys {
        // Those that are waited for elsewhere are gone here: that is the end of them, too.
        var status: Int32 = 0
        waitpid(processID, &status, 0)
      }
      if let folder = state.folder { try? FileManager.default.removeItem(atPath: folder) }
      state = ([:], nil)
      if let code { exit(code) }
    }
  }

  /// Has the signals that ask a program to end do so only after `endAll`.
  ///
  /// - Returns: what is to be kept as long as this should be so.
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
