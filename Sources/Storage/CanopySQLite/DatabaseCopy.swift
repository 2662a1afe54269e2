public import CanopyEngine
internal import CanopyRows
internal import Foundation
internal import GRDB
internal import GRDBSQLite

/// A copy of the database of a data folder as it was after one commit.
public struct DatabaseCopy: Equatable, Sendable {
  /// The work of a copy so far.
  public struct Progress: Equatable, Sendable {
    /// The number of pages that are copied.
    public var pages: Int
    /// The number of pages of the database.
    public var pagesMax: Int
  }

  /// The sequence number of the last commit in the copy.
  public let sequence: Int64
  /// The time of that commit in milliseconds since 1970; nil if the journal has no commit.
  public let time: Int64?
  /// The record of the rules in force; nil for a database without one.
  public let rules: RulesRecord?
}

extension SQLiteStore {
  /// The number of bytes in a page of a database.
  public static let pageBytes = 4_096

  /// Copies the database of a data folder, also while a server writes to it, and checks the copy.
  ///
  /// A connection of its own keeps one read transaction open, so the copy has all commits up to one sequence number and
  /// no later one, and the accounts and on-disconnect writes of the same moment. A read transaction in WAL mode never
  /// blocks the writer. Only the write-ahead log grows meanwhile, because SQLite cannot restart it.
  ///
  /// SQLite's backup interface copies `pagesPerStep` pages at a time. After each step the copied pages are synchronized,
  /// so that no synchronization of a commit has to wait for many pages of the copy.
  ///
  /// Blocks the caller's thread. Takes O(size) time, and O(1) memory besides SQLite's caches.
  ///
  /// - Parameters:
  ///   - folder: the folder of the database.
  ///   - isServed: whether a server uses the folder, or may open it meanwhile. Otherwise the folder is locked.
  ///   - copy: a folder, new or empty, in which the copy gets the name `canopy.sqlite`.
  ///   - afterStep: called after each step. An error that it throws ends the copy.
  ///   - whileChecking: called every few milliseconds while the copy is checked. An error that it throws ends the work.
  /// - Throws: `StoreError` if the folder is in use although `isServed` is false, if commits of it are lost, or if the copy
  ///   contains damage; an error of SQLite, or of `afterStep`. Then the copy must not be used.
  public static func copyDatabase(
    of folder: String, isServed: Bool, to copy: String, pagesPerStep: Int = 256,
    afterStep: (DatabaseCopy.Progress) throws -> Void = { _ in },
    whileChecking: () throws -> Void = {}
  ) throws -> DatabaseCopy {
    try Opening.checkFiles(in: folder)
    try createFolder(copy)
    if isServed {
      // Before the transaction: a change is in the database when the file says so, and later changes do no harm.
      let tail = try TailFile(folder: folder, isRelaxed: false).read()
      try refuseLossOfClosed(folder, tail)
      try copyServed(folder, to: copy, pagesPerStep, afterStep)
      let end = tail.flatMap { $0.allowsLoss ? nil : $0.tail }
      return try checkCopy(copy, of: folder, after: end, whileChecking)
    }
    let store = try SQLiteStore.reading(folder)
    do {
      if let loss = store.losses.first { throw StoreError.lossy(folder, loss) }
      try store.pool.read { try Self.copy($0, to: copy, pagesPerStep, afterStep) }
    } catch {
      try? store.close()
      throw error
    }
    try store.close()
    return try checkCopy(copy, of: folder, after: nil, whileChecking)
  }

