internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Logging

/// The correction of altered definitions of tables, indexes and triggers: see `DefinitionRepair`.
extension Opening {
  /// Writes all rows into a new file with the definitions of this program, if those of the file were altered. Keeps the
  /// damaged file beside it, unless the configuration says otherwise.
  ///
  /// The definitions are corrected in a copy of the file and its log, from which `salvage` then copies the rows.
  ///
  /// - Returns: a sentence for each table that has lost rows; nil if the definitions are right, and the file as before.
  /// - Throws: any error, such as that of a full disk. Then the file is as before.
  func correctDefinitions(hasLog: Bool, _ found: inout FoundFiles) throws -> [String]? {
    guard try !DatabaseHead(path).isEmpty, !hasFirstJournal, hasAlteredDefinitions(hasLog: hasLog)
    else { return nil }
    let work = folder + "/" + Opening.correctedWork
    try? FileManager.default.removeItem(atPath: work)
    defer { try? FileManager.default.removeItem(atPath: work) }
    guard mkdir(work, 0o700) == 0 else { throw StoreError.unopenable(work, errno) }
    var configuration = configuration
    configuration.keepsDamagedFile = false
    let copy = Opening(folder: work, configuration: configuration, tail: nil)
    let lost: [String]
    do {
      for suffix in hasLog ? ["", "-wal"] : [""] {
        try FileCopy.copy(path + suffix, to: copy.path + suffix)
      }
      let missing = try copy.writeDefinitions()
      for sentence in missing {
        configuration.logger.warning("the loss is accepted: \(sentence)")
      }
      var files = FoundFiles(copy)
      lost = missing + (try copy.salvage(hasLog: false, isForced: true, &files) ?? [])
      guard !copy.hasAlteredDefinitions(hasLog: false) else {
        throw StoreError.alteredDefinition(in: path)
      }
    } catch StoreError.damaged(let text) {
      throw StoreError.beyondRepair(.damaged(text.replacing(work, with: folder)))
    } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
      throw StoreError.damagedDefinitions(of: path, error)
    }
    try found.keep()
    try replace(by: copy.path, hasLog: hasLog)
    configuration.logger.warning(
      "the definitions of the tables were altered, and are written again")
    return lost
  }

  /// The name of the folder in which that copy is made.
  static let correctedWork = ".corrected"

  /// Lets a connection go on if definitions are invalid. Call before its first statement.
  static func tolerateDefinitions(_ db: Database) throws {
    try db.execute(sql: "PRAGMA writable_schema = ON")
    // The first statement reads the definitions, and fails if one is invalid. The next ones use the others.
    _ = try? Row.fetchOne(db, sql: "SELECT 1 FROM sqlite_schema")
  }

  /// Whether the file has other definitions than the version that it is of. Pages that cannot be read are found later.
  private func hasAlteredDefinitions(hasLog: Bool) -> Bool {
    guard let pool = try? readingPool(hasLog: hasLog, toleratesDefinitions: true) else {
      return false
    }
    defer { try? pool.close() }
    let isAltered = try? pool.unsafeRead { db in
      let id = try Int32.fetchOne(db, sql: "PRAGMA application_id")
      return try id == Schema.applicationID && DefinitionRepair(db) != nil
    }
    return isAltered ?? false
  }

  /// Corrects the definitions of the file, and copies its log into it. Returns a sentence for each table without rows,
  /// because the number of its first page is lost.
  private func writeDefinitions() throws -> [String] {
    var tolerant = settings
    tolerant.prepareDatabase { try Opening.tolerateDefinitions($0) }
    let missing = try write(tolerant) { try DefinitionRepair($0)?.write($0) ?? [] }
    // Another connection reads the new definitions.
    try write(settings) { db in
      for definition in missing where !definition.isOfSQLite {
        if let sql = definition.sql { try db.execute(sql: sql.text) }
      }
    }
    try copyLog()
    return missing.filter { $0.type == "table" && !$0.isOfSQLite }.map {
      "the rows of the table \($0.name), whose definition is missing"
    }
  }

  private func write<R>(
    _ settings: GRDB.Configuration, _ body: (Database) throws -> R
  ) throws -> R {
    let queue = try DatabaseQueue(path: path, configuration: settings)
    let result = Result { try queue.write(body) }
    try queue.close()
    return try result.get()
  }
}
