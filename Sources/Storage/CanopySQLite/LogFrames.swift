internal import Foundation

/// The frames of a write-ahead log in their order, without those in the gaps of the file.
///
/// A gap takes no room on the disk and is read as zeros, so a damaged log can be longer than any disk. A frame in a gap
/// has no salts, so it is no frame of the log. After a frame without salts the walk goes on with the next frame that the
/// disk has.
///
/// The format is that of `LogScan`. O(bytes on the disk) for all frames.
final class LogFrames {
  static let headerBytes = 32
  static let frameHeaderBytes = 24

  /// The header of the log, of 32 bytes.
  let header: [UInt8]
  /// The checksum after the header; nil if the header is not intact.
  let sum: LogSum?
  private let path: String
  private let file: Int32
  private let size: Int
  private let frameBytes: Int
  private var index = 0

  /// The salts of the log, as the header has them.
  var salts: [UInt8] { Array(header[16..<24]) }

  /// Opens the log of a database file; nil if the log does not exist or has no header.
  ///
  /// - Parameter pageBytes: the size of a page; nil for that in the header, or 4,096 if the header is not intact.
  /// - Throws: `StoreError.inaccessible`.
  init?(database: String, pageBytes: Int? = nil) throws(StoreError) {
    let path = database + "-wal"
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard file >= 0 else {
      guard errno == ENOENT else { throw LogFrames.unreadable(path) }
      return nil
    }
    var header = [UInt8](repeating: 0, count: LogFrames.headerBytes)
    var status = stat()
    let count = fstat(file, &status) == 0 ? pread(file, &header, header.count, 0) : -1
    guard count == header.count else {
      let error = LogFrames.unreadable(path)
      close(file)
      if count < 0 { throw error }
      return nil
    }
    self.path = path
    self.file = file
    self.header = header
    size = Int(status.st_size)
    sum = LogSum(logHeader: header)
    let headerSize = Int(LogSum.word(header, 8))
    let isKnown =
      sum != nil && (512...65_536).contains(headerSize) && headerSize.nonzeroBitCount == 1
    frameBytes =
      LogFrames.frameHeaderBytes + (pageBytes ?? (isKnown ? headerSize : SQLiteStore.pageBytes))
  }

  deinit { close(file) }

  /// Returns the next frame, and its position in the file; nil at the end of the file.
  ///
  /// - Throws: `StoreError.inaccessible`.
  func next() throws(StoreError) -> (bytes: [UInt8], offset: Int)? {
    let offset = LogFrames.headerBytes + index * frameBytes
    guard frameBytes <= size - offset else { return nil }
    var bytes = [UInt8](repeating: 0, count: frameBytes)
    let count = pread(file, &bytes, frameBytes, off_t(offset))
    guard count >= 0 else { throw LogFrames.unreadable(path) }
    guard count == frameBytes else { return nil }
    index += 1
    if bytes[8..<16].allSatisfy({ $0 == 0 }) {
      let data = FileCopy.nextData(in: file, from: offset + frameBytes, size)
      index = (data - LogFrames.headerBytes) / frameBytes
    }
    return (bytes, offset)
  }

  private static func unreadable(_ path: String) -> StoreError {
    .inaccessible("\(path) cannot be read: \(String(cString: strerror(errno)))")
  }
}
