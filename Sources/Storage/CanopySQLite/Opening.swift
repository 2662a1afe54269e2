internal import CanopyEngine
internal import CanopyRows
internal import CanopySystem
internal import Foundation
internal import GRDB
internal import GRDBSQLite
internal import Logging

/// The opening of a folder's database: finds the losses, refuses or accepts them, and updates older versions.
struct Opening {
  let path: String
  let folder: String
  let configuration: SQLiteStore.Configuration
  let tail: TailFile.Contents?

  init(folder: String, configuration: SQLiteStore.Configuration, tail: TailFile.Contents?) {
    self.folder = folder
    path = folder + "/canopy.sqlite"
    self.configuration = configuration
    self.tail = tail
  }

  /// An open database.
  struct Opened {
    let pool: DatabasePool
    /// One sentence for each loss, which the configuration accepts.
    let losses: [String]
    /// Whether the write-ahead log may have had later transactions that are lost.
    let hasLostLog: Bool
    /// Whether there were no tables, so that this opening has made them.
    let isNew: Bool
  }

  /// Opens the database for writing. Also returns the losses that the configuration accepts.
  ///
  /// The pages are not checked yet, unless losses are accepted or the file is of an older version. So nothing may be
  /// written before `refuseDamagedPages` has succeeded.
  ///
  /// - Throws: `StoreError`. Nothing was changed if the error is a loss.
  func open() throws(StoreError) -> Opened {
    do {
      try refuseForeignJournal()
      removeRests()
      var found = FoundFiles(self)
      var lostWithLog: [String] = []
      var notesOfOlderLog: [String] = []
      if configuration.acceptsLoss {
        try correctLog(&found)
        lostWithLog = try removeOutdatedLog(&found)
        notesOfOlderLog = try removeOlderLog(&found)
      }
      // Opening the database would copy the log into it, so the log is scanned first.
      let scan = try LogScan.scan(database: path)
      // The file has a log already, so a loss of power has undone the removal of the journal.
      if scan != nil, hasFirstJournal { unlink(path + "-journal") }
      try correctHead(scan, &found)
      let damagedHead = try replaceDamagedHead(scan, &found)
      var salvaged: [String]?
      var hasLog = scan != nil
      var losses: [String] = []
      do {
        if damagedHead != nil { try refuseShortLog() }
        if configuration.acceptsLoss {
          salvaged =
            try correctDefinitions(hasLog: hasLog, &found) ?? salvage(hasLog: hasLog, &found)
        }
        hasLog = hasLog && salvaged == nil
        if hasLog { losses = try olderLog(scan).map { [$0.loss] } ?? inspect(scan) }
        try refuse(losses)
      } catch {
        // The file may be another one by now, or have the pages of the log.
        if !found.areChanged { damagedHead?.restore() }
        throw error
      }
      var isOpen = false
      // After an error all connections are closed.
      defer { if !isOpen { Opening.removePreparedLog(of: path) } }
      if !hasLog { try prepareLog() }
      let pool = try openPool()
      let isNew: Bool
      do {
        if !hasLog {
          losses = try pool.read { try self.losses($0, scan) }
          try refuse(losses)
        }
        isNew = try pool.read { try Schema.version($0) } == .empty
        if isNew, let lost = try lossOfTables() {
          try refuse([lost])
          losses.append(lost)
        }
        try bringUpToDate(pool)
        try checkTimes(pool)
      } catch {
        // A check of the pages computes what definitions say, so it needs those of this program.
        guard error as? StoreError != .alteredDefinition(in: path) else {
          Opening.closeKeepingLog(pool, of: path)
          throw error
        }
        // Damaged pages are named first, whatever else they have led to.
        let checked = Result { try pool.read { try refuseDamagedPages($0) } }
        Opening.closeKeepingLog(pool, of: path)
        if !configuration.acceptsLoss, case .failure(let damage as StoreError) = checked {
          throw damage
        }
        throw error
      }
      losses += lostWithLog + notesOfOlderLog + (salvaged ?? [])
      isOpen = true
      let hasLostLog =
        !lostWithLog.isEmpty || isLogMissing(scan)
        || !isTailCurrent && (scan?.lostTransactions ?? 0) > 0
      return Opened(pool: pool, losses: losses, hasLostLog: hasLostLog, isNew: isNew)
    } catch {
      throw storeError(error)
    }
  }

