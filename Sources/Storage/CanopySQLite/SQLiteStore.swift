internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import Dispatch
internal import Foundation
internal import GRDB
public import Logging
internal import Synchronization

/// A data folder: the journal, the checkpoint and the accounts, in one SQLite file.
///
/// SQLite runs in WAL mode. Asynchronous methods run their statements on GRDB's own queues. `append` and
/// `resolveAppend` are synchronous: they block the caller's thread until the disk has answered. The folder is locked
/// from opening until `close`, so that one process uses it at a time.
public final class SQLiteStore: Sendable {
  /// The point at which an append counts as stored.
  public enum Durability: String, Sendable, CaseIterable {
    /// An append is stored when it is on the disk. It survives a power failure.
    case full
    /// An append is stored when the operating system has it. It survives a crash of the process, but not a power failure.
    case relaxed
  }

  /// Settings of a store.
  public struct Configuration: Sendable {
    /// The point at which an append counts as stored.
    public var durability = Durability.full
    /// The maximum number of commits to keep after the checkpoint has them, for clients that resume listening.
    public var retainedCommits: Int64 = 100_000
    /// The age, in milliseconds before the last commit, up to which commits are kept.
    public var retainedMilliseconds: Int64 = 3_600_000
    /// The maximum number of bytes of these commits, as far as this process has appended them. The last commit always
    /// stays.
    public var retainedBytes: Int64 = 1024 * 1024 * 1024
    /// The maximum number of rows that one step of a checkpoint writes or looks up. No append begins during a step.
    public var checkpointStepRows = 256
    /// The maximum number of bytes that one step of a checkpoint writes or removes, except for its last row.
    public var checkpointStepBytes = 256 * 1024
    /// The maximum duration of one step of a checkpoint in seconds. The step finishes its last row.
    public var checkpointStepSeconds = 0.003
    /// The maximum number of distinct locations in one batch of a checkpoint. Each takes about 300 bytes of memory
    /// during the checkpoint.
    public var checkpointBatchLocations = 250_000
    /// The maximum number of rows with writes that clients may send again, which a start reads and a checkpoint keeps.
    var clientWritesMax = Limits.rememberedWritesMax
    /// Whether to open a folder even if commits or other changes were lost. Then `acceptLosses` must be called.
    public var acceptsLoss = false
    /// Whether a folder keeps the files that are replaced: those with damaged pages as `damaged-1.sqlite` if losses are
    /// accepted, and a database of an older version before its update.
    public var keepsFormerFiles = true
    /// The current time in milliseconds since 1970. If it is given, opening for writing refuses a time that keys cannot
    /// contain, because the keys would repeat.
    public var currentTime: Int64?
    /// Whether the folder is known to have had tables, so that a database without tables has lost them. A folder with
    /// `canopy.tail` or the administrator's token has had them in any case.
    public var hasBeenUsed = false
    /// Whether the next server that opens the folder must continue with new sequence numbers.
    var requiresNewNumbers = false
    /// Whether the folder is a copy that is removed when the store is closed.
    var isTemporary = false
    /// Whether opening for writing creates a folder or a database that is missing.
    public var createsFolder = true
    /// The log for losses, repairs and failures of background work.
    public var logger = Logger(label: "canopy.store") { _ in SwiftLogNoOpLogHandler() }
    /// The number of frames (pages) from which on the write-ahead log is copied into the database file: 8 MB. Appends wait
    /// while the disk synchronizes the copied pages. With 8,000 frames the longest time without a reply at full speed was
    /// 17 ms instead of 10.
    var logFramesMax = 2_000
    /// The number of frames of background steps from which on the log is copied: 4 MB. A checkpoint of large values
    /// writes them in a second, and a commit waits while the disk writes the copied frames.
    var logStepFramesMax = 1_000
    /// The number of bytes of background steps from which on the log is synchronized before the next step.
    var unsyncedBytesMax = 512 * 1024
    /// Returns the seconds since some fixed moment. It never goes back.
    var uptime: @Sendable () -> Double = { ProcessInfo.processInfo.systemUptime }
    /// Whether the log is repaired after an error of the disk. A test plants a defect with false.
    var repairsLog = true
    /// A hook for tests, called on the writing connection's queue before the pages are checked.
    var beforePageCheck: @Sendable () -> Void = {}
    /// A hook for tests, called at the end before the write-ahead log is cut.
    var beforeLogCut: @Sendable () -> Void = {}
    /// A hook for tests, called after every step of a checkpoint. An error that it throws ends the checkpoint.
    var afterStep: @Sendable () async throws -> Void = {}

    /// Creates the default settings.
    public init() {}
  }

