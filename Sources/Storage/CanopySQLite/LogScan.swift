internal import Foundation

/// A scan of a write-ahead log, made before SQLite opens it.
///
/// The format is SQLite's: a header of 32 bytes, then frames. A frame has a header of 24 bytes, with the salts of the
/// log and a checksum over all frames so far, and a page. The last frame of a transaction contains the size of the
/// database. SQLite stops at the first invalid frame. After a crash in the middle of a transaction, no complete
/// transaction follows that frame. If one follows, the log was damaged.
package struct LogScan: Equatable {
  /// The number of transactions that SQLite finds.
  package private(set) var transactions = 0
  /// The number of transactions after the first invalid frame, which SQLite does not find.
  package private(set) var lostTransactions = 0
  /// The durable changes of the transactions among these that show any.
  private(set) var lostChanges: [DurableChange] = []
  /// The first page of the database after the last transaction that SQLite finds; nil if the log does not contain it.
  private(set) var firstPage: [UInt8]?

  /// Whether a database file has a log with a header.
  static func exists(database path: String) -> Bool {
    var status = stat()
    return stat(path + "-wal", &status) == 0 && status.st_size >= LogFrames.headerBytes
  }

  /// Scans the log of a database file. Returns nil if the log does not exist or has no header. O(bytes on the disk).
  ///
  /// - Throws: `StoreError.inaccessible`.
  package static func scan(database path: String) throws(StoreError) -> LogScan? {
    guard let frames = try LogFrames(database: path) else { return nil }
    var scan = LogScan()
    try scan.read(frames)
    return scan
  }

  private mutating func read(_ frames: LogFrames) throws(StoreError) {
    var salts = frames.salts
    // Nil behind the first invalid frame.
    var sum = frames.sum
    var isFirst = true
    var newFirstPage: [UInt8]?
    var change = DurableChange()
    while let frame = try frames.next()?.bytes {
      // If the header is damaged, its salts may be damaged too.
      if isFirst, sum == nil { salts = Array(frame[8..<16]) }
      isFirst = false
      if sum?.add(frame: frame[...], salts: salts) == false { sum = nil }
      let page = frame[LogFrames.frameHeaderBytes...]
      if sum != nil, LogSum.word(frame, 0) == 1 { newFirstPage = Array(page) }
      guard frame[8..<16].elementsEqual(salts) else { continue }
      if sum == nil { change.add(Array(page)) }
      guard LogSum.word(frame, 4) != 0 else { continue }
      if sum != nil {
        transactions += 1
        firstPage = newFirstPage ?? firstPage
      } else {
        lostTransactions += 1
        if !change.isEmpty { lostChanges.append(change) }
        change = DurableChange()
      }
    }
  }
}
