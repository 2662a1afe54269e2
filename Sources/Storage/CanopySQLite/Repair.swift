internal import CanopyEngine
internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB
internal import Logging
internal import Synchronization

/// The losses of a folder, and the times of its commits.
public struct Losses: Sendable {
  /// One sentence for each loss; empty if nothing is lost.
  public var notes: [String]
  /// The time of the newest commit that is kept, in milliseconds since 1970; nil if there is none.
  public var keptTime: Int64?
  /// The time of the newest commit that was stored, in milliseconds since 1970; nil if it is not known.
  public var storedTime: Int64?
  /// Whether `canopy.tail` shows that no commit is missing at the end.
  public var isEndProven = false
}

extension SQLiteStore {
  /// Removes damaged rows and keeps the others. Call once after opening a folder whose configuration accepts losses.
  ///
  /// Logs a warning for each loss. If there is one, the journal is emptied and continues with new sequence numbers, so that
  /// no listener resumes from a lost commit. If rows of accounts or sessions are missing or older than
  /// the last change, all logins end, because an older row may be one that was revoked. O(size).
  ///
  /// - Parameter now: the time in milliseconds since 1970, from which logins count if they end, and which determines the new
  ///   sequence numbers; nil for that of the configuration.
  /// - Returns: the losses.
  /// - Throws: `StoreError` if the rest of the file cannot be used either; then only a backup helps.
  @discardableResult
  public func acceptLosses(at now: Int64? = nil) async throws -> Losses {
    let found = foundTail?.tail
    let (hasLostLog, hasLosses) = (hasLostLog, !losses.isEmpty)
    let hasRulesFile = foundTail.map { $0.marks.contains(.rulesFile) } ?? hasLostLog
    let clock = now ?? configuration.currentTime
    let now = clock ?? found?.time ?? 0
    do {
      let notes = try await pool.write {
        try Repair(
          db: $0, tail: found, now: now, isClock: clock != nil, hasLostLog: hasLostLog,
          hasRulesFile: hasRulesFile, hasLosses: hasLosses
        ).run()
      }
      for note in notes { configuration.logger.warning("removed: \(note)") }
      if notes.isEmpty, losses.isEmpty {
        try keepTail()
        try await refuseWrongTime()
        return Losses(
          notes: [], keptTime: found?.time, storedTime: found?.time,
          isEndProven: foundTail.map { !$0.allowsLoss } ?? false)
      }
      // Not the greatest time in a key, which is that of the lost commits as well.
      let keptTime = try await pool.read {
        try Int64.fetchOne($0, sql: "SELECT time FROM commits ORDER BY sequence DESC LIMIT 1")
      }
      var state = try await load(keeping: IndexPlan())
      let result = Losses(
        notes: (losses + notes).map(StoreError.withoutAdvice), keptTime: keptTime,
        storedTime: found?.time)
      // Clients have seen keys of lost commits, so these must not be generated again.
      if let found { state.lastTime = max(state.lastTime ?? 0, found.time) }
      let lastCommit = try await pool.read { try Meta.read($0).lastCommit }
      try await beginNewNumbers(
        state, state.tree.root, replacing: LocationSet(), after: lastCommit, at: now)
      try keepTail()
      try await refuseWrongTime()
      return result
    } catch let error as DatabaseError {
      throw StoreError.opening(folder + "/canopy.sqlite", error)
    } catch let error as StoreError {
      throw StoreError.beyondRepair(error)
    }
  }
}

extension SQLiteStore {
  /// Writes `canopy.tail` after losses were accepted, and creates it if it was missing.
  private func keepTail() throws(StoreError) {
    let tail = tail.withLock { $0 }
    if !tailFile.exists { try tailFile.open(creatingWith: tail) }
    tailFile.write(tail)
    try tailFile.synchronize()
  }

  /// Refuses a time that keys cannot contain and that is not damage. See `Opening.checkTimes`.
  private func refuseWrongTime() async throws {
    guard configuration.currentTime != nil else { return }
    let error = try await pool.read { [folder, tail = foundTail?.tail] in
      try Opening.wrongTime(in: folder, $0, tail)
    }
    if let error { throw error }
  }

  /// Copies the files of a database byte by byte, for a repair of the copy. The folder is locked meanwhile and stays as it
  /// is.
  ///
  /// - Parameter copy: a folder that exists and is empty.
  /// - Throws: `StoreError` if another process uses the folder, or a file cannot be read or written.
  public static func copyFiles(of folder: String, to copy: String) throws(StoreError) {
    try Opening.checkFiles(in: folder)
    let lock = try FolderLock(folder: folder, isReading: true)
    defer { lock.release() }
    for name in ["canopy.sqlite", "canopy.sqlite-wal", "canopy.tail"] {
      let path = folder + "/" + name
      guard access(path, F_OK) == 0 else { continue }
      // One byte more than a valid tail shows that the file is too long.
      let bytesMax = name.hasSameBytes(as: "canopy.tail") ? TailFile.bytes + 1 : .max
      try FileCopy.copy(path, to: copy + "/" + name, bytesMax: bytesMax)
    }
  }
}

/// The removal of damaged rows.
private struct Repair {
  let db: Database
  let tail: Tail?
  /// The time in milliseconds since 1970.
  let now: Int64
  /// Whether that is the present time, and not a known one before it.
  let isClock: Bool
  /// Whether the write-ahead log may have had later transactions that are lost.
  let hasLostLog: Bool
  /// Whether there was a file of rules, or may have been one.
  let hasRulesFile: Bool
  /// Whether something is lost that is found before the rows are read.
  let hasLosses: Bool

