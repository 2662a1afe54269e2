internal import Foundation
internal import GRDB
internal import Synchronization

/// A data folder: the journal, the checkpoint and the accounts, in one SQLite file.
///
/// SQLite runs in WAL mode. Statements run on GRDB's own queues, not on the caller's executor, but for `append`.
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
  /// The files that every transaction needs, as they were when they were opened.
  private let files: [FileIdentity]
  /// Whether the writing connection may be at a lower level of synchronisation than the configuration's.
  let isUnsynced = Mutex(false)

  /// The folder.
  public let folder: String

  /// Opens a data folder, creating what is missing.
  ///
  /// - Throws: `StoreError`, whose sentence says what to do.
  public init(folder: String, configuration: Configuration = Configuration()) throws {
    self.folder = folder
    self.configuration = configuration
    do {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw StoreError.inaccessible(
        "the data folder \(folder) cannot be created: \(error.localizedDescription)")
    }
    lock = try FolderLock(folder: folder)
    let path = folder + "/canopy.sqlite"
    do {
      try SQLiteStore.checkNotLost(path, folder)
      pool = try SQLiteStore.open(path, configuration)
      files = ["canopy.sqlite", "canopy.sqlite-wal"].compactMap { [lock] in lock.identity(of: $0) }
    } catch let error as StoreError {
      throw error
    } catch {
      throw StoreError.opening(path, error)
    }
  }

  /// A missing or empty file beside traces of an earlier one is a loss, not a beginning: SQLite would
  /// make a new file, and drop the commits that are still in the write-ahead log.
  private static func checkNotLost(_ path: String, _ folder: String) throws {
    let files = FileManager.default
    func size(_ path: String) -> Int? {
      (try? files.attributesOfItem(atPath: path))?[.size] as? Int
    }
    guard size(path) ?? 0 == 0 else { return }
    let hasLog = size(path + "-wal") ?? 0 > 0
    guard hasLog || files.fileExists(atPath: folder + "/admin-token") else { return }
    throw StoreError.damaged(
      "\(path) is missing or empty, but the folder has been used: restore the file from a backup, or "
        + "name another data folder")
  }

  private static func open(_ path: String, _ configuration: Configuration) throws -> DatabasePool {
    var settings = GRDB.Configuration()
    settings.label = "canopy.store"
    settings.maximumReaderCount = 2
    settings.busyMode = .timeout(5)
    let pool = try DatabasePool(path: path, configuration: settings)
    try pool.writeWithoutTransaction { db in
      let id = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
      let tables = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") ?? 0
      guard id == Schema.applicationID || tables == 0 else {
        throw StoreError.damaged(
          "\(path) is a database of another program; name another data folder")
      }
      if try Schema.migrator.hasBeenSuperseded(db) {
        throw StoreError.newerSchema(
          "\(path) was written by a newer version of Canopy; run that version, or restore a backup "
            + "made with this one")
      }
      // GRDB sets NORMAL for a pool, which a power cut may cost commits.
      try db.execute(sql: "PRAGMA synchronous = \(configuration.durability.pragma)")
      // Copying the WAL back is a pause: rarer than SQLite's 1,000 pages, with a bounded file.
      try db.execute(sql: "PRAGMA wal_autocheckpoint = 8000")
      // 8 MiB are plenty, as a checkpoint goes through the leaves in order. More would be worse: where
      // rows come in between others, SQLite looks through all its cache with every commit.
      try db.execute(sql: "PRAGMA cache_size = -8192")
    }
    try Schema.migrator.migrate(pool)
    // A file that others may read would give them the tree and the hashes.
    for suffix in ["", "-wal", "-shm"] { chmod(path + suffix, 0o600) }
    return pool
  }

  /// Checks that the database file and its log still have their names, so that a later start finds them.
  ///
  /// - Throws: `StoreError.inaccessible`.
  func checkFilesRemain() throws(StoreError) {
    for file in files where lock.identity(of: file.name) != file {
      throw .inaccessible(
        "\(folder)/\(file.name) was removed or replaced while the server was running, so nothing more can "
          + "be stored: stop the server, and restore the data folder from a backup")
    }
  }

  /// Closes the file and gives the folder free.
  public func close() throws {
    defer { lock.release() }
    // So that a folder at rest is one file. A reader in another process may forbid it: no matter.
    try? pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
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
