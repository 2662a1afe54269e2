internal import CanopyRows
internal import Foundation
internal import GRDB
internal import GRDBSQLite

/// The repair of the write-ahead log and the database file after an error of the disk.
///
/// After a failed synchronization the system may count bytes as written that the disk does not have. Each descriptor
/// gets the error once, and the next synchronization succeeds without them. So a commit could be acknowledged that follows
/// frames which a crash loses, and the log could be restarted although the database file has lost pages of it. SQLite
/// does not prevent that: background steps are not synchronized one by one, and a copy of the log that is not complete
/// counts as done before the database file is synchronized.
///
/// So after any error of the disk no transaction begins, and no frame is copied, before this has succeeded:
/// 1. The frame after the last transaction is made invalid. It may belong to a transaction whose synchronization has
///    failed, and which was reported as failed.
/// 2. All frames are read, compared with their checksums, and written again. So the next synchronization writes them.
/// 3. The log is synchronized.
/// 4. The index of the log is made invalid. SQLite then reads the log again, as after a crash: it discards the pages
///    in its caches, finds the last intact transaction, and copies all frames into the database file again.
/// 5. The end of the journal is compared with that of the durable data.
///
/// If frames are lost, they were those of background steps, because the synchronization of a durable transaction covers
/// all frames before it. Then a running checkpoint must end, because it relies on its earlier steps.
///
/// The files and the index are those of the writing connection, so all errors reach it. The format is part of SQLite's
/// file format: https://sqlite.org/walformat.html
///
/// Isolation: the queue of the writing connection. O(bytes of the log), in pieces of bounded size.
struct LogRepair {
  /// The result of a repair.
  struct Outcome: Equatable {
    /// The number of frames that were written again.
    var frames: Int
    /// The number of frames that were lost.
    var lostFrames: Int
  }

  /// Whether the log must be repaired after an error. A full disk loses nothing: SQLite writes the same bytes again.
  static func isNeeded(after error: any Error) -> Bool {
    // A page that was read as the disk should not have it is damage to SQLite, and stays in its cache.
    switch (error as? DatabaseError)?.resultCode {
    case .SQLITE_IOERR?, .SQLITE_CORRUPT?, .SQLITE_NOTADB?: true
    default: false
    }
  }

  private static let logHeaderBytes = 32
  private static let frameHeaderBytes = 24
  /// The bytes that one call may read or write at most. SQLite's layer for Unix takes only the lowest 17 bits of a size.
  private static let pieceBytesMax = 131_071
  /// The bytes of the index that contain both copies of its header.
  private static let indexHeaderBytes = 96
  /// The bytes of the first part of the index.
  private static let indexPartBytes: Int32 = 32_768

  private let database: UnsafeMutablePointer<sqlite3_file>
  private let log: UnsafeMutablePointer<sqlite3_file>
  private let index: UnsafeMutableRawPointer

  /// Takes the files of a connection.
  ///
  /// - Throws: an error of SQLite; `StoreError.inaccessible` if the connection has no write-ahead log.
  init(_ db: Database) throws {
    database = try LogRepair.file(db, SQLITE_FCNTL_FILE_POINTER)
    log = try LogRepair.file(db, SQLITE_FCNTL_JOURNAL_POINTER)
    var part: UnsafeMutableRawPointer?
    guard let map = database.pointee.pMethods.pointee.xShmMap else { throw LogRepair.unknownFormat }
    try LogRepair.check(map(database, 0, LogRepair.indexPartBytes, 0, &part))
    guard let part else { throw LogRepair.unknownFormat }
    index = part
  }

  /// Carries out the steps up to the invalid index.
  ///
  /// - Throws: an error of SQLite. Then the repair must be carried out again.
  func run() throws -> Outcome {
    guard
      let head = IndexHeader(
        UnsafeRawBufferPointer(start: index, count: LogRepair.indexHeaderBytes))
    else { throw LogRepair.unknownFormat }
    try cut(after: head.frames, head)
    let intact = try rewrite(head)
    guard let synchronize = log.pointee.pMethods.pointee.xSync else {
      throw LogRepair.unknownFormat
    }
    try LogRepair.check(synchronize(log, SQLITE_SYNC_NORMAL))
    index.initializeMemory(as: UInt8.self, repeating: 0, count: LogRepair.indexHeaderBytes)
    database.pointee.pMethods.pointee.xShmBarrier?(database)
    return Outcome(frames: intact, lostFrames: head.frames - intact)
  }

