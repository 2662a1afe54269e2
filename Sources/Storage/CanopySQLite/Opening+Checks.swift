internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Logging

/// The checks of the first page, the version and the times of a folder.
extension Opening {
  /// Refuses a database file that does not begin as a database does, and a missing or empty one in a folder that has
  /// been used. SQLite would create a new file, and discard the commits that are still in the write-ahead log.
  func refuseDamagedHead(_ head: DatabaseHead, _ scan: LogScan?) throws(StoreError) {
    guard !head.isSound else { return }
    guard !head.isDatabase else { throw .damagedHead(of: path) }
    let canUseLog = scan?.firstPage.map(DatabaseHead.isFirstPage) ?? false
    let log =
      canUseLog
      ? ", or run canopy serve --accept-loss, which continues if the write-ahead log has all pages that the file lacks"
      : ""
    guard head.isEmpty else {
      throw .damaged(
        "\(path) is damaged or is not a Canopy database (it does not begin as a database does): restore it "
          + "from a backup, or move the data folder away to begin with an empty one" + log)
    }
    guard scan != nil || hasTrace else { return }
    throw .damaged(
      "\(path) is missing or empty, but the folder has been used: restore the file from a backup, or "
        + "name another data folder" + log)
  }

  /// Whether the folder is known to have been used, or has a file that a start creates after the tables.
  private var hasTrace: Bool {
    configuration.hasBeenUsed
      || ["admin-token", "canopy.tail"].contains {
        FileManager.default.fileExists(atPath: folder + "/" + $0)
      }
  }

  /// Whether the first start was interrupted while the file became one with a write-ahead log. Only then it has a rollback
  /// journal, without which it cannot be read.
  var hasFirstJournal: Bool {
    !hasTrace && FileManager.default.fileExists(atPath: path + "-journal")
  }

  /// Refuses a rollback journal that no start of this program can have left.
  ///
  /// SQLite writes the pages of a journal into the database when it opens it for writing, cuts the database to the size in
  /// the journal, and removes a file that the journal names as that of several databases. Only the first transaction of a
  /// new database has a journal: the file has no more than its first page then, and is the only one. The log of a
  /// database with more takes the place of a journal.
  ///
  /// - Throws: `StoreError.damaged`, also if losses are accepted: the journal is not of this folder.
  func refuseForeignJournal() throws(StoreError) {
    let journal = path + "-journal"
    guard access(journal, F_OK) == 0 else { return }
    let isFirst: Bool
    do {
      let head = try DatabaseHead(path)
      isFirst =
        try !hasTrace && !endsWithNameOfOther(journal)
        && (head.hasFirstPageOnly || LogScan.scan(database: path) != nil)
    } catch { throw .inaccessible("\(journal) cannot be read: \(error.localizedDescription)") }
    guard !isFirst else { return }
    throw .damaged(
      "\(journal) is not of this database, and SQLite would change the database by it: move the file out of the data "
        + "folder, and look where it comes from")
  }

  /// Whether a journal ends with the name of another one, whose removal would end the transaction of several databases.
  private func endsWithNameOfOther(_ journal: String) throws -> Bool {
    let handle = try FileHandle(forReadingFrom: URL(filePath: journal))
    defer { try? handle.close() }
    let size = try handle.seekToEnd()
    guard size >= UInt64(Opening.journalMagic.count) else { return false }
    try handle.seek(toOffset: size - UInt64(Opening.journalMagic.count))
    return try handle.readToEnd()?.elementsEqual(Opening.journalMagic) ?? false
  }

  /// The bytes with which a journal begins, and which follow the name of a journal of several databases at its end.
  private static let journalMagic: [UInt8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]

  /// Whether the first start of a server was interrupted before it had made all tables, and nothing is stored.
  func isUnstarted(_ db: Database) throws -> Bool {
    guard !hasTrace else { return false }
    return try ["commits", "leaves", "accounts"].allSatisfy { table in
      guard try db.tableExists(table) else { return true }
      return try Int.fetchOne(db, sql: "SELECT 1 FROM \(table) LIMIT 1") == nil
    }
  }

  /// Returns the loss of a database without tables in a folder that has been used, if losses are accepted. Otherwise
  /// refuses it.
  ///
  /// The first start writes the tables to the write-ahead log, and until the log is copied, the database file has only its
  /// first page. So without the log it looks like a new database. A first start that was killed leaves no trace, because
  /// it writes the tables first.
  ///
  /// - Returns: a sentence for the loss; nil if the folder is new, or if a loss of power after relaxed writes explains it.
  /// - Throws: `StoreError.damaged`.
  func lossOfTables() throws(StoreError) -> String? {
    guard hasTrace else { return nil }
    if let tail, tail.allowsLoss { return nil }
    let loss =
      "\(path) has no tables, but the folder has been used, so its write-ahead log was lost"
    guard configuration.acceptsLoss else {
      throw .damaged(
        "\(loss): restore the data folder from a backup, or run canopy serve --accept-loss to begin with an empty one"
      )
    }
    return "\(loss), and with it all commits and accounts"
  }

