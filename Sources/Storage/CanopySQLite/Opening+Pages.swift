internal import CanopySystem
internal import Foundation
internal import GRDB
internal import Logging

/// Checks of the pages of a database before the first write.
///
/// SQLite gives the pages of its list of free pages to new rows. If a damaged list has a page in use, these rows would
/// take the place of others. So nothing is written before the structure of all pages is checked, and that each is in use
/// once or free once.
extension Opening {
  /// Prepares a file without a write-ahead log for a connection that can write, so that opening it changes nothing.
  ///
  /// GRDB creates and removes a table if the log is missing or empty, which would write to pages that are not checked yet.
  /// One byte is no log for SQLite, which overwrites it with the first transaction and otherwise removes the file. A file
  /// that is not in WAL mode is changed by opening it in any case, so its pages are checked here.
  func prepareLog() throws {
    let head = try DatabaseHead(path)
    guard !head.isEmpty else { return }
    guard head.isInLogMode, !hasFirstJournal else {
      guard !configuration.acceptsLoss else { return }
      let reader = try readingPool(hasLog: false)
      let found = Result {
        try reader.read { db in
          // A check of the pages computes what definitions say.
          try checkProgram(db)
          try refuseDamagedPages(db)
        }
      }
      try reader.close()
      return try found.get()
    }
    let file = Foundation.open(path + "-wal", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { throw StoreError.unopenable(path + "-wal", errno) }
    defer { close(file) }
    guard pwrite(file, [UInt8(0)], 1, 0) == 1 else {
      throw StoreError.unopenable(path + "-wal", errno)
    }
  }

  /// Removes the file that `prepareLog` has created, if it still has no header. Precondition: no connection is open.
  static func removePreparedLog(of path: String) {
    if !LogScan.exists(database: path) { unlink(path + "-wal") }
  }

  /// Checks the structure of all pages, and that each is in use once or free once. O(size of the file), but without
  /// computing checksums.
  ///
  /// - Throws: `StoreError.damaged` if they are not; an error of SQLite if it cannot check them.
  func refuseDamagedPages(_ db: Database) throws {
    guard let problem = try Opening.pageProblem(db, "quick_check") else { return }
    throw StoreError.damagedPages(of: path, problem)
  }

  /// Returns the first problem that a check of SQLite finds, or nil.
  static func pageProblem(_ db: Database, _ check: String) throws -> String? {
    let lines = try String.fetchAll(db, sql: "PRAGMA \(check)(1)")
    guard !lines.elementsEqual(["ok"]) else { return nil }
    let text = lines.joined(separator: " ").utf8.map { $0 == UInt8(ascii: "\n") ? 0x20 : $0 }
    return String(decoding: text, as: UTF8.self)
  }

  /// Returns the first problem of pages, rows or indexes, or nil.
  private func integrityProblem(_ db: Database) throws -> String? {
    do { return try Opening.pageProblem(db, "integrity_check") } catch let error as DatabaseError
      where error.resultCode == .SQLITE_CORRUPT
    { return error.message ?? "malformed" }
  }

  /// Refuses a database file without bytes that has a log. When any connection opens such a database, also one that cannot
  /// write, SQLite removes the log, which may have the only copy of the data.
  ///
  /// - Throws: `StoreError.damaged`.
  static func refuseEmptied(_ path: String) throws(StoreError) {
    var status = stat()
    // Only the size: closing a descriptor of the file would release the locks that SQLite has on it.
    guard stat(path, &status) == 0, status.st_size == 0, LogScan.exists(database: path) else {
      return
    }
    throw .damaged(
      "\(path) is empty, and its write-ahead log \(path)-wal has data: \(StoreError.waysOut)")
  }

  /// Opens a connection that cannot write, and that is closed after all others. The last connection of SQLite would copy
  /// the log into the database file and remove it.
  static func keepLog(of path: String) -> DatabaseQueue? {
    guard (try? refuseEmptied(path)) != nil else { return nil }
    var settings = GRDB.Configuration()
    settings.label = "canopy.store.kept"
    settings.readonly = true
    let queue = try? DatabaseQueue(path: literalPath(path), configuration: settings)
    // The first statement opens the log.
    _ = try? queue?.read { try Schema.tableCount($0) }
    return queue
  }

  /// Closes the connections without copying the log into the database file. Removes a log that has no header.
  static func closeKeepingLog(_ pool: DatabasePool, of path: String) {
    let log = LogScan.exists(database: path) ? keepLog(of: path) : nil
    try? pool.close()
    try? log?.close()
    removePreparedLog(of: path)
  }

  /// Writes all rows that can be read into a new file, if the pages are damaged, rows are out of order or an index
  /// differs from its table. Keeps the damaged file beside it, unless the configuration says otherwise. See `Salvage`.
  ///
  /// SQLite cannot correct such a file in place: to change a row, it searches for it and for its entries in all
  /// indexes.
  ///
  /// - Parameter definitions: those of the new file, which is then written in any case; nil for those of the damaged file.
  /// - Returns: a sentence for each table that has lost rows; nil if the file is sound, and as before.
  /// - Throws: any error, such as that of a full disk. Then the file is as before.
  func salvage(
    hasLog: Bool, with definitions: [Definition]? = nil, _ found: inout FoundFiles
  ) throws -> [String]? {
    guard try !DatabaseHead(path).isEmpty, !hasFirstJournal else { return nil }
    let work = salvagedPath
    unlink(work)
    defer { unlink(work) }
    let reader: DatabasePool
    do { reader = try readingPool(hasLog: hasLog) } catch let error as DatabaseError
      where error.resultCode == .SQLITE_CORRUPT
    {
      // A connection reads the definitions first.
      throw StoreError.damagedDefinitions(of: path, error)
    }
    // Without a transaction: after an error SQLite would not end it. The folder is locked, so nothing changes meanwhile.
    let result = Result { try reader.unsafeRead { try salvage($0, to: work, definitions) } }
    try reader.close()
    guard let lost = try result.get() else { return nil }
    try found.keep()
    try replace(by: work, hasLog: hasLog)
    for sentence in lost { configuration.logger.warning("the loss is accepted: \(sentence)") }
    configuration.logger.notice("all rows that can be read are in a new file")
    return lost
  }

  /// The path of the new file before it has its name.
  private var salvagedPath: String { folder + "/.salvaged.sqlite" }

  /// Removes the files that a start which was killed has left.
  func removeRests() {
    unlink(salvagedPath)
    FoundFiles.remove(FoundFiles.work(in: folder))
    for name in [Opening.oldVersionWork, Opening.correctedWork] {
      try? FileManager.default.removeItem(atPath: folder + "/" + name)
    }
  }

  /// Puts a new file in the place of the database and its log.
  ///
  /// A log beside another database would damage it, so the log is removed first. Before that, it is copied into the old
  /// file. So a crash before the new file has its name loses no commit.
  ///
  /// - Parameter beforeRenaming: a hook for tests, called when the log is removed.
  func replace(
    by work: String, hasLog: Bool, beforeRenaming: () throws -> Void = {}
  ) throws {
    if hasLog { try copyLog() }
    for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
    try beforeRenaming()
    guard FileCalls.renameFile(work, to: path) == 0 else {
      throw StoreError.unopenable(path, errno)
    }
    try synchronizeFolder()
  }

  /// Copies all frames of the log into the database file, and waits until the disk has them.
  func copyLog() throws {
    let connection = try PlainConnection(path)
    try connection.execute("PRAGMA synchronous = FULL")
    // SQLite copies no log into a file that is much too short.
    try DatabaseHead.extend(path, toPages: connection.pageCount())
    try connection.emptyLog()
  }

  private func salvage(
    _ source: Database, to work: String, _ definitions: [Definition]?
  ) throws -> [String]? {
    let id = try Int32.fetchOne(source, sql: "PRAGMA application_id")
    guard id == Schema.applicationID else { return nil }
    if definitions == nil {
      do {
        guard try Schema.hasKnownDefinitions(source) else {
          try checkProgram(source)
          throw StoreError.beyondRepair(.alteredDefinition(in: path))
        }
      } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
        throw StoreError.damagedDefinitions(of: path, error)
      }
      guard let problem = try integrityProblem(source) else { return nil }
      configuration.logger.warning("the pages are damaged: \(problem)")
    }
    let queue = try SQLiteStore.unjournaled(work, label: "canopy.store.salvaged")
    let lost = Result {
      try queue.writeWithoutTransaction { target in
        var lost: [String] = []
        try target.inTransaction {
          var salvage = Salvage(path: path, from: source, to: target)
          lost = try salvage.run(with: definitions)
          try checkProgram(target)
          return .commit
        }
        return lost
      }
    }
    try queue.close()
    let result: [String]
    do { result = try lost.get() } catch { throw StoreError.copying(to: work, error) }
    // Otherwise the next connection would change the mode with a rollback journal, which no start takes after a crash.
    try DatabaseHead(work).enterLogMode()
    try synchronizeFile(work)
    return result
  }

  /// Waits until the disk has a file.
  func synchronizeFile(_ path: String) throws(StoreError) {
    let file = Foundation.open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw .unopenable(path, errno) }
    defer { close(file) }
    guard fsync(file) == 0 else {
      throw .inaccessible(
        "\(path) cannot be written to the disk: \(String(cString: strerror(errno)))")
    }
  }

  /// Waits until the disk has the names of the files in the folder.
  func synchronizeFolder() throws(StoreError) {
    do throws(FileError) { try AtomicFile.synchronizeFolder(of: path) } catch {
      throw .unopenable(folder, error.code)
    }
  }
}