  /// Opens the database for reading only; nil if an older version of Canopy wrote it.
  ///
  /// - Throws: `StoreError`. An interrupted first start is no damage and no older version: it is `unstarted`.
  func openForReading() throws(StoreError) -> (DatabasePool, losses: [String])? {
    do {
      try refuseForeignJournal()
      let scan = try LogScan.scan(database: path)
      let head = try DatabaseHead(path)
      try refuseDamagedHead(head, scan)
      guard head.isSound, !hasFirstJournal else { throw StoreError.unstarted(in: folder) }
      if let loss = olderLog(scan)?.loss { throw StoreError.damaged(loss) }
      let pool = try readingPool(hasLog: scan != nil)
      do {
        let version = try checkProgram(pool)
        if version == .empty { _ = try lossOfTables() }
        let losses = try pool.read { db -> [String]? in
          let state = try checksumState(db)
          if state == .damaged || state == .complete && version == .current {
            return try self.losses(db, scan)
          }
          if try isUnstarted(db) { throw StoreError.unstarted(in: folder) }
          return nil
        }
        if let losses { return (pool, losses) }
      } catch {
        try? pool.close()
        throw error
      }
      try pool.close()
      return nil
    } catch {
      throw storeError(error)
    }
  }

  /// Returns the end of the stored data.
  func currentTail(_ pool: DatabasePool) throws(StoreError) -> Tail {
    do {
      return try pool.read { db in
        // Numbers that are not proven would stay in `canopy.tail`. The repair raises those of the tail.
        let meta = configuration.acceptsLoss ? (try? Meta.read(db)) : try Meta.readUnchecked(db)
        let last =
          configuration.acceptsLoss
          ? (try? CommitRow.last(db)) ?? (sequence: 0, checksum: Checksum())
          : try CommitRow.last(db)
        return Tail(
          sequence: last.sequence, checksum: last.checksum,
          revision: meta?[.revision] ?? tail?.tail.revision ?? 0,
          time: max(meta?.keyTime ?? 0, tail?.tail.time ?? 0))
      }
    } catch {
      throw storeError(error)
    }
  }

  private func storeError(_ error: any Error) -> StoreError {
    error as? StoreError ?? StoreError.opening(path, error)
  }

  private func refuse(_ losses: [String]) throws(StoreError) {
    guard let loss = losses.first else { return }
    guard configuration.acceptsLoss else { throw .damaged(loss) }
    for loss in losses { configuration.logger.warning("the loss is accepted: \(loss)") }
  }

  /// The files that a folder can have, apart from those of other modules.
  private static let fileNames = [
    "canopy.sqlite", "canopy.sqlite-wal", "canopy.sqlite-shm", "canopy.sqlite-journal",
    "canopy.tail", "lock",
  ]

  /// Checks that those files of a folder that exist are regular files with one name each.
  ///
  /// Through a symbolic or a hard link two folders could share a database, each with a lock of its own. SQLite keeps its
  /// log beside the name, so each of two servers would lose commits of the other. Opening a pipe would wait forever.
  ///
  /// - Throws: `StoreError.inaccessible`.
  static func checkFiles(in folder: String) throws(StoreError) {
    for name in fileNames {
      let path = folder + "/" + name
      var status = stat()
      guard lstat(path, &status) == 0 else { continue }
      guard status.st_mode & S_IFMT == S_IFREG else {
        throw .inaccessible(
          "\(path) is not a regular file: put the file itself there, or name the folder that contains it"
        )
      }
      guard status.st_nlink <= 1 else { throw .linked(path) }
    }
  }

  /// Checks that the folder and those of its files that exist can be written.
  ///
  /// SQLite opens a file that it cannot write for reading only, and then every write would fail, one after the other.
  ///
  /// - Parameter canWrite: whether the process may write a file or a folder.
  /// - Throws: `StoreError.inaccessible`, with the name of the file.
  static func checkWritable(
    _ folder: String, canWrite: (String) -> Bool = { access($0, W_OK) == 0 }
  ) throws(StoreError) {
    for path in [folder] + fileNames.map({ folder + "/" + $0 }) {
      guard access(path, F_OK) == 0, !canWrite(path) else { continue }
      throw .inaccessible(
        "\(path) cannot be written: check its owner and its permissions, and whether the disk is mounted "
          + "for reading only")
    }
  }

  // MARK: Losses

  /// Refuses a file whose first page was replaced by that of the log, if the log does not contain all other pages that
  /// the file does not have.
  private func refuseShortLog() throws {
    let pool = try readingPool(hasLog: true)
    defer { try? pool.close() }
    let problems = try? pool.read { try String.fetchAll($0, sql: "PRAGMA quick_check") }
    guard problems?.elementsEqual(["ok"]) == true else {
      throw StoreError.damaged(
        "\(path) is damaged, and the write-ahead log does not contain all of its pages: restore the data "
          + "folder from a backup")
    }
    configuration.logger.warning(
      "the database file was damaged, and is restored from the write-ahead log")
  }

