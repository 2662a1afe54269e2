internal import Foundation

/// The first bytes of a database file, read before SQLite opens the file.
///
/// SQLite takes a file of at most one byte for a new database, and then removes the write-ahead log beside it. So a
/// file without the header of a database must not be opened.
struct DatabaseHead: Equatable {
  /// The text with which every database file begins.
  private static let text = Array("SQLite format 3\0".utf8)
  /// The least size of a page, and so of a database that is not empty.
  private static let bytesMin = 512
  /// The size of a page of the databases of this program.
  private static let pageBytes = 4_096
  /// The greatest size of a page.
  private static let bytesMax = 65_536

  private let path: String
  /// The size of the file in bytes; nil if the file does not exist.
  private let size: Int?
  /// The first bytes of the file, at most one page of any size.
  private let bytes: [UInt8]

  /// Reads the first bytes of a file.
  ///
  /// - Throws: `StoreError.inaccessible` if the file exists and cannot be read.
  init(_ path: String) throws(StoreError) {
    self.path = path
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else {
      guard errno == ENOENT else { throw .unopenable(path, errno) }
      (size, bytes) = (nil, [])
      return
    }
    defer { close(file) }
    var status = stat()
    guard fstat(file, &status) == 0 else { throw .unopenable(path, errno) }
    var buffer = [UInt8](repeating: 0, count: DatabaseHead.bytesMax)
    let count = pread(file, &buffer, buffer.count, 0)
    guard count >= 0 else { throw .unopenable(path, errno) }
    (size, bytes) = (Int(status.st_size), Array(buffer.prefix(count)))
  }

  /// Whether the file is missing or has no bytes.
  var isEmpty: Bool { (size ?? 0) == 0 }

  /// Whether the file has no page after the first, so that all tables are in the write-ahead log.
  var hasFirstPageOnly: Bool { (size ?? 0) <= DatabaseHead.pageBytes }

  /// Whether the file begins as a database does.
  var isSound: Bool {
    bytes.count >= DatabaseHead.bytesMin && bytes.starts(with: DatabaseHead.text)
  }

  /// Whether the file is in WAL mode.
  var isInLogMode: Bool { isSound && bytes[18...19].elementsEqual([2, 2]) }

  /// Whether a page can be the first of a database.
  static func isFirstPage(_ page: [UInt8]) -> Bool {
    page.count >= bytesMin && page.count <= bytesMax && page.starts(with: text)
  }

  /// Writes the first page of the file, as SQLite itself would copy it from the log.
  ///
  /// - Throws: `StoreError.inaccessible`. Then the file is as before, if the system allows that.
  func replace(by page: [UInt8]) throws(StoreError) {
    assert(DatabaseHead.isFirstPage(page), "the page begins with the header")
    let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { throw .unopenable(path, errno) }
    defer { close(file) }
    guard pwrite(file, page, page.count, 0) == page.count, fsync(file) == 0 else {
      let code = errno
      restore()
      throw .unopenable(path, code)
    }
  }

  /// Gives the file the bytes that it had before `replace(by:)`.
  func restore() {
    guard let size else {
      unlink(path)
      return
    }
    let file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { return }
    defer { close(file) }
    _ = pwrite(file, bytes, bytes.count, 0)
    _ = ftruncate(file, off_t(size))
    fsync(file)
  }
}
