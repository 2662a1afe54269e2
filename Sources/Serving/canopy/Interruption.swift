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
          for path in folders.withLock({ $0 }) { remove(path) }
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

  /// Removes a file or a folder. The command may be writing into the folder meanwhile, and then the first try may fail.
  private static func remove(_ path: String) {
    for _ in 0..<10 {
      var status = stat()
      guard lstat(path, &status) == 0 else { return }
      try? FileManager.default.removeItem(atPath: path)
    }
  }
}