  let pool: DatabasePool
  let configuration: Configuration
  private let lock: FolderLock
  /// The copier of the write-ahead log; nil if the folder is open for reading only.
  let logCopier: LogCopier?
  /// The queue that synchronizes the log after background steps.
  let syncQueue = DispatchQueue(label: "canopy.store.sync")
  let files: DatabaseFiles
  /// Whether the writing connection may have a lower level of synchronization than the configuration asks for.
  let isUnsynced = Mutex(false)
  /// Whether the last append failed because the disk had no room for it. See `resolveAppend`.
  let appendFoundFullDisk = Atomic(false)
  /// The error of the check of all pages; nil if it has found none or has not ended. See `startPageCheck`.
  let pageError = Mutex<StoreError?>(nil)
  /// The number of repairs that found steps of a checkpoint missing.
  let lostSteps = Atomic(0)
  /// The sizes of the appended commits.
  let appendedBytes = Mutex(AppendedBytes())
  /// The changes of on-disconnect writes that wait for the next transaction.
  let disconnectChanges = DisconnectChanges()
  /// The turns of transactions that change accounts, tokens or codes.
  let accountTurns = TurnQueue(width: 1)
  /// The end of the durable data, as in `canopy.tail`.
  let tail: Mutex<Tail>
  let tailFile: TailFile
  /// The contents of `canopy.tail` at the time of opening.
  let foundTail: TailFile.Contents?
  /// Whether `canopy.tail` was damaged at the time of opening, so that it could not prove which commits were stored.
  public let isTailDamaged: Bool
  private let isReading: Bool

  /// The path of the folder.
  public let folder: String

  /// One sentence for each loss that was found at opening; empty if nothing is missing.
  public let losses: [String]
  /// Whether the write-ahead log may have had later transactions that are lost.
  let hasLostLog: Bool

  /// Opens a data folder, and creates the folder and its files if they are missing.
  ///
  /// Updates a file of an older version first, in O(size).
  ///
  /// - Throws: `StoreError`, whose sentence says what to do. One reason is a loss of commits that a crash cannot
  ///   explain, unless the configuration accepts losses.
  public init(folder: String, configuration: Configuration = Configuration()) throws {
    self.folder = folder
    self.configuration = configuration
    isReading = false
    if let time = configuration.currentTime { try Opening.check(clock: time) }
    do {
      if configuration.createsFolder {
        try FileManager.default.createDirectory(
          atPath: folder, withIntermediateDirectories: true,
          attributes: [.posixPermissions: 0o700])
      }
    } catch {
      throw StoreError.inaccessible(
        "the data folder \(folder) cannot be created: \(error.localizedDescription)")
    }
    try Opening.checkFiles(in: folder)
    try Opening.checkWritable(folder)
    lock = try FolderLock(folder: folder)
    // The folder cannot be removed while it is locked.
    guard
      configuration.createsFolder || access(folder + "/canopy.sqlite", F_OK) == 0
        || access(folder + "/canopy.tail", F_OK) == 0
        || LogScan.exists(database: folder + "/canopy.sqlite")
    else { throw StoreError.withoutDatabase(folder) }
    tailFile = TailFile(folder: folder, isRelaxed: configuration.durability == .relaxed)
    foundTail = try tailFile.read()
    isTailDamaged = foundTail == nil && tailFile.exists
    let opening = Opening(folder: folder, configuration: configuration, tail: foundTail)
    let hasLeftLog = LogScan.exists(database: opening.path)
    let opened = try opening.open()
    (pool, losses, hasLostLog) = (opened.pool, opened.losses, opened.hasLostLog)
    let logCopier = opening.logCopier()
    self.logCopier = logCopier
    files = DatabaseFiles(
      [folder + "/canopy.sqlite", folder + "/canopy.sqlite-wal"], hasLeftLog: hasLeftLog)
    logCopier.attach(to: pool, files)
    do {
      try files.lock()
      let now = try opening.currentTail(pool)
      tail = Mutex(now)
      if configuration.acceptsLoss || configuration.durability == .relaxed {
        files.noteRepair(after: 0)
      } else {
        try repairLeftLog()
      }
      if configuration.durability == .full { try files.synchronize() }
      if isTailDamaged {
        configuration.logger.warning(
          "canopy.tail is damaged, so a loss of the last commits would not be noticed; it is written again"
        )
      } else if foundTail == nil, now.sequence > 0 {
        configuration.logger.notice(
          "there is no canopy.tail, as in an unpacked backup, so a loss of the last commits would not be noticed"
        )
      }
      if try needsNewNumbers(isNew: opened.isNew) { tailFile.set(.newNumbers) }
      tailFile.set(.rulesFile, try opening.hasRulesFile(pool))
      // The old contents, or that there is no file, are the evidence of a loss, and stay until the loss is accepted.
      if tailFile.exists || !configuration.acceptsLoss { try tailFile.open(creatingWith: now) }
      if !configuration.acceptsLoss { tailFile.write(now) }
      // Also with relaxed durability, because the file is the only trace of a loss of power.
      try tailFile.synchronize()
    } catch {
      // The pages are not checked yet.
      logCopier.close()
      Opening.closeKeepingLog(pool, of: opening.path)
      throw error
    }
    if !configuration.acceptsLoss { startPageCheck(opening) }
  }

