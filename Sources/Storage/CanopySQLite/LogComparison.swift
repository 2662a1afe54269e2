internal import Foundation

/// The comparison of a damaged write-ahead log with the database file. It shows whether SQLite has copied frames into the
/// file that it does not read any more, because they are behind the damage.
///
/// SQLite copies the last version of each page. So a file that has the last versions up to the end of a transaction is
/// as it was after that transaction. If the copy was interrupted, the file has pages of two times, and their rows can
/// have right checksums nevertheless: for instance new commits, and accounts as they were before.
///
/// SQLite computes the checksum of a frame from that of the frame before. So each frame behind the damage is compared with
/// its own checksum here.
///
/// The format is that of `LogScan`. Precondition: the folder is locked, and no connection is open.
struct LogComparison {
  /// Whether the log has the last version of each page, so that its checksums prove the pages of the file.
  private(set) var isProven: Bool
  /// The number of transactions in the log that the file does not have.
  private(set) var missingTransactions = 0

  private static let headerBytes = 32
  private static let frameHeaderBytes = 24

  /// Compares the log of a database file with the file. O(bytes of the log).
  ///
  /// - Returns: nil if the log has no damage, or if the file does not have all pages up to a transaction behind it.
  /// - Throws: `StoreError.inaccessible`.
  static func run(database path: String) throws(StoreError) -> LogComparison? {
    let database = try open(path)
    defer { close(database) }
    let log = try open(path + "-wal")
    defer { close(log) }
    guard let header = read(log, headerBytes, at: 0), var sum = LogSum(logHeader: header),
      LogSum.word(header, 8) == SQLiteStore.pageBytes
    else { return nil }
    let salts = Array(header[16..<24])
    // Pages whose last version is not that of the file, and those whose last version is damaged.
    var (missing, unreadable): (Set<UInt32>, Set<UInt32>) = ([], [])
    var isBehindDamage = false
    var found: LogComparison?
    var offset = headerBytes
    while let frame = read(log, frameHeaderBytes + SQLiteStore.pageBytes, at: offset) {
      offset += frame.count
      let isIntact = sum.add(frame: frame[...], salts: salts)
      sum = LogSum(storedIn: frame, isBigEndian: sum.isBigEndian)
      if !isIntact { isBehindDamage = true }
      // The frames of an earlier log have other salts.
      guard frame[8..<16].elementsEqual(salts) else { continue }
      let page = LogSum.word(frame, 0)
      let isCopied = isPage(page, of: database, frame[frameHeaderBytes...])
      missing.remove(page)
      unreadable.remove(page)
      if !isCopied, isIntact { missing.insert(page) }
      if !isCopied, !isIntact { unreadable.insert(page) }
      let isCommit = LogSum.word(frame, 4) != 0
      guard isCommit else { continue }
      if isBehindDamage, missing.isEmpty {
        found = LogComparison(isProven: unreadable.isEmpty)
      } else {
        found?.missingTransactions += 1
      }
    }
    return found
  }

  private static func open(_ path: String) throws(StoreError) -> Int32 {
    let file = Foundation.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { throw .unopenable(path, errno) }
    return file
  }

  private static func isPage(_ page: UInt32, of file: Int32, _ bytes: ArraySlice<UInt8>) -> Bool {
    page > 0
      && read(file, bytes.count, at: (Int(page) - 1) * bytes.count)?.elementsEqual(bytes) ?? false
  }

  private static func read(_ file: Int32, _ count: Int, at offset: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    return pread(file, &bytes, count, off_t(offset)) == count ? bytes : nil
  }
}