  /// Makes the frame after the last transaction invalid, if there is one.
  private func cut(after frames: Int, _ head: IndexHeader) throws {
    let offset = LogRepair.offset(ofFrame: frames, head)
    guard try logBytes() > offset else { return }
    try write([UInt8](repeating: 0, count: LogRepair.frameHeaderBytes), at: offset)
  }

  /// Writes the frames again, up to the last one or the first one that is not intact. Returns their number.
  private func rewrite(_ head: IndexHeader) throws -> Int {
    guard head.frames > 0, let header = try read(LogRepair.logHeaderBytes, at: 0),
      var sum = LogSum(logHeader: header), header[16..<24].elementsEqual(head.salts)
    else { return 0 }
    try write(header, at: 0)
    let frameBytes = LogRepair.frameHeaderBytes + head.pageBytes
    let framesPerPiece = LogRepair.pieceBytesMax / frameBytes
    var intact = 0
    while intact < head.frames {
      let count = min(framesPerPiece, head.frames - intact)
      let offset = LogRepair.offset(ofFrame: intact, head)
      guard var piece = try read(count * frameBytes, at: offset) else { return intact }
      var sound = 0
      while sound < count,
        sum.add(
          frame: piece[(sound * frameBytes)..<((sound + 1) * frameBytes)], salts: head.salts)
      { sound += 1 }
      piece.removeLast((count - sound) * frameBytes)
      if sound > 0 { try write(piece, at: offset) }
      intact += sound
      if sound < count { return intact }
    }
    return intact
  }

  // MARK: Files

  private static func offset(ofFrame frame: Int, _ head: IndexHeader) -> Int64 {
    Int64(logHeaderBytes + frame * (frameHeaderBytes + head.pageBytes))
  }

  private func logBytes() throws -> Int64 {
    var bytes: Int64 = 0
    guard let size = log.pointee.pMethods.pointee.xFileSize else { throw LogRepair.unknownFormat }
    try LogRepair.check(size(log, &bytes))
    return bytes
  }

  /// Reads bytes of the log; nil if it ends before them.
  private func read(_ count: Int, at offset: Int64) throws -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    guard let read = log.pointee.pMethods.pointee.xRead else { throw LogRepair.unknownFormat }
    let code = read(log, &bytes, Int32(clamping: count), offset)
    if code == LogRepair.shortRead { return nil }
    try LogRepair.check(code)
    return bytes
  }

  private func write(_ bytes: [UInt8], at offset: Int64) throws {
    guard let write = log.pointee.pMethods.pointee.xWrite else { throw LogRepair.unknownFormat }
    try LogRepair.check(write(log, bytes, Int32(clamping: bytes.count), offset))
  }

  /// `SQLITE_IOERR_SHORT_READ`, which Swift does not import.
  private static let shortRead = SQLITE_IOERR | 2 << 8

  private static func file(
    _ db: Database, _ operation: Int32
  ) throws -> UnsafeMutablePointer<sqlite3_file> {
    var file: UnsafeMutablePointer<sqlite3_file>?
    try check(sqlite3_file_control(db.sqliteConnection, "main", operation, &file))
    // A file that is not open has no methods.
    guard let file, file.pointee.pMethods != nil else { throw unknownFormat }
    return file
  }

  private static func check(_ code: Int32) throws {
    guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
  }

  private static var unknownFormat: StoreError {
    .inaccessible(
      "after an error of the disk the write-ahead log cannot be repaired while the server runs: start it again"
    )
  }
}

/// The header of the index of a write-ahead log, in the byte order of the machine.
private struct IndexHeader {
  /// The number of frames up to the end of the last transaction.
  let frames: Int
  let pageBytes: Int
  /// The salts of the log, as its header has them.
  let salts: [UInt8]

  private static let bytes = 48
  /// The version of the format.
  private static let version: UInt32 = 3_007_000

  /// Reads the header; nil if its copies differ or it is not of the known version.
  init?(_ index: UnsafeRawBufferPointer) {
    let first = index.prefix(IndexHeader.bytes)
    guard first.elementsEqual(index.dropFirst(IndexHeader.bytes)), first[12] == 1,
      index.load(fromByteOffset: 0, as: UInt32.self) == IndexHeader.version
    else { return nil }
    let size = Int(index.load(fromByteOffset: 14, as: UInt16.self))
    pageBytes = size == 1 ? 65_536 : size
    frames = Int(index.load(fromByteOffset: 16, as: UInt32.self))
    // The index of a log without an intact header has no page size.
    guard pageBytes >= 512 || frames == 0 else { return nil }
    salts = Array(first[32..<40])
  }
}
