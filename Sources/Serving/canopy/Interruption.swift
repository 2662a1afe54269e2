import CanopySQLite
import Dispatch
import Foundation
import Synchronization

/// The removal of the temporary files and folders of a command that SIGINT, SIGTERM or SIGHUP ends. A terminal that is
/// closed sends SIGHUP.
enum Interruption {
  private static let folders = Mutex<[String]>([])
  private static let sources = Mutex<[any DispatchSourceSignal]>([])
  /// Whether a signal has come, and the process is ending.
  private static let isEnding = Atomic(false)

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
    folders.withLock { $0 = paths }
    sources.withLock { sources in
      guard sources.isEmpty else { return }
      sources = [SIGINT, SIGTERM, SIGHUP].compactMap { number in
        let earlier = signal(number, SIG_IGN)
        // `nohup` starts a command with SIGHUP ignored, so that it goes on when its terminal is closed.
        guard number != SIGHUP || !isIgnored(earlier) else { return nil }
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
          isEnding.store(true, ordering: .releasing)
          remove(folders.withLock { $0 })
          // At once, so that the command does not create anything again.
          _exit(128 + number)
        }
        source.activate()
        return source
      }
    }
    defer { folders.withLock { $0 = [] } }
    do { return try await body() } catch {
      // The removal of the folders has caused the error, so the signal is the reason for the end of the process.
      while isEnding.load(ordering: .acquiring) { try? await Task.sleep(for: .seconds(1)) }
      throw error
    }
  }

  private static func isIgnored(_ handler: sighandler_t?) -> Bool {
    unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
  }

  /// Removes files and folders. The command goes on meanwhile, until it misses a file: it may write into a folder, so that
  /// its removal fails, or be about to create one. So the removal ends when nothing has come back for a while.
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