  /// Returns the losses of a database that was not closed properly. Changes neither the database nor its log.
  private func inspect(_ scan: LogScan?) throws -> [String] {
    let pool = try readingPool(hasLog: true)
    defer { try? pool.close() }
    _ = try checkProgram(pool)
    return try pool.read { try losses($0, scan) }
  }

  /// Returns a sentence for each loss of durable data, or the damage that prevents finding the losses.
  private func losses(_ db: Database, _ scan: LogScan?) throws -> [String] {
    do { return try findLosses(db, scan) } catch let error as StoreError { return [error.sentence] }
  }

  private func findLosses(_ db: Database, _ scan: LogScan?) throws -> [String] {
    // With relaxed durability, a power failure may lose the last commits.
    if let tail, tail.allowsLoss {
      let last = (try? CommitRow.last(db).sequence) ?? 0
      if tail.tail.sequence > last {
        configuration.logger.warning(
          "a loss of power has taken the last commits, which relaxed durability allows",
          metadata: ["commits": "\(tail.tail.sequence - last)"])
      }
      return []
    }
    // A first start that was interrupted has acknowledged nothing, so a torn end of its log is no loss. Its tables are in
    // the log only; a file with tables may have had commits in the log.
    let isFirstStart =
      try tail == nil && DatabaseHead.hasFirstPageOnly(path, openIn: db) && isUnstarted(db)
    let logLosses = isFirstStart ? [] : logLosses(scan)
    switch try checksumState(db) {
    case .complete: break
    case .damaged: throw StoreError.damagedMeta
    case .missing:
      return tail.map {
        [
          "\(path) does not contain the \($0.tail.sequence) commits that were stored: \(StoreError.waysOut)"
        ]
      } ?? logLosses
    }
    try SequenceRange.check(db)
    let last = try CommitRow.last(db)
    let meta = try Meta.read(db)
    var losses: [String] = []
    // With the same number of changes, `canopy.tail` was written at the change of this number or later.
    let isTailNewer = tail.map { $0.tail.revision >= meta[.revision] } ?? false
    // The last commit of the checkpoint always stays in the journal.
    let stored = max(
      tail?.tail.sequence ?? 0, isTailNewer ? 0 : meta.lastCommit, meta[.checkpoint])
    if stored > last.sequence {
      let first = last.sequence + 1
      let missing =
        first == stored
        ? "commit \(first), which was stored, is missing"
        : "the commits \(first) to \(stored), which were stored, are missing"
      losses.append("\(missing): \(StoreError.waysOut)")
    }
    guard let tail = tail?.tail else { return losses.isEmpty ? logLosses : losses }
    if losses.isEmpty, tail.sequence >= meta[.base],
      try CommitRow.chain(db, after: tail.sequence) != tail.checksum
    {
      losses.append(
        "commit \(tail.sequence) is not the one that was stored: \(StoreError.waysOut)")
    }
    let revision = meta[.revision]
    if tail.revision > revision {
      losses.append(
        "\(tail.revision - revision) changes to accounts, sessions or on-disconnect writes that were "
          + "stored are missing: \(StoreError.waysOut)")
    }
    if losses.isEmpty, isLogMissing(scan) {
      return [
        "the write-ahead log \(path)-wal, which had the last transactions, is missing (if a program such as sqlite3 has "
          + "copied it into canopy.sqlite, nothing is lost: move canopy.tail out of the data folder): \(StoreError.waysOut)"
      ]
    }
    guard let scan, losses.isEmpty, scan.lostTransactions > 0 else { return losses }
    // Until the system is restarted, `canopy.tail` is that of the last durable transaction.
    if isTailCurrent || !hasLostDurably(scan, after: last.sequence, revision) {
      configuration.logger.warning(
        "the write-ahead log ends with unreadable transactions; no confirmed write is missing",
        metadata: ["transactions": "\(scan.lostTransactions)"])
      return []
    }
    return logLosses
  }

  /// Whether `canopy.tail` is that of the last durable transaction. A loss of power may leave an older version.
  var isTailCurrent: Bool { tail?.isOfThisBoot ?? false }

  /// Whether there is no log although it had durable transactions, and the file may not have them. If `canopy.tail` is
  /// current, it shows whether the file has them.
  private func isLogMissing(_ scan: LogScan?) -> Bool {
    guard let tail, !tail.isOfThisBoot else { return false }
    return tail.marks.contains(.log) && scan == nil
  }

