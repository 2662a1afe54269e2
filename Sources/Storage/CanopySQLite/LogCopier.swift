internal import Dispatch
internal import GRDB
internal import GRDBSQLite
internal import Logging
internal import Synchronization

/// Copies the write-ahead log into the database file while commits go on.
///
/// SQLite's automatic checkpoint runs in the commit that finds the log too long, so all writes wait until megabytes
/// are copied and synchronized. This copier has a connection and a thread of its own.
///
/// SQLite restarts the log only when all of it has been copied. Commits never pause, so the writing connection copies
/// the last frames itself: the frames that were added during the copier's last pass. Background steps wait while the
/// log is copied, so these are the frames of a few commits unless the disk cannot keep up.
///
/// SQLite synchronizes the database file only in the pass that copies the last frame. While commits go on, that is the
/// pass of the writing connection, which would wait until the disk has all that was copied before. So the copier
/// synchronizes the file itself, just before that pass.
///
/// A long read transaction, such as that of a backup, keeps the rest of the log from being copied. Then the writing
/// connection copies nothing, and the next copy begins when the rest has grown by half. Each attempt looks at all frames
/// that are not copied, so frequent attempts would hold up the commits.
///
/// Background steps may write much in a short time, such as a checkpoint of large values. The log is copied after fewer
/// frames of them, because the disk serves no commit quickly while it writes the frames of a long log.
///
/// After an error of the disk nothing is copied until the log is repaired: see `LogRepair`.
///
/// Isolation: the hook runs on the writing connection's queue, and copying on `queue`.
final class LogCopier: Sendable {
  fileprivate struct State {
    /// The number of frames in the log after the last commit.
    var frames = 0
    /// The number of frames from which on the log is copied.
    var threshold: Int
    /// The number of frames that background steps wrote since the log was last synchronized.
    var unsyncedFrames = 0
    /// The number of frames that background steps wrote since the log was last copied.
    var stepFrames = 0
    /// The number of copied frames since the database file was last synchronized.
    var copiedFrames = 0
    /// The most copied frames that the writing connection had to synchronize.
    var writerFramesMax = 0
    /// The number of copies that have begun.
    var copies = 0
    /// The number of copies that ended with frames that a reader keeps from being copied.
    var delayedCopies = 0
    var isCopying = false
    var isClosed = false
  }

  /// The bytes of a frame: a page and its header.
  private static let frameBytes = 4_096 + 24
  /// The number of frames up to which the writer takes over from the copier.
  private static let lastFramesMax = 250
  /// The number of passes beside the writer. It bounds the log if the disk cannot keep up with the commits.
  private static let passesMax = 8
  /// The number of frames by which the log must grow before a failed or incomplete copy is repeated.
  private static let retryFrames = 1_000

  private let path: String
  private let settings: GRDB.Configuration
  private let framesMax: Int
  private let stepFramesMax: Int
  private let logger: Logger
  private let state: Mutex<State>
  private let connection = Mutex<DatabaseQueue?>(nil)
  private let writer = Mutex<DatabasePool?>(nil)
  private let files = Mutex<DatabaseFiles?>(nil)
  let queue = DispatchQueue(label: "canopy.store.log")

  /// Creates a copier that starts when the log has `framesMax` frames of one page each, or `stepFramesMax` frames of
  /// background steps.
  init(
    path: String, settings: GRDB.Configuration, framesMax: Int, stepFramesMax: Int, logger: Logger
  ) {
    self.path = path
    self.settings = settings
    self.framesMax = framesMax
    self.stepFramesMax = stepFramesMax
    self.logger = logger
    state = Mutex(State(threshold: framesMax))
  }

