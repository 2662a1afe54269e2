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

  private static let headerBytes = 32
  private static let frameHeaderBytes = 24

  /// Whether a database file has a log with a header.
  static func exists(database path: String) -> Bool {
    var status = stat()
    return stat(path + "-wal", &status) == 0 && status.st_size >= headerBytes
  }

  /// Scans the log of a database file. Returns nil if the log does not exist or has no header. O(bytes).
  ///
  /// - Throws: `StoreError.inaccessible`.
  package static func scan(database path: String) throws(StoreError) -> LogScan? {
    let path = path + "-wal"
    guard let file = FileHandle(forReadingAtPath: path) else {
      guard access(path, F_OK) == 0 else { return nil }
      throw .inaccessible("\(path) cannot be read: \(String(cString: strerror(errno)))")
    }
    do {
      guard let header = try file.read(upToCount: headerBytes), header.count == headerBytes else {
        return nil
      }
      var scan = LogScan()
      try scan.read(Array(header), file)
      return scan
    } catch {
      throw .inaccessible("\(path) cannot be read: \(error.localizedDescription)")
    }
  }

  private mutating func read(_ header: [UInt8], _ file: FileHandle) throws {
    let magic = LogSum.word(header, 0)
    var sum = LogSum(isBigEndian: magic & 1 == 1)
    header.withUnsafeBytes { sum.add(UnsafeRawBufferPointer(rebasing: $0.prefix(24))) }
    var isIntact =
      magic & ~1 == 0x377F_0682 && sum.a == LogSum.word(header, 24)
      && sum.b == LogSum.word(header, 28)
    var salts = (LogSum.word(header, 16), LogSum.word(header, 20))
    let size = Int(LogSum.word(header, 8))
    // 4,096 is the page size of all folders. It is used if the header is damaged.
    let pageBytes = isIntact && size >= 512 && size <= 65_536 ? size : 4_096
    var isFirst = true
    var newFirstPage: [UInt8]?
    var change = DurableChange()
    while let frame = try file.read(upToCount: LogScan.frameHeaderBytes + pageBytes),
      frame.count == LogScan.frameHeaderBytes + pageBytes
    {
      frame.withUnsafeBytes { frame in
        func word(_ offset: Int) -> UInt32 {
          UInt32(bigEndian: frame.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
        let own = (word(8), word(12))
        // If the header is damaged, its salts may be damaged too.
        if isFirst, !isIntact { salts = own }
        isFirst = false
        let isCommit = word(4) != 0
        if isIntact {
          sum.add(UnsafeRawBufferPointer(rebasing: frame.prefix(8)))
          sum.add(UnsafeRawBufferPointer(rebasing: frame.dropFirst(LogScan.frameHeaderBytes)))
          isIntact = own == salts && sum.a == word(16) && sum.b == word(20)
        }
        if isIntact, word(0) == 1 {
          newFirstPage = Array(frame.dropFirst(LogScan.frameHeaderBytes))
        }
        guard own == salts else { return }
        if !isIntact {
          change.add(Array(frame.dropFirst(LogScan.frameHeaderBytes)))
        }
        guard isCommit else { return }
        if isIntact {
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
}