  /// Whether there is a file of rules, as far as the database and `canopy.tail` show it.
  func hasRulesFile(_ pool: DatabasePool) throws -> Bool {
    let record = try? pool.read { try SQLiteStore.rulesRecord($0) }
    return record?.origin == .file
      || configuration.acceptsLoss && tail?.marks.contains(.rulesFile) ?? false
  }

  /// Whether the log has two durable transactions behind its damage. A durable transaction begins when the one before it
  /// is on the disk. So a loss of power can tear the last one, and steps of a checkpoint before it, but not two.
  private func hasLostDurably(_ scan: LogScan, after sequence: Int64, _ revision: Int64) -> Bool {
    DurableChange.count(in: scan.lostChanges, after: sequence, revision) > 1
  }

  /// Returns the loss that the log itself proves, if there is one.
  private func logLosses(_ scan: LogScan?) -> [String] {
    guard let scan, scan.lostTransactions > 0 else { return [] }
    return [
      "the write-ahead log is damaged after \(scan.transactions) transactions, and the "
        + "\(scan.lostTransactions) after that may be lost: \(StoreError.waysOut)"
    ]
  }

  // MARK: Connections

  /// Creates the copier of the write-ahead log.
  func logCopier() -> LogCopier {
    LogCopier(
      path: path, settings: settings, framesMax: configuration.logFramesMax,
      stepFramesMax: configuration.logStepFramesMax, logger: configuration.logger)
  }

  var settings: GRDB.Configuration {
    var settings = GRDB.Configuration()
    settings.label = "canopy.store"
    settings.maximumReaderCount = 2
    settings.busyMode = .timeout(5)
    settings.prepareDatabase { $0.add(function: SealedTable.function) }
    return settings
  }

  private func openPool() throws -> DatabasePool {
    let pool = try DatabasePool(path: literalPath(path), configuration: settings)
    try checkProgram(pool)
    try pool.writeWithoutTransaction { db in
      // SQLite reports the mode before it writes it, and GRDB does not see an error of that write.
      guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else {
        throw StoreError.inaccessible(
          "\(path) cannot be opened: the disk failed when the file was created; check the disk, and try again"
        )
      }
      // GRDB sets NORMAL for a pool, and then a power failure may lose commits.
      try db.execute(sql: "PRAGMA synchronous = \(configuration.durability.pragma)")
      // See `LogCopier`.
      try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
      // Some builds of SQLite overwrite each freed page with zeros. To remove a row of 900 KB would then write 900 KB
      // to the log. FAST overwrites removed bytes only in pages that are written anyway.
      try db.execute(sql: "PRAGMA secure_delete = FAST")
      // 8 MiB suffice, because a checkpoint visits the leaves in order. A larger cache would be slower: with each
      // commit that inserts rows between others, SQLite searches the whole cache.
      try db.execute(sql: "PRAGMA cache_size = -8192")
    }
    return pool
  }

  /// Opens the database without writing to it or its log, and without creating a file.
  ///
  /// SQLite usually keeps an index of the log in a file that processes share, and locks both. The folder is locked, so no
  /// other process uses it, and the index is in memory instead.
  ///
  /// - Parameters:
  ///   - other: the path of another database; nil for that of the folder.
  ///   - hasLog: whether to read the log. Without it, the file is read as it is.
  ///   - toleratesDefinitions: whether definitions of tables may be invalid. Their tables are then missing.
  func readingPool(
    _ other: String? = nil, hasLog: Bool, toleratesDefinitions: Bool = false
  ) throws -> DatabasePool {
    let path = other ?? path
    var settings = settings
    settings.readonly = true
    settings.prepareDatabase { db in
      // Otherwise SQLite removes an empty log when the connection is closed.
      var isKept: Int32 = 1
      let code = sqlite3_file_control(
        db.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &isKept)
      guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
    if hasLog {
      settings.prepareDatabase { try $0.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
    }
    if toleratesDefinitions {
      settings.prepareDatabase { try Opening.tolerateDefinitions($0) }
    }
    guard sqlite3_compileoption_used("USE_URI") != 0 else {
      return try DatabasePool(path: literalPath(path), configuration: settings)
    }
    let allowed = CharacterSet.alphanumerics.union(CharacterSet(charactersIn: "/-._~"))
    let encoded = path.addingPercentEncoding(withAllowedCharacters: allowed) ?? path
    // Without a log the file cannot change.
    let options = hasLog ? "vfs=unix-none" : "immutable=1"
    // An empty authority. Otherwise SQLite would take the first name of a path with two slashes for one.
    let address = (path.utf8.first == UInt8(ascii: "/") ? "file://" : "file:") + encoded
    return try DatabasePool(path: "\(address)?mode=ro&\(options)", configuration: settings)
  }
}