  /// Removes damaged rows, and corrects the sums and the chain. Returns a description of each loss.
  ///
  /// Precondition: the pages, the order of the rows and the indexes are sound, as after `Opening.salvage`.
  func run() throws -> [String] {
    var notes: [String] = []
    let removed = try SequenceRange.removeOthers(db)
    if removed > 0 { notes.append("\(removed) commits with numbers that no commit can have") }
    var meta = try Meta.readUnchecked(db)
    let isTrusted = (try? Meta.read(db)) != nil
    // The number in `meta` may be altered. A lesser one counts as a loss in any case.
    let hasLostChanges = hasLostLog || tail.map { $0.revision > meta[.revision] } ?? false
    let sequenceMax = try sequenceMax(isTrusted ? meta : nil)
    if !isTrusted { try correct(&meta, sequenceMax) }
    if meta.lastCommit > sequenceMax {
      meta.lastCommit = 0
      notes.append(
        "the number of the commit at the last change of accounts, which no commit can have had")
    }
    if isClock, meta.hasFutureLogin(at: now / 1_000) {
      meta.correctDeletedLogin(to: now / 1_000)
      notes.append("the time of the latest login of a deleted account, which was in the future")
    }
    let lostRows = try LeafRepair(db: db).run(&meta, isTrusted: isTrusted)
    notes += lostRows
    var tables = TableRepair(db: db)
    for table in SealedTable.allCases { notes += try tables.repair(table) }
    notes += try DisconnectRepair(db: db).run(after: tables, hasLostChanges: hasLostChanges)
    notes += try LoginRepair(db: db, now: now)
      .run(after: tables, hasLostChanges: hasLostChanges, &meta)
    notes += try CommitRepair(db: db, tail: tail)
      .run(&meta, isTrusted: isTrusted, hasLostRows: !lostRows.isEmpty)
    notes += try removeLostClientWrites(meta)
    if hasLostChanges, hasRulesFile { notes += try expectRulesFile() }
    // Altered definitions would be proven by their checksum from now on.
    guard try Schema.hasDefinitionsOfThisVersion(db) else {
      throw StoreError.alteredDefinition(in: "canopy.sqlite")
    }
    let isSame = try meta[.schema] == Schema.checksum(db).stored
    guard !notes.isEmpty || hasLosses || !isSame || !isTrusted else { return [] }
    // In this transaction, because the process may end before the numbers begin.
    if !notes.isEmpty || hasLosses { meta.needsNewNumbers = true }
    meta[.revision] = max(meta[.revision], tail?.revision ?? 0)
    meta[.isSealed] = 1
    meta[.schema] = try Schema.checksum(db).stored
    if let tail { meta.noteKeyTime(tail.time) }
    try meta.write(db)
    return notes
  }

  /// Notes that the rules are in their file, because that change may be lost. If the file is missing as well, nothing must
  /// be open. Returns a description of the loss.
  private func expectRulesFile() throws -> [String] {
    guard try SQLiteStore.rulesRecord(db)?.origin != .file else { return [] }
    try SQLiteStore.setRulesRecord(RulesRecord(.file, sequence: 0), db)
    try SealedTable.rulesRecord.writeSum(db)
    return [
      "the origin of the rules in force; without the file rules.json nobody may read or write"
    ]
  }

  /// Returns the greatest number that a commit can have had. A greater one in `meta` is damage, after which there would
  /// be too few numbers for new commits.
  ///
  /// - Parameter meta: the numbers of the checkpoint; nil if they are not proven.
  private func sequenceMax(_ meta: Meta?) throws -> Int64 {
    let known = [
      try Int64.fetchOne(db, sql: "SELECT max(sequence) FROM commits"), tail?.sequence,
      meta?[.checkpoint], NewNumbers.start(after: 0, at: now),
    ]
    let last = known.compactMap(\.self).max() ?? 0
    return min(last, SequenceRange.max - NewNumbers.gap) + NewNumbers.gap
  }

  /// Replaces those numbers of `meta` that the rest of the folder gives, if their common checksum is wrong. Any of them
  /// may have been altered.
  private func correct(_ meta: inout Meta, _ sequenceMax: Int64) throws {
    // Each number is set, because it may be missing.
    for name in [Meta.Name.checkpoint, .base] {
      meta[name] = (0...sequenceMax).contains(meta[name]) ? meta[name] : 0
    }
    meta[.baseChecksum] = meta.baseChecksum.stored
    meta[.revision] =
      tail?.revision ?? (SequenceRange.contains(meta[.revision]) ? meta[.revision] : 0)
    meta[.isSealed] = 1
    meta[.schema] = try Schema.checksum(db).stored
    let latest = try Int64.fetchOne(
      db, sql: "SELECT max(time) FROM commits WHERE time BETWEEN 0 AND ?", arguments: [now])
    let keyTime = meta.keyTime.flatMap { (0...max(0, now)).contains($0) ? $0 : nil }
    meta[.keyTime] = tail?.time ?? keyTime ?? latest ?? 0
  }

  /// Removes the writes that clients may send again and whose commits are not kept.
  ///
  /// - Parameter meta: has the number of the checkpoint after the repair of the commits.
  private func removeLostClientWrites(_ meta: Meta) throws -> [String] {
    let last = try Int64.fetchOne(db, sql: "SELECT max(sequence) FROM commits") ?? 0
    let count = try SQLiteStore.removeClientWrites(db, after: max(last, meta[.checkpoint]))
    guard count > 0 else { return [] }
    return [
      "the replies to \(count) writes whose commits are lost; a client that sends one again makes it again"
    ]
  }
}