  /// Opens a folder of this version; nil if the folder must be updated first.
  ///
  /// - Parameter hasBeenUsed: see `Configuration.hasBeenUsed`.
  init?(readingCurrent folder: String, hasBeenUsed: Bool) throws {
    self.folder = folder
    var configuration = Configuration()
    configuration.hasBeenUsed = hasBeenUsed
    self.configuration = configuration
    isReading = true
    try Opening.checkFiles(in: folder)
    lock = try FolderLock(folder: folder, isReading: true)
    tailFile = TailFile(folder: folder, isRelaxed: false)
    foundTail = try tailFile.read()
    isTailDamaged = foundTail == nil && tailFile.exists
    let opening = Opening(folder: folder, configuration: configuration, tail: foundTail)
    guard let opened = try opening.openForReading() else {
      lock.release()
      return nil
    }
    (pool, losses) = opened
    hasLostLog = false
    logCopier = nil
    files = DatabaseFiles([])
    tail = Mutex(Tail(sequence: 0, checksum: Checksum(), revision: 0, time: 0))
  }

  /// Closes the files and releases the folder.
  ///
  /// Copies the write-ahead log into the database file first. If the database file was replaced meanwhile, or the log was
  /// cut, the files stay as they are, and the log has a warning.
  ///
  /// - Throws: the error of the check of all pages, after which nothing was written; an error of SQLite.
  public func close() throws {
    defer {
      files.close()
      lock.release()
      if configuration.isTemporary { SQLiteStore.removeTemporary(folder) }
    }
    logCopier?.close()
    var keepingLog: DatabaseQueue?
    if !isReading {
      do throws(StoreError) {
        try files.prepareToEmptyLog()
        // Leaves one file without a log. A reader in another process may prevent that, which does no harm.
        keepingLog = emptyLogAtEnd()
        if keepingLog == nil, !LogScan.exists(database: folder + "/canopy.sqlite") {
          noteEmptyLog()
        }
      } catch {
        configuration.logger.warning(
          "the write-ahead log is kept, and not copied into the database file",
          metadata: ["error": "\(error.sentence)"])
      }
      tailFile.close()
    }
    files.unlock()
    try pool.close()
    try keepingLog?.close()
    do { try throwPageError() } catch {
      Opening.removePreparedLog(of: folder + "/canopy.sqlite")
      throw error
    }
  }

  /// Copies the write-ahead log into the database file, and cuts it to no bytes.
  ///
  /// - Parameter beforeCut: called when the disk has the whole log in the database file.
  func emptyLog(beforeCut: () -> Void = {}) throws {
    try pool.writeWithoutTransaction { db in
      try throwPageError()
      try notingErrors {
        try repairLog(db)
        let copied = try db.checkpoint(.full)
        if copied.checkpointedFrameCount == copied.walFrameCount { beforeCut() }
        _ = try db.checkpoint(.truncate)
      }
    }
    files.forgetLogSize()
  }

  /// Notes that the disk has everything in the database file. A later loss is damage, also after relaxed writes.
  private func noteEmptyLog() {
    // Until losses are accepted, the old contents of the file are their evidence.
    guard tailFile.has(.log) || !configuration.acceptsLoss else { return }
    tailFile.set([.log, .relaxed], false)
    tailFile.write(tail.withLock { $0 })
  }

  /// Empties the log before the files are closed.
  ///
  /// - Returns: a connection that must be closed after the others if the pages are damaged, or if the disk has failed and
  ///   the log is not repaired: see `Opening.keepLog`.
  private func emptyLogAtEnd() -> DatabaseQueue? {
    let path = folder + "/canopy.sqlite"
    for _ in 0..<2 {
      try? emptyLog {
        // A crash after the cut would leave no log, although the file said that there is one.
        noteEmptyLog()
        try? tailFile.synchronize()
        configuration.beforeLogCut()
      }
      if pageError.withLock({ $0 != nil }) {
        return LogScan.exists(database: path) ? Opening.keepLog(of: path) : nil
      }
      if files.unrepairedErrors == nil { return nil }
    }
    guard configuration.repairsLog else { return nil }
    configuration.logger.warning(
      "the write-ahead log is kept, and not copied into the database file, because the disk fails")
    return Opening.keepLog(of: path)
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