  /// Writes the constants and the number of pages that the first page of the database must have, if losses are accepted.
  /// They say nothing about the data, so nothing is lost. With others, SQLite would not read all pages, or not write.
  func correctHead(_ scan: LogScan?, _ found: inout FoundFiles) throws(StoreError) {
    guard configuration.acceptsLoss else { return }
    let head = try DatabaseHead(path)
    // SQLite reads the first page of the log, if there is one. That of a new file is still empty then.
    let isInLog = scan?.firstPage != nil
    guard head.hasApplicationID || !isInLog && hasTablesOfThisProgram(head, scan),
      let bytes = head.corrected(isInLog: isInLog)
    else { return }
    found.note(head)
    try head.replace(by: bytes)
    configuration.logger.warning("the first bytes of the database were damaged, and are corrected")
  }

  /// Whether a file without the number of this program has exactly the tables of this version. No other program does.
  private func hasTablesOfThisProgram(_ head: DatabaseHead, _ scan: LogScan?) -> Bool {
    guard head.isSound, !hasFirstJournal, let pool = try? readingPool(hasLog: scan != nil) else {
      return false
    }
    defer { try? pool.close() }
    return (try? pool.unsafeRead { try Schema.hasDefinitionsOfThisVersion($0) }) ?? false
  }

  /// Refuses a damaged beginning of the database file. If losses are accepted and the log contains the first page, writes
  /// that page into the file instead.
  ///
  /// - Returns: the beginning that was replaced; nil if it was not damaged.
  func replaceDamagedHead(
    _ scan: LogScan?, _ found: inout FoundFiles
  ) throws(StoreError) -> DatabaseHead? {
    let head = try DatabaseHead(path)
    do { try refuseDamagedHead(head, scan) } catch {
      guard configuration.acceptsLoss, let page = scan?.firstPage, DatabaseHead.isFirstPage(page)
      else { throw error }
      found.note(head)
      try head.replace(by: page)
      return head
    }
    return nil
  }

  /// The times that keys can contain, in milliseconds since 1970. After the last possible one there are no new keys.
  static let times = 0..<PushIDGenerator.timeMax

  /// Refuses a clock whose time keys cannot contain.
  ///
  /// - Throws: `StoreError.wrongTime`.
  static func check(clock time: Int64) throws(StoreError) {
    guard !times.contains(time) else { return }
    throw .wrongTime(
      "the clock of this machine is at \(time) milliseconds since 1970, and keys can contain times from 1970 "
        + "to 10889: set the clock")
  }

  /// Refuses a stored time that keys cannot contain, because the next keys would repeat. O(1).
  ///
  /// - Throws: `StoreError.wrongTime`.
  func checkTimes(_ pool: DatabasePool) throws {
    // A time that was altered on the disk is removed when the losses are accepted, and the others are checked then.
    guard configuration.currentTime != nil, !configuration.acceptsLoss else { return }
    if let error = try pool.read({ try Opening.wrongTime(in: folder, $0, tail?.tail) }) {
      throw error
    }
  }

  /// Returns the error for a stored time that keys cannot contain; nil if there is none. O(1).
  static func wrongTime(in folder: String, _ db: Database, _ tail: Tail?) throws -> StoreError? {
    let times = [
      try Meta.readUnchecked(db).keyTime, tail?.time,
      try Int64.fetchOne(db, sql: "SELECT time FROM commits ORDER BY sequence DESC LIMIT 1"),
    ]
    guard let time = times.compactMap(\.self).first(where: { $0 >= Opening.times.upperBound })
    else { return nil }
    return .wrongTime(
      "\(folder) contains the time \(time) in milliseconds since 1970, and keys can contain times up to the "
        + "year 10889: the clock was wrong when it was written, so restore a backup, or export the tree and "
        + "import it into a new folder")
  }

  /// Returns the version of the database. Refuses one that this program cannot use.
  @discardableResult
  func checkProgram(_ pool: DatabasePool) throws -> Schema.Version {
    try pool.unsafeRead { try checkProgram($0) }
  }

  /// Returns the version of the database. Refuses one that this program cannot use.
  @discardableResult
  func checkProgram(_ db: Database) throws -> Schema.Version {
    try Opening.checkProgram(db, path, acceptsLoss: configuration.acceptsLoss)
  }

  /// Returns the version of the database at a path. Refuses one that this program cannot use, or that has other definitions
  /// than those of its version. Refuses an altered record of the version only if no loss is accepted or the tables are
  /// not those of this version.
  static func checkProgram(
    _ db: Database, _ path: String, acceptsLoss: Bool
  ) throws -> Schema.Version {
    let id = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
    guard try id == Schema.applicationID || Schema.tableCount(db) == 0 else {
      if try Schema.hasDefinitionsOfThisVersion(db) { throw StoreError.damagedHead(of: path) }
      throw StoreError.damaged(
        "\(path) is the database of another program; name another data folder")
    }
    let version = try Schema.version(db)
    if version == .newer {
      throw StoreError.newerSchema(
        "\(path) was written by a newer version of Canopy; run that version, or restore a backup "
          + "made with this one")
    }
    if version == .damaged {
      let isRepairable = try Schema.hasDefinitionsOfThisVersion(db)
      guard isRepairable, acceptsLoss else {
        throw StoreError.alteredVersion(path, isRepairable: isRepairable)
      }
    } else {
      guard try Schema.hasDefinitions(of: Schema.record(db) ?? [], db) else {
        let error = StoreError.alteredDefinition(in: path)
        throw acceptsLoss ? StoreError.beyondRepair(error) : error
      }
    }
    return version
  }
}
