internal import CanopyRows
internal import CanopySystem
internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Logging

/// The update of a file of an older version, before which a copy of it is kept.
extension Opening {
  /// Updates the tables to this version, and computes missing checksums.
  func bringUpToDate(_ pool: DatabasePool) throws {
    if try pool.read({ try Schema.version($0) }) == .damaged {
      try pool.write { try Schema.repairVersion($0) }
      configuration.logger.warning("the record of the version was altered, and is written again")
    }
    var state = try pool.read { try checksumState($0) }
    if state == .damaged {
      guard configuration.acceptsLoss else { throw StoreError.damagedMeta }
      // Each row is then kept or removed by its checksum.
      try pool.write { try Meta.setSealed($0) }
      state = .complete
    }
    if state == .complete {
      let isSame = try pool.read { db in
        try Schema.checksum(db).stored == Meta.readUnchecked(db)[.schema]
      }
      guard isSame || configuration.acceptsLoss else {
        throw StoreError.alteredDefinition(in: path)
      }
    }
    let version = try pool.read { try Schema.version($0) }
    if version != .current || state == .missing {
      if !configuration.acceptsLoss { try pool.read { try refuseDamagedPages($0) } }
      if version == .older { try keepOldVersion(pool) }
      try Schema.migrator.migrate(pool)
      if state == .missing { try Sealing.run(pool) { configuration.logger.info("\($0)") } }
    }
    // The files contain the tree and the password hashes, so only their owner may read them.
    for suffix in ["", "-wal", "-shm"] { chmod(path + suffix, 0o600) }
  }

  /// Whether the rows of the file have checksums, as far as the database and `canopy.tail` show it.
  func checksumState(_ db: Database) throws -> Sealing.State {
    // A loss of power after relaxed writes may take the end of the update, but not the file.
    let isUsed = FileManager.default.fileExists(atPath: folder + "/canopy.tail")
    return try Sealing.state(db, isSealedOnce: isUsed && tail?.allowsLoss != true)
  }

  /// Copies a database of an older version to a file beside it, with which the program that wrote it can continue.
  ///
  /// An earlier copy with other contents stays, because it may be the only way back. There is no new copy if one has the
  /// same contents, such as that of an interrupted update.
  ///
  /// - Throws: `StoreError.inaccessible` if there is no room for the copy. Then nothing is changed.
  private func keepOldVersion(_ pool: DatabasePool) throws {
    guard !configuration.isTemporary, configuration.keepsFormerFiles,
      try !pool.read({ try isUnstarted($0) })
    else { return }
    let (kept, exists) = try nameOfOldVersion(pool)
    if !exists { try writeOldVersion(pool, to: folder + "/" + kept) }
    configuration.logger.notice(
      "the folder is of an older version; a copy is kept before the update",
      metadata: ["file": "\(kept)"])
  }

  private func writeOldVersion(_ pool: DatabasePool, to kept: String) throws {
    let work = folder + "/" + Opening.oldVersionWork
    try? FileManager.default.removeItem(atPath: work)
    defer { try? FileManager.default.removeItem(atPath: work) }
    do {
      try FileManager.default.createDirectory(
        atPath: work, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
      try pool.read { try SQLiteStore.copy($0, to: work) }
      guard FileCalls.renameFile(work + "/canopy.sqlite", to: kept) == 0 else {
        throw FileError("create", kept)
      }
      do { try AtomicFile.synchronizeFolder(of: kept) } catch {
        // The name may not be on the disk, so the next start makes the copy again.
        _ = FileCalls.removeFile(kept)
        throw error
      }
    } catch {
      throw StoreError.inaccessible(
        "\(folder) is of an older version of Canopy, and the copy of it that an update keeps cannot be written: make "
          + "room on the disk, or copy the folder to a larger one (\(error))")
    }
  }

  /// Returns the name of the first copy with the same contents, or the first free name if no copy has them.
  private func nameOfOldVersion(_ pool: DatabasePool) throws -> (name: String, exists: Bool) {
    var number = 1
    while true {
      let name = Opening.oldVersionName(number)
      // Also a link whose target is missing has its name.
      var status = stat()
      guard lstat(folder + "/" + name, &status) == 0 else { return (name, false) }
      if status.st_mode & S_IFMT == S_IFREG, try isCopy(name, of: pool) { return (name, true) }
      number += 1
    }
  }

  /// Whether a file is a sound copy of the database from before a part of its update. O(size).
  private func isCopy(_ name: String, of pool: DatabasePool) throws -> Bool {
    guard let copy = try? readingPool(folder + "/" + name, hasLog: false) else { return false }
    defer { try? copy.close() }
    return try pool.read { db in
      do {
        return try copy.unsafeRead { copy in
          guard try checkProgram(copy) == .older,
            try Opening.pageProblem(copy, "integrity_check") == nil
          else { return false }
          return try OldCopy(copy, of: db).isSame()
        }
      } catch is StoreError { return false } catch is DatabaseError { return false }
    }
  }

  /// The name of the folder in which that copy is made.
  static let oldVersionWork = ".old-version"

  /// The name of the copy that the update to this version keeps, if no other file has it.
  static let oldVersionName = oldVersionName(1)

  /// Returns the name of the first, second, … copy.
  private static func oldVersionName(_ number: Int) -> String {
    "before-schema-\(Schema.migrator.migrations.count)\(number == 1 ? "" : "-\(number)").sqlite"
  }
}

/// A comparison of a database of an older version with a copy of it, whose update to this version may have begun.
///
/// An update changes no row of the tables of the older version, but computes missing checksums. The tables that it creates
/// are empty until a server uses the folder.
private struct OldCopy {
  let copy: Database
  let original: Database

  init(_ copy: Database, of original: Database) {
    self.copy = copy
    self.original = original
  }

  /// Whether the rows are the same. Precondition: the definitions of both are those of their versions. O(size).
  func isSame() throws -> Bool {
    let copied = try tables(copy)
    let present = try tables(original)
    guard copied.isSubset(of: present), try hasSameNumbers() else { return false }
    for table in present.subtracting(["meta", "grdb_migrations"]) {
      guard copied.contains(table) else {
        if try Row.fetchOne(original, sql: "SELECT 1 FROM \(table.text)") != nil { return false }
        continue
      }
      guard try hasSameRows(table.text) else { return false }
    }
    return true
  }

  private func tables(_ db: Database) throws -> Set<ByteString> {
    let tables = try Definition.all(db).filter { $0.isTable && !$0.isOfSQLite }
    return Set<ByteString>(tables.map(\.name))
  }

  /// Whether the numbers of `meta` are the same, apart from those that an update changes or adds.
  private func hasSameNumbers() throws -> Bool {
    let now = try Meta.readUnchecked(original)
    return try Meta.readUnchecked(copy).isSame(asBeforeUpdate: now)
  }

  private func hasSameRows(_ table: String) throws -> Bool {
    let isSealed = try Meta.readUnchecked(copy).isSealed
    let columns = try copy.columns(in: table).map(\.name).filter {
      isSealed || !$0.hasSameBytes(as: "checksum")
    }
    let keys = try copy.primaryKey(table).columns
    let sql = """
      SELECT \(columns.joined(separator: ", ")) FROM \(table) ORDER BY \(keys.joined(separator: ", "))
      """
    let (old, new) = (
      try Row.fetchCursor(copy, sql: sql), try Row.fetchCursor(original, sql: sql)
    )
    while let row = try old.next() {
      guard let other = try new.next(), row == other else { return false }
    }
    return try new.next() == nil
  }
}
