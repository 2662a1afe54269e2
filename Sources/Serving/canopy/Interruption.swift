import CanopySQLite
import Dispatch
import Foundation
import Synchronization

/// The removal of the temporary folders of a command that SIGINT or SIGTERM ends.
enum Interruption {
  private static let folders = Mutex<[String]>([])
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
    folders.withLock { $0 = paths }
    sources.withLock { sources in
      guard sources.isEmpty else { return }
      sources = [SIGINT, SIGTERM].map { number in
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
          for path in folders.withLock({ $0 }) { try? FileManager.default.removeItem(atPath: path) }
          exit(128 + number)
        }
        source.activate()
        return source
      }
    }
    defer { folders.withLock { $0 = [] } }
    return try await body()
  }
}