  /// Replaces the automatic checkpoint of the pool's writing connection: each of its commits reports the length of the
  /// log to this copier.
  ///
  /// Precondition: the copier lives as long as the connection.
  func attach(to pool: DatabasePool, _ files: DatabaseFiles) {
    self.files.withLock { $0 = files }
    let copier = Unmanaged.passUnretained(self).toOpaque()
    _ = pool.writeWithoutTransaction { db in
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

  /// The number of frames in the log after the last commit.
  var frames: Int { state.withLock { $0.frames } }

  /// The number of bytes that background steps wrote to the log since it was last synchronized.
  var unsyncedBytes: Int { state.withLock { $0.unsyncedFrames } * LogCopier.frameBytes }

  /// The number of copies that have begun.
  var copies: Int { state.withLock { $0.copies } }

  /// The number of copies that ended with frames that a reader keeps from being copied.
  var delayedCopies: Int { state.withLock { $0.delayedCopies } }

  /// The most copied frames that the writing connection had to synchronize.
  var writerFramesMax: Int { state.withLock { $0.writerFramesMax } }

  /// Adds the frames of a background step, and starts copying if the steps have written many. A log that was restarted
  /// meanwhile has fewer frames than before.
  ///
  /// - Parameter before: the number of frames before the step.
  func noteStep(after before: Int) {
    let begins = state.withLock { state in
      let frames = state.frames < before ? state.frames : state.frames - before
      state.unsyncedFrames += frames
      state.stepFrames += frames
      return state.stepFrames >= stepFramesMax && state.begin()
    }
    if begins { queue.async { self.copy() } }
  }

  /// Subtracts bytes that are synchronized now; all of them if `bytes` is nil.
  func noteSynced(_ bytes: Int? = nil) {
    state.withLock { state in
      let frames = bytes.map { $0 / LogCopier.frameBytes } ?? state.unsyncedFrames
      state.unsyncedFrames = max(0, state.unsyncedFrames - frames)
    }
  }

  /// Whether the log is being copied, or will be as soon as `queue` is free.
  var isCopying: Bool { state.withLock { $0.isCopying } }

  /// Waits until no copy is running. Returns at once if none is.
  func waitUntilIdle() async {
    guard isCopying else { return }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      queue.async { continuation.resume() }
    }
  }

  /// Records the length of the log after a commit, and starts copying if the log is too long. O(1).
  private func note(_ frames: Int) {
    let begins = state.withLock { state in
      if frames < state.frames { state.threshold = framesMax }
      state.frames = frames
      return frames >= state.threshold && state.begin()
    }
    if begins { queue.async { self.copy() } }
  }

  private func copy() {
    var delayedFrames = 0
    defer {
      state.withLock { state in
        state.isCopying = false
        let growth = max(LogCopier.retryFrames, delayedFrames / 2)
        state.threshold = max(framesMax, state.frames + growth)
      }
    }
    guard let pool = writer.withLock({ $0 }), let files = files.withLock({ $0 }),
      !state.withLock({ $0.isClosed })
    else { return }
    do {
      let connection = try openConnection()
      var copied = 0
      for _ in 0..<LogCopier.passesMax {
        guard files.unrepairedErrors == nil else { return }
        let (before, frames) = (copied, frames)
        copied = try connection.inDatabase { try $0.checkpoint(.passive).checkpointedFrameCount }
        note(copied: copied - before)
        // A commit may have restarted the log meanwhile; then it is short.
        delayedFrames = max(0, min(frames, self.frames) - copied)
        if copied - before <= LogCopier.lastFramesMax { break }
      }
      synchronizeDatabase(files)
      guard delayedFrames == 0 else {
        state.withLock { $0.delayedCopies += 1 }
        return
      }
      try pool.writeWithoutTransaction { db in
        guard files.unrepairedErrors == nil else { return }
        note(copied: try db.checkpoint(.passive).checkpointedFrameCount - copied)
        state.withLock { $0.writerFramesMax = max($0.writerFramesMax, $0.copiedFrames) }
      }
    } catch {
      if LogRepair.isNeeded(after: error) { files.noteError() }
      logger.warning(
        "the write-ahead log could not be copied into the database file; it is tried again",
        metadata: ["error": "\(error)"])
    }
  }

  private func note(copied frames: Int) {
    state.withLock { $0.copiedFrames += max(0, frames) }
  }

  /// Synchronizes the frames that were copied. Blocks until the disk has answered.
  private func synchronizeDatabase(_ files: DatabaseFiles) {
    files.synchronizeDatabase()
    state.withLock { $0.copiedFrames = 0 }
  }

  private func openConnection() throws -> DatabaseQueue {
    try connection.withLock { connection in
      if let connection { return connection }
      try Opening.refuseEmptied(path)
      let opened = try DatabaseQueue(path: literalPath(path), configuration: settings)
      connection = opened
      return opened
    }
  }

  /// Waits for a running copy to end, and closes the connection. Call before the pool is closed.
  func close() {
    state.withLock { $0.isClosed = true }
    queue.sync {
      try? connection.withLock { $0.take() }?.close()
      writer.withLock { $0 = nil }
      files.withLock { $0 = nil }
    }
  }
}

extension LogCopier.State {
  /// Notes that a copy begins. Returns false if none may begin.
  fileprivate mutating func begin() -> Bool {
    guard !isCopying, !isClosed else { return false }
    isCopying = true
    copies += 1
    stepFrames = 0
    return true
  }
}
