import CanopySQLite
import Dispatch
import Foundation
import Synchronization

/// The removal of the temporary files and folders of a command that SIGINT, SIGTERM or SIGHUP ends. A terminal that is
/// closed sends SIGHUP.
enum Interruption {
  private struct State {
    var paths: [String] = []
    /// Whether a signal has come, and the process is ending.
    var isEnding = false
    /// Whether the command is in its last steps, which signals do not interrupt.
    var isCompleting = false
  }

  private static let state = Mutex(State())
  private static let sources = Mutex<[any DispatchSourceSignal]>([])

  /// Runs `body`, which reads data folders. Removes the copies of those that an older version wrote, however it ends.
  static func removingCopies<R>(
    and paths: [String] = [], isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> R
  ) async throws -> R {
    defer { try? FileManager.default.removeItem(atPath: SQLiteStore.temporaryFolder) }
    return try await removing(paths + [SQLiteStore.temporaryFolder], body)
  }

  /// Runs `body`, and removes the folders if a signal ends the process meanwhile.
  static func removing<R>(
    _ paths: [String], isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> R
  ) async throws -> R {
    let outer = state.withLock { state in
      defer { state.paths += paths }
      return state.paths
    }
    sources.withLock { sources in
      guard sources.isEmpty else { return }
      sources = [SIGINT, SIGTERM, SIGHUP].compactMap { number in
        let earlier = signal(number, SIG_IGN)
        // `nohup` starts a command with SIGHUP ignored, so that it goes on when its terminal is closed.
        guard number != SIGHUP || !isIgnored(earlier) else { return nil }
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
          let paths = state.withLock { state -> [String]? in
            if state.isCompleting { return nil }
            state.isEnding = true
            return state.paths
          }
          guard let paths else { return }
          remove(paths)
          // At once, so that the command does not create anything again.
          _exit(128 + number)
        }
        source.activate()
        return source
      }
    }
    let result: Result<R, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    // The removal may have caused the error, and a result of folders that were removed meanwhile is wrong. So the signal
    // is the reason for the end of the process.
    while isEnding(State(paths: outer)) { try? await Task.sleep(for: .seconds(1)) }
    return try result.get()
  }

  /// Begins the last steps of the command, which signals do not interrupt: a folder that is complete gets its name. If a
  /// signal has come before, waits for the end of the process.
  static func complete() {
    while isEnding(State(isCompleting: true)) { Thread.sleep(forTimeInterval: 1) }
  }

  /// Whether the process is ending. Otherwise the next state begins.
  private static func isEnding(_ next: State) -> Bool {
    state.withLock { state in
      if state.isEnding { return true }
      state = next
      return false
    }
  }

  private static func isIgnored(_ handler: sighandler_t?) -> Bool {
    unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
  }

  /// Removes files and folders. The command goes on meanwhile, until it misses a file or comes to its last steps: it may
  /// write into a folder, so that its removal fails, or be about to create one. So the removal ends when nothing has come
  /// back for a while.
  private static func remove(_ paths: [String]) {
    let (triesMax, quietTries, pause) = (200, 5, 0.01)
    var quiet = 0
    for _ in 0..<triesMax {
      var found = false
      for path in paths {
        var status = stat()
        guard lstat(path, &status) == 0 else { continue }
        found = true
        try? FileManager.default.removeItem(atPath: path)
      }
      quiet = found ? 0 : quiet + 1
      guard quiet < quietTries else { return }
      Thread.sleep(forTimeInterval: pause)
    }
  }
}
