internal import Dispatch
internal import GRDB
internal import GRDBSQLite
internal import Logging
internal import Synchronization

/// Copies the write-ahead log back into the database file while commits go on.
///
/// SQLite's automatic checkpoint does so in the commit that finds the log too long: all writes then wait until tens of
/// megabytes are copied and synced. This one has a connection and a thread of its own. SQLite starts the log anew only
/// when all of it is copied, and commits never pause, so the writing connection copies the last frames itself: those
/// that were added during the last pass, a few hundred at most unless the disk cannot keep up.
///
/// Isolation: the hook runs on the writing connection's queue, the copying on `queue`.
final class LogCopier: Sendable {
  private struct State {
    /// Frames in the log after the last commit.
    var frames = 0
    /// Frames from which on the log is copied.
    var threshold: Int
    var isCopying = false
    var isClosed = false
  }

  /// Frames of the last pass beside the writer at which the writer takes over.
  private static let lastFramesMax = 250
  /// Passes beside the writer. A disk that cannot keep up with the commits must not let the log grow for ever.
  private static let passesMax = 8
  /// Frames by which the log grows before a copying that failed, or was held up by a reader, is tried again.
  private static let retryFrames = 1_000

  private let path: String
  private let settings: GRDB.Configuration
  private let framesMax: Int
  private let logger: Logger
  private let state: Mutex<State>
  private let connection = Mutex<DatabaseQueue?>(nil)
  private let writer = Mutex<DatabasePool?>(nil)
  let queue = DispatchQueue(label: "canopy.store.log")

  /// Creates a copier that begins when the log has `framesMax` frames, of a page each.
  init(path: String, settings: GRDB.Configuration, framesMax: Int, logger: Logger) {
    self.path = path
    self.settings = settings
    self.framesMax = framesMax
    self.logger = logger
    state = Mutex(State(threshold: framesMax))
  }

  /// Has each commit of the pool's writing connection report the length of the log, instead of copying it.
  ///
  /// Precondition: the copier lives as long as the connection.
  func attach(to pool: DatabasePool) {
    let copier = Unmanaged.passUnretained(self).toOpaque()
    _ = pool.writeWithoutTransaction { db in
      // Replaces the hook of the automatic checkpoint.
      sqlite3_wal_hook(
        db.sqliteConnection,
        { copier, _, _, frames in
          guard let copier else { return SQLITE_OK }
          Unmanaged<LogCopier>.fromOpaque(copier).takeUnretainedValue().note(Int(frames))
          return SQLITE_OK
        }, copier)
    }
    writer.withLock { $0 = pool }
  }

  /// Notes the length of the log after a commit, and starts copying if it is too long. O(1).
  private func note(_ frames: Int) {
    let begins = state.withLock { state in
      if frames < state.frames { state.threshold = framesMax }
      state.frames = frames
      guard frames >= state.threshold, !state.isCopying, !state.isClosed else { return false }
      state.isCopying = true
      return true
    }
    if begins { queue.async { self.copy() } }
  }

  private func copy() {
    defer {
      state.withLock { state in
        state.isCopying = false
        state.threshold = max(framesMax, state.frames + LogCopier.retryFrames)
      }
    }
    guard let pool = writer.withLock({ $0 }), !state.withLock({ $0.isClosed }) else { return }
    do {
      let connection = try openConnection()
      var copied = 0
      for _ in 0..<LogCopier.passesMax {
        let before = copied
        copied = try connection.inDatabase { try $0.checkpoint(.passive).checkpointedFrameCount }
        if copied - before <= LogCopier.lastFramesMax { break }
      }
      try pool.writeWithoutTransaction { db in _ = try db.checkpoint(.passive) }
    } catch {
      logger.warning(
        "the write-ahead log could not be copied into the database file; it is tried again",
        metadata: ["error": "\(error)"])
    }
  }

  private func openConnection() throws -> DatabaseQueue {
    try connection.withLock { connection in
      if let connection { return connection }
      let opened = try DatabaseQueue(path: path, configuration: settings)
      connection = opened
      return opened
    }
  }

  /// Waits until a copying that is under way has ended, and closes the connection. Call before the pool is closed.
  func close() {
    state.withLock { $0.isClosed = true }
    queue.sync {
      try? connection.withLock { $0.take() }?.close()
      writer.withLock { $0 = nil }
    }
  }
}
