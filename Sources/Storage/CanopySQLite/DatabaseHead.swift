internal import Foundation
internal import GRDB
internal import GRDBSQLite

/// The first bytes of a database file, read before SQLite opens the file.
///
/// SQLite takes a file of at most one byte for a new database, and then removes the write-ahead log beside it. So a
/// file without the header of a database must not be opened.
package struct DatabaseHead: Equatable {
  /// The text with which every database file begins.
  private static let text = Array("SQLite format 3\0".utf8)
  /// The least size of a page, and so of a database that is not empty.
  private static let bytesMin = 512
  /// The size of a page of the databases of this program.
  static let pageBytes = 4_096
  /// The greatest size of a page.
  private static let bytesMax = 65_536

  /// The bytes that are the same in every database of this program in WAL mode, by their offset.
  ///
  /// They say nothing about the data, so they can be written again. With others, SQLite would not read all pages, or
  /// not write: a first version that is greater allows only reading.
  private static let constants: [(offset: Int, bytes: [UInt8])] = [
    // The size of a page, the two versions of the format, no reserved bytes, and three numbers that SQLite demands.
    (16, [16, 0, 2, 2, 0, 64, 32, 32]),
    formatOfDefinitions,
    // No tables for moving pages.
    (52, [0, 0, 0, 0]),
    encodingOfTexts,
    // No removal of free pages in steps.
    (64, [0, 0, 0, 0]),
  ]
  private static let formatOfDefinitions = (offset: 44, bytes: [0, 0, 0, 4] as [UInt8])
  /// UTF-8.
  private static let encodingOfTexts = (offset: 56, bytes: [0, 0, 0, 1] as [UInt8])
  /// The bytes with the two versions. Before the first start has set the WAL mode, both are 1.
  private static let versions = 18..<20
  /// The bytes with the number of pages.
  private static let pageCount = 28..<32
  /// The bytes with the first page of the list of free pages, and their number.
  private static let freePages = 32..<40
  /// The bytes with the number of the program.
  private static let applicationID = 68..<72
  /// The head of the table with the definitions, and its bytes if the table is empty.
  private static let definitions = (place: 100..<108, empty: [13, 0, 0, 0, 0, 16, 0, 0] as [UInt8])

  private let path: String
  /// The size of the file in bytes; nil if the file does not exist.
  private let size: Int?
  /// The first bytes of the file, at most one page of any size.
  private let bytes: [UInt8]

  /// Reads the first bytes of a file.
  ///
  /// - Throws: `StoreError.inaccessible` if the file exists and cannot be read.
  package init(_ path: String) throws(StoreError) {
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

  /// Reads the first bytes of a file through a connection. To open and close the file would end the locks that other
  /// connections of the process have on it.
  ///
  /// - Throws: `StoreError.inaccessible` if the file cannot be read.
  init(_ path: String, openIn db: Database) throws(StoreError) {
    self.path = path
    var buffer = [UInt8](repeating: 0, count: DatabaseHead.bytesMin)
    guard let (file, methods, size) = DatabaseHead.file(openIn: db),
      methods.xRead(file, &buffer, CInt(buffer.count), 0) == SQLITE_OK
    else { throw .unopenable(path, EIO) }
    (self.size, bytes) = (Int(size), buffer)
  }

  /// Returns the file of a connection, its methods, and its size in bytes; nil after an error of the system.
  private static func file(
    openIn db: Database
  ) -> (file: UnsafeMutablePointer<sqlite3_file>, methods: sqlite3_io_methods, size: Int64)? {
    var file: UnsafeMutablePointer<sqlite3_file>?
    var size: Int64 = 0
    let code = sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_FILE_POINTER, &file)
    guard code == SQLITE_OK, let file, let methods = file.pointee.pMethods?.pointee,
      methods.xFileSize(file, &size) == SQLITE_OK
    else { return nil }
    return (file, methods, size)
  }

  /// Whether the file of a connection has no page after the first: see ``hasFirstPageOnly``. The file is not opened again.
  ///
  /// - Throws: `StoreError.inaccessible` if the system does not know the size.
  static func hasFirstPageOnly(_ path: String, openIn db: Database) throws(StoreError) -> Bool {
    guard let size = file(openIn: db)?.size else { throw .unopenable(path, EIO) }
    return size <= pageBytes
  }

  /// Whether the file is missing or has no bytes.
  package var isEmpty: Bool { (size ?? 0) == 0 }

  /// Whether the file has no page after the first, so that all tables are in the write-ahead log.
  var hasFirstPageOnly: Bool { (size ?? 0) <= DatabaseHead.pageBytes }

  /// Whether the file begins as a database of this program does.
  package var isSound: Bool { isDatabase && hasConstants }

  /// Whether the file begins as a database does.
  package var isDatabase: Bool {
    bytes.count >= DatabaseHead.bytesMin && bytes.starts(with: DatabaseHead.text)
  }

  /// Whether the constants are those of a database of this program. Before there are tables, some are 0.
  private var hasConstants: Bool {
    var page = Array(bytes.prefix(DatabaseHead.bytesMin))
    if page[DatabaseHead.versions].elementsEqual([1, 1]) {
      page.replaceSubrange(DatabaseHead.versions, with: [2, 2])
    }
    for (offset, bytes) in [DatabaseHead.formatOfDefinitions, DatabaseHead.encodingOfTexts]
    where page[offset..<offset + 4].elementsEqual([0, 0, 0, 0]) {
      page.replaceSubrange(offset..<offset + 4, with: bytes)
    }
    return DatabaseHead.constants.allSatisfy {
      page[$0.offset..<$0.offset + $0.bytes.count].elementsEqual($0.bytes)
    }
  }

  /// Whether the file has the number of this program.
  var hasApplicationID: Bool {
    withUnsafeBytes(of: Schema.applicationID.bigEndian) {
      isDatabase && bytes[DatabaseHead.applicationID].elementsEqual($0)
    }
  }

  /// Returns the first bytes with the right constants, the number of this program and the number of pages that the file
  /// has; nil if it has them already, or if it does not begin as a database does.
  ///
  /// Precondition: the file is one of this program. Other programs have other constants.
  ///
  /// - Parameter isInLog: whether the log has a newer first page, whose number of pages counts.
  package func corrected(isInLog: Bool) -> [UInt8]? {
    guard isDatabase, let size else { return nil }
    var page = Array(bytes.prefix(DatabaseHead.bytesMin))
    if !hasConstants {
      for (offset, bytes) in DatabaseHead.constants {
        page.replaceSubrange(offset..<offset + bytes.count, with: bytes)
      }
    }
    withUnsafeBytes(of: Schema.applicationID.bigEndian) {
      page.replaceSubrange(DatabaseHead.applicationID, with: $0)
    }
    if !isInLog, size >= DatabaseHead.pageBytes {
      let pages = UInt32(clamping: size / DatabaseHead.pageBytes)
      withUnsafeBytes(of: pages.bigEndian) {
        page.replaceSubrange(DatabaseHead.pageCount, with: $0)
      }
    }
    return bytes.starts(with: page) ? nil : page
  }

  /// Returns the first page without definitions and without a list of free pages, so that SQLite adds new pages at the
  /// end.
  ///
  /// Precondition: the file has a first page.
  func withoutDefinitions() -> [UInt8] {
    var page = Array(bytes.prefix(DatabaseHead.pageBytes))
    for place in DatabaseHead.freePages { page[place] = 0 }
    page.replaceSubrange(DatabaseHead.definitions.place, with: DatabaseHead.definitions.empty)
    return page
  }

  /// Makes a shorter file as long as a number of pages, with bytes of 0.
  ///
  /// - Throws: `StoreError.inaccessible`.
  static func extend(_ path: String, toPages pages: Int) throws(StoreError) {
    let file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { throw .unopenable(path, errno) }
    defer { close(file) }
    var status = stat()
    let (bytes, isOver) = pages.multipliedReportingOverflow(by: pageBytes)
    guard fstat(file, &status) == 0,
      isOver || status.st_size >= bytes || ftruncate(file, off_t(bytes)) == 0
    else { throw .unopenable(path, errno) }
  }

  /// Whether the file is in WAL mode.
  package var isInLogMode: Bool { isSound && bytes[18] == 2 }

  /// Puts the file into WAL mode, as SQLite does. Precondition: the file is a database that no connection has open.
  ///
  /// - Throws: `StoreError.inaccessible`. Then the file is as before, if the system allows that.
  func enterLogMode() throws(StoreError) {
    guard isDatabase else { throw .damagedHead(of: path) }
    var page = Array(bytes.prefix(DatabaseHead.bytesMin))
    page.replaceSubrange(DatabaseHead.versions, with: [2, 2])
    try replace(by: page)
  }

  /// Whether a page can be the first of a database.
  package static func isFirstPage(_ page: [UInt8]) -> Bool {
    page.count >= bytesMin && page.count <= bytesMax && page.starts(with: text)
  }

  /// Writes the first page of the file, as SQLite itself would copy it from the log.
  ///
  /// - Throws: `StoreError.inaccessible`. Then the file is as before, if the system allows that.
  package func replace(by page: [UInt8]) throws(StoreError) {
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

  /// Gives the file, or a copy of it, the bytes that it had before `replace(by:)`. Returns whether that succeeded.
  @discardableResult
  package func restore(in copy: String? = nil) -> Bool {
    let path = copy ?? path
    guard let size else { return unlink(path) == 0 || errno == ENOENT }
    let file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { return false }
    defer { close(file) }
    return pwrite(file, bytes, bytes.count, 0) == bytes.count && ftruncate(file, off_t(size)) == 0
      && fsync(file) == 0
  }
}