  /// Refuses a database of a served folder that no server has open, and that has lost changes which a crash cannot explain.
  ///
  /// A server checks this when it opens the database. The check needs the lock of the folder for a moment, so it is made only
  /// after a crash: if there is a write-ahead log, or `canopy.tail` says so. A server that closes a database removes the log.
  private static func refuseLossOfClosed(
    _ folder: String, _ tail: TailFile.Contents?
  ) throws(StoreError) {
    guard LogScan.exists(database: folder + "/canopy.sqlite") || tail?.marks.contains(.log) == true
    else { return }
    try FolderLock.unlessInUse(folder) { () throws(StoreError) in
      let opening = Opening(
        folder: folder, configuration: Configuration(),
        tail: try TailFile(folder: folder, isRelaxed: false).read())
      // Nil for a database of an older version, which is updated and checked in its copy.
      guard let (pool, losses) = try opening.openForReading() else { return }
      try? pool.close()
      if let loss = losses.first { throw .lossy(folder, loss) }
    }
  }

  private static func createFolder(_ path: String) throws(StoreError) {
    do {
      try FileManager.default.createDirectory(
        atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw .inaccessible("\(path) cannot be created: \(error.localizedDescription)")
    }
  }

  /// Copies a database that a server may use. A database of an older version is brought up to date in its copy.
  private static func copyServed(
    _ folder: String, to copy: String, _ pagesPerStep: Int,
    _ afterStep: (DatabaseCopy.Progress) throws -> Void
  ) throws {
    guard access(folder + "/canopy.sqlite", F_OK) == 0 else {
      throw StoreError.withoutDatabase(folder)
    }
    try Opening.refuseEmptied(folder + "/canopy.sqlite")
    var settings = GRDB.Configuration()
    settings.label = "canopy.store.copy"
    // A connection that cannot write does not remove the log, either, when it is closed last.
    settings.readonly = true
    settings.busyMode = .timeout(5)
    let queue = try DatabaseQueue(
      path: literalPath(folder + "/canopy.sqlite"), configuration: settings)
    let result = Result {
      try queue.read { try Self.copy($0, to: copy, pagesPerStep, afterStep) }
    }
    try queue.close()
    try result.get()
  }

  /// Creates a file for a copy, which its caller synchronizes. A copy that is not complete is removed, so it needs no
  /// journal.
  static func unjournaled(_ path: String, label: String) throws -> DatabaseQueue {
    var settings = GRDB.Configuration()
    settings.label = label
    settings.prepareDatabase { db in
      try db.execute(sql: "PRAGMA journal_mode = OFF")
      try db.execute(sql: "PRAGMA synchronous = OFF")
    }
    let queue = try DatabaseQueue(path: literalPath(path), configuration: settings)
    chmod(path, 0o600)
    return queue
  }

  /// Copies all pages within the transaction of a connection.
  static func copy(
    _ db: Database, to folder: String, _ pagesPerStep: Int = 256,
    _ afterStep: (DatabaseCopy.Progress) throws -> Void = { _ in }
  ) throws {
    precondition(db.isInsideTransaction, "the transaction keeps the pages of one moment")
    // The first statement chooses the moment.
    _ = try Schema.tableCount(db)
    let path = folder + "/canopy.sqlite"
    let target = try unjournaled(path, label: "canopy.store.copied")
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw StoreError.unopenable(path, errno) }
    let result = Result {
      try withoutActuallyEscaping(afterStep) { afterStep in
        try target.writeWithoutTransaction { target in
          try db.backup(to: target, pagesPerStep: CInt(clamping: max(1, pagesPerStep))) {
            // An error comes again when the whole copy is synchronized.
            fdatasync(file)
            try afterStep(
              DatabaseCopy.Progress(
                pages: $0.completedPageCount, pagesMax: $0.totalPageCount))
          }
        }
      }
    }
    try target.close()
    defer { Foundation.close(file) }
    do { try result.get() } catch { throw StoreError.copying(to: path, error) }
    guard fsync(file) == 0 else {
      throw StoreError.inaccessible(
        "\(path) cannot be written to the disk: \(String(cString: strerror(errno)))")
    }
  }

