internal import Foundation
internal import GRDB
public import Logging
internal import Synchronization

/// A data folder: the journal, the checkpoint and the accounts, in one SQLite file.
///
/// SQLite runs in WAL mode. Asynchronous methods run their statements on GRDB's own queues. `append` and `resolveAppend` are
/// synchronous: they block the caller's thread until the disk has answered.
/// The folder is locked from opening until `close`, so that one process uses it at a time.
public final class SQLiteStore: Sendable {
  /// When an append counts as stored.
  public enum Durability: String, Sendable, CaseIterable {
    /// When it is on the disk: survives the loss of power.
    case full
    /// When the operating system has it: survives the end of the process, not the loss of power.
    case relaxed
  }

  /// Settings of a store.
  public struct Configuration: Sendable {
    /// When an append counts as stored.
    public var durability = Durability.full
    /// Commits that are kept at most after they have been folded into the checkpoint, for those who
    /// resume listening.
    public var retainedCommits: Int64 = 100_000
    /// Milliseconds before the last commit from which on commits are kept.
    public var retainedMilliseconds: Int64 = 3_600_000
    /// Rows that one step of a checkpoint writes or looks for at most. No append begins during a step.
    public var checkpointStepRows = 256
    /// Bytes that one step of a checkpoint writes or removes at most, but for its last row.
    public var checkpointStepBytes = 256 * 1024
    /// Seconds from which on a step of a checkpoint ends, after the row that it is at.
    public var checkpointStepSeconds = 0.003
    /// Different places, written by the commits that a checkpoint folds together: some 300 bytes of
    /// memory each, while it is made.
    public var checkpointPortionLocations = 250_000
    /// Whether to open a folder also if commits, or other changes, were lost. `acceptLosses` must be called then.
    public var acceptsLoss = false
    /// Where the store tells what it does beside its work.
    public var logger = Logger(label: "canopy.store") { _ in SwiftLogNoOpLogHandler() }
    /// Frames of the write-ahead log, of a page each, from which on it is copied into the database file: rarer than
    /// SQLite's 1,000, with a file of some 32 MB.
    var logFramesMax = 8_000
    /// Seconds since some moment, by a clock that never goes back.
    var uptime: @Sendable () -> Double = { ProcessInfo.processInfo.systemUptime }
    /// Called after every step of a checkpoint, for tests; an error that it throws ends the checkpoint.
    var afterStep: @Sendable () async throws -> Void = {}

    /// The defaults.
    public init() {}
  }

  let pool: DatabasePool
  let configuration: Configuration
  private let lock: FolderLock
  /// Nil if the folder is open for reading alone.
  let logCopier: LogCopier?
  let files: DatabaseFiles
  /// Whether the writing connection may be at a lower level of synchronisation than the configuration's.
  let isUnsynced = Mutex(false)
  /// The changes of on-disconnect writes that wait for the next transaction.
  let disconnectChanges = Mutex(
    DisconnectChangeQueue<DisconnectWaiter>())
  /// The end of what is stored durably, as `canopy.tail` has it.
  let tail: Mutex<Tail>
  let tailFile: TailFile
  /// The contents of `canopy.tail` when the folder was opened.
  let foundTail: TailFile.Contents?
  private let isReading: Bool

  /// The folder.
  public let folder: String

  /// What was stored and is not in the folder any more, a sentence each; nothing if all is well.
  public let losses: [String]

  /// Opens a data folder, creating what is missing.
  ///
  /// A file of an older version is brought up to date first, in O(size).
  ///
  /// - Throws: `StoreError`, whose sentence says what to do; also when commits were lost that a crash cannot
  ///   explain, unless the configuration accepts that.
  public init(folder: String, configuration: Configuration = Configuration()) throws {
    self.folder = folder
    self.configuration = configuration
    isReading = false
    do {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw StoreError.inaccessible(
        "the data folder \(folder) cannot be created: \(error.localizedDescription)")
    }
    try Opening.checkFiles(in: folder)
    lock = try FolderLock(folder: folder)
    tailFile = TailFile(folder: folder, isRelaxed: configuration.durability == .relaxed)
    foundTail = try tailFile.read()
    let opening = Opening(folder: folder, configuration: configuration, tail: foundTail)
    (pool, losses) = try opening.open()
    let logCopier = opening.logCopier()
    self.logCopier = logCopier
    logCopier.attach(to: pool)
    files = DatabaseFiles([folder + "/canopy.sqlite", folder + "/canopy.sqlite-wal"])
    if configuration.durability == .full { try files.synchronize() }
    let now = try opening.currentTail(pool)
    tail = Mutex(now)
    try tailFile.open()
    // Where a loss is still to be accepted, its traces stay until then.
    if !configuration.acceptsLoss { tailFile.write(now) }
  }

  /// Opens a data folder for reading alone. Nothing in it is changed, and it need not be writable.
  ///
  /// A folder that an older version wrote is brought up to date, and must be writable for that.
  ///
  /// - Throws: `StoreError`. Losses are in `losses`.
  public static func reading(_ folder: String) throws -> SQLiteStore {
    if let store = try SQLiteStore(readingCurrent: folder) { return store }
    guard access(folder, W_OK) == 0, access(folder + "/canopy.sqlite", W_OK) == 0 else {
      throw StoreError.inaccessible(
        "an older version wrote \(folder), which cannot be changed here: copy it to where it can be "
          + "written, so that it is brought up to date")
    }
    return try SQLiteStore(folder: folder)
  }

  /// Opens a folder of this version; nil if it is to be brought up to date first.
  private init?(readingCurrent folder: String) throws {
    self.folder = folder
    configuration = Configuration()
    isReading = true
    try Opening.checkFiles(in: folder)
    lock = try FolderLock(folder: folder, isReading: true)
    tailFile = TailFile(folder: folder, isRelaxed: false)
    foundTail = try tailFile.read()
    let opening = Opening(folder: folder, configuration: configuration, tail: foundTail)
    guard let opened = try opening.openForReading() else {
      lock.release()
      return nil
    }
    (pool, losses) = opened
    logCopier = nil
    files = DatabaseFiles([])
    tail = Mutex(Tail(sequence: 0, checksum: Checksum(), revision: 0, time: 0))
  }

  /// Closes the files and releases the folder.
  public func close() throws {
    defer {
      files.close()
      lock.release()
    }
    logCopier?.close()
    if !isReading {
      // So that a folder at rest is one file. A reader in another process may forbid it: no matter.
      try? pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
      tailFile.close()
    }
    try pool.close()
  }
}

extension SQLiteStore.Durability {
  var pragma: String {
    switch self {
    case .full: "FULL"
    case .relaxed: "NORMAL"
    }
  }
}
