internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Logging

/// The correction of altered definitions of tables, indexes and triggers: see `DefinitionRepair`.
extension Opening {
  /// Writes all rows into a new file with the definitions of this program, if those of the file were altered. Keeps the
  /// damaged file beside it, unless the configuration says otherwise.
  ///
  /// The definitions are corrected in a copy of the file with its log, from which `salvage` then copies the rows.
  ///
  /// - Returns: a sentence for each table that has lost rows; nil if the definitions are right or not known, and the file
  ///   as before.
  /// - Throws: any error, such as that of a full disk. Then the file is as before.
  func correctDefinitions(hasLog: Bool, _ found: inout FoundFiles) throws -> [String]? {
    guard try !DatabaseHead(path).isEmpty, !hasFirstJournal, hasAlteredDefinitions(hasLog: hasLog)
    else { return nil }
    let work = folder + "/" + Opening.correctedWork
    try? FileManager.default.removeItem(atPath: work)
    defer { try? FileManager.default.removeItem(atPath: work) }
    guard mkdir(work, 0o700) == 0 else { throw StoreError.unopenable(work, errno) }
    var configuration = configuration
    configuration.keepsFormerFiles = false
    let copy = Opening(folder: work, configuration: configuration, tail: nil)
    let lost: [String]
    do {
      for suffix in hasLog ? ["", "-wal"] : [""] {
        try FileCopy.copy(path + suffix, to: copy.path + suffix)
      }
      if hasLog { try copy.copyLog() }
      guard let repair = try copy.definitionRepair() else { return nil }
      try copy.write(repair)
      // The file is of a newer version, of which definitions are missing.
      let record = try copy.readTolerantly(hasLog: false) { DefinitionRepair.record(of: $0) }
      guard !(record ?? []).isStrictSuperset(of: repair.record) else { return nil }
      var files = FoundFiles(copy)
      lost = try copy.salvage(hasLog: false, with: repair.expected, &files) ?? []
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

  /// Whether the file has other definitions than the version that it is of, or SQLite refuses them. Pages that cannot be
  /// read are found later.
  private func hasAlteredDefinitions(hasLog: Bool) -> Bool {
    if refusesDefinitions(hasLog: hasLog) { return true }
    let isAltered = try? readTolerantly(hasLog: hasLog) { db in
      let id = try Int32.fetchOne(db, sql: "PRAGMA application_id")
      return try id == Schema.applicationID && DefinitionRepair(db) != nil
    }
    return isAltered ?? false
  }

  /// Whether SQLite refuses the definitions. A connection reads them first.
  private func refusesDefinitions(hasLog: Bool) -> Bool {
    do { try readingPool(hasLog: hasLog).close() } catch let error as DatabaseError {
      return error.resultCode == .SQLITE_CORRUPT
    } catch {}
    return false
  }

  private func readTolerantly<R>(hasLog: Bool, _ body: (Database) throws -> R) throws -> R {
    let pool = try readingPool(hasLog: hasLog, toleratesDefinitions: true)
    defer { try? pool.close() }
    return try pool.unsafeRead(body)
  }

  /// Returns the correction of the definitions; nil if they are right, or if it is not known which ones the file must have.
  ///
  /// Precondition: the file has no log.
  private func definitionRepair() throws -> DefinitionRepair? {
    guard try DatabaseHead(path).hasApplicationID, let pages = DefinitionPages(path: path) else {
      return nil
    }
    let areRefused = refusesDefinitions(hasLog: false)
    do {
      let repair = try readTolerantly(hasLog: false) {
        try DefinitionRepair($0, pages, areRefused: areRefused)
      }
      if let repair { return repair }
    } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {}
    return areRefused ? try DefinitionRepair(pages) : nil
  }

  /// Replaces the definitions of the file by those of tables that are found.
  private func write(_ repair: DefinitionRepair) throws {
    let head = try DatabaseHead(path)
    try head.replace(by: head.withoutDefinitions())
    var tolerant = settings
    tolerant.prepareDatabase { try Opening.tolerateDefinitions($0) }
    let queue = try DatabaseQueue(path: literalPath(path), configuration: tolerant)
    let result = Result { try queue.write { try repair.write($0) } }
    try queue.close()
    try result.get()
    try copyLog()
  }
}