  /// Checks all pages and checksums of a copy, without building the tree in memory.
  ///
  /// Damage of the original is in its copy as well. Without this check the last sound backup might be removed because
  /// there are newer ones.
  ///
  /// - Parameter end: the end of the data that the copy must have; nil if it is not known.
  private static func checkCopy(
    _ copy: String, of folder: String, after end: Tail?, _ whileChecking: () throws -> Void
  ) throws -> DatabaseCopy {
    let current = try SQLiteStore(readingCurrent: copy, hasBeenUsed: false)
    let store = try current ?? SQLiteStore(folder: copy)
    let result = Result {
      var failure: (any Error)?
      let problem = store.problemsOnThisThread {
        do { try whileChecking() } catch { failure = error }
        return failure == nil
      }.first
      if let failure { throw failure }
      if let problem {
        // The copy is removed before a person reads the sentence.
        let text = problem.replacing(copy, with: folder)
        throw StoreError.damaged("a copy of \(folder) contains damage: \(text)")
      }
      return try store.pool.read { db in
        let last = try CommitRow.last(db).sequence
        if let end { try refuseLoss(folder, after: end, db, isUpdated: current == nil) }
        let time = try Int64.fetchOne(
          db, sql: "SELECT time FROM commits WHERE sequence = ?", arguments: [last])
        return DatabaseCopy(sequence: last, time: time, rules: try Self.rulesRecord(db))
      }
    }
    try store.close()
    return try result.get()
  }
}

extension SQLiteStore {
  /// Refuses a copy without changes that were stored: commits, or changes to accounts, tokens and on-disconnect writes.
  ///
  /// The time in the end is no change: it can be later than all times in the database.
  ///
  /// - Parameter isUpdated: whether the copy was of an older version, so that its other numbers may be new.
  private static func refuseLoss(
    _ folder: String, after end: Tail, _ db: Database, isUpdated: Bool
  ) throws {
    let last = try CommitRow.last(db).sequence
    guard last >= end.sequence else {
      throw StoreError.damaged(
        "\(end.sequence - last) commits that were stored are missing from \(folder), up to number \(end.sequence): "
          + StoreError.waysOut)
    }
    guard !isUpdated else { return }
    let meta = try Meta.read(db)
    // The journal may have been shortened meanwhile.
    if end.sequence >= meta[.base], try CommitRow.chain(db, after: end.sequence) != end.checksum {
      throw StoreError.damaged(
        "commit \(end.sequence) of \(folder) is not the one that was stored: \(StoreError.waysOut)")
    }
    guard meta[.revision] >= end.revision else {
      throw StoreError.damaged(
        "\(end.revision - meta[.revision]) changes to accounts, sessions or on-disconnect writes that were stored are "
          + "missing from \(folder): \(StoreError.waysOut)")
    }
  }
}

extension StoreError {
  /// Returns the error for a folder with a loss, whose sentence need not name the folder.
  fileprivate static func lossy(_ folder: String, _ loss: String) -> StoreError {
    .damaged("\(folder) has lost data: \(loss)")
  }
}

/// A closure that SQLite calls while it runs statements of a connection.
final class StatementWatch {
  /// The number of instructions of SQLite's virtual machine between two calls: some milliseconds in which rows are checked.
  private static let instructions: Int32 = 1_000

  private let goesOn: () -> Bool

  private init(_ goesOn: @escaping () -> Bool) {
    self.goesOn = goesOn
  }

  /// Runs `body`, and ends its statements with an error when `goesOn` returns false.
  static func run<R>(
    on db: Database, _ goesOn: () -> Bool, _ body: () throws -> R
  ) rethrows -> R {
    try withoutActuallyEscaping(goesOn) { goesOn in
      let watch = StatementWatch(goesOn)
      sqlite3_progress_handler(
        db.sqliteConnection, instructions,
        { watch in
          guard let watch else { return 0 }
          return Unmanaged<StatementWatch>.fromOpaque(watch).takeUnretainedValue().goesOn() ? 0 : 1
        }, Unmanaged.passUnretained(watch).toOpaque())
      defer { sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
      return try withExtendedLifetime(watch) { try body() }
    }
  }
}
