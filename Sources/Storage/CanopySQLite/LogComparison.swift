internal import Foundation

/// The comparison of a damaged write-ahead log with the database file. It shows whether SQLite has copied frames into the
/// file that it does not read any more, because they are behind the damage.
///
/// SQLite copies the last version of each page. So a file that has the last versions up to the end of a transaction is
/// as it was after that transaction. If the copy was interrupted, the file has pages of two times, and their rows can
/// have right checksums nevertheless: for instance new commits, and accounts as they were before.
///
/// SQLite computes the checksum of a frame from that of the frame before. So each frame behind the damage is compared with
/// its own checksum here. If only the number of the page was altered, the checksum gives the right one. With another number
/// a page that was not copied would count as replaced by a later version.
///
/// The format is that of `LogScan`. Precondition: the folder is locked, and no connection is open.
struct LogComparison {
  /// Whether the log has the last version of each page, so that its checksums prove the pages of the file.
  private(set) var isProven: Bool
  /// The number of transactions in the log that the file does not have.
  private(set) var missingTransactions = 0

  /// Compares the log of a database file with the file. O(bytes of the log on the disk).
  ///
  /// - Returns: nil if the log has no damage, or if the file does not have all pages up to a transaction behind it.
  /// - Throws: `StoreError.inaccessible`.
  static func run(database path: String) throws(StoreError) -> LogComparison? {
    let database = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
    guard database >= 0 else { throw .unopenable(path, errno) }
    defer { close(database) }
    guard let frames = try LogFrames(database: path), var sum = frames.sum,
      LogSum.word(frames.header, 8) == SQLiteStore.pageBytes
    else { return nil }
    // Pages whose last version is not that of the file, and those whose last version is damaged.
    var (missing, unreadable): (Set<UInt32>, Set<UInt32>) = ([], [])
    var isBehindDamage = false
    // Whether there is a frame with other salts, which could be of any page.
    var hasOther = false
    var found: LogComparison?
    while let frame = try frames.next()?.bytes {
      var computed = sum
      var isIntact = computed.add(frame: frame[...], salts: frames.salts)
      if !isIntact { isBehindDamage = true }
      let before = sum
      sum = LogSum(storedIn: frame, isBigEndian: sum.isBigEndian)
      // The frames of an earlier log have other salts.
      guard frame[8..<16].elementsEqual(frames.salts) else {
        hasOther = true
        continue
      }
      var page = LogSum.word(frame, 0)
      if !isIntact, let proven = provenPage(of: frame, after: before) {
        (page, isIntact) = (proven, true)
      }
      let isCopied = isPage(page, of: database, frame[LogFrames.frameHeaderBytes...])
      missing.remove(page)
      unreadable.remove(page)
      if !isCopied, isIntact { missing.insert(page) }
      if !isCopied, !isIntact { unreadable.insert(page) }
      guard LogSum.word(frame, 4) != 0 else { continue }
      if isBehindDamage, missing.isEmpty {
        found = LogComparison(isProven: unreadable.isEmpty && !hasOther)
      } else {
        found?.missingTransactions += 1
      }
    }
    return found
  }

  /// Returns the number of the page that the checksum of a frame proves if the rest of the frame is intact; nil if more is
  /// altered.
  ///
  /// - Parameter sum: the checksum of the frame before.
  private static func provenPage(of frame: [UInt8], after sum: LogSum) -> UInt32? {
    var beforePage = LogSum(storedIn: frame, isBigEndian: sum.isBigEndian)
    beforePage.remove(Array(frame[LogFrames.frameHeaderBytes...]))
    let numbers = sum.bytes(to: beforePage)
    return numbers[4...].elementsEqual(frame[4..<8]) ? LogSum.word(numbers, 0) : nil
  }

  private static func isPage(_ page: UInt32, of file: Int32, _ bytes: ArraySlice<UInt8>) -> Bool {
    guard page > 0 else { return false }
    var found = [UInt8](repeating: 0, count: bytes.count)
    let offset = off_t(page - 1) * off_t(bytes.count)
    return pread(file, &found, found.count, offset) == found.count && found.elementsEqual(bytes)
  }
}
