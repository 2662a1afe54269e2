internal import Foundation
internal import GRDB
internal import Logging

/// Checks of the pages of a database before the first write.
extension Opening {
  /// Checks the pages of a file without a log, before anything is written: GRDB creates and removes a table when it opens
  /// a pool. See `checkPages(_:)`.
  func checkPagesWithoutLog() throws {
    guard let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int,
      size > 0
    else { return }
    let reader = try readingPool(hasLog: false)
    let found = Result { try pageProblem(reader) }
    try reader.close()
    guard let problem = try found.get() else { return }
    try refuse(pages: problem)
    let queue = try DatabaseQueue(path: path, configuration: settings)
    let rewritten = Result { try rewritePages(queue) }
    try queue.close()
    try rewritten.get()
  }

  /// Checks the structure of all pages, and that each is in use once or free once. If losses are accepted, writes all rows
  /// into new pages instead of refusing the file. O(size of the file), but without computing checksums.
  ///
  /// SQLite gives the pages of its list of free pages to new rows. If a damaged list has a page in use, these rows would
  /// take the place of others.
  func checkPages(_ pool: DatabasePool) throws {
    guard let problem = try pageProblem(pool) else { return }
    try refuse(pages: problem)
    try rewritePages(pool)
  }

  /// Returns the first problem of the pages, or nil. If losses are accepted, pages that SQLite cannot check are left to the
  /// repair of the tables.
  private func pageProblem(_ reader: DatabasePool) throws -> String? {
    let lines: [String]
    do { lines = try reader.read { try String.fetchAll($0, sql: "PRAGMA quick_check(1)") } } catch {
      if configuration.acceptsLoss { return nil }
      throw error
    }
    guard !lines.elementsEqual(["ok"]) else { return nil }
    let text = lines.joined(separator: " ").utf8.map { $0 == UInt8(ascii: "\n") ? 0x20 : $0 }
    return String(decoding: text, as: UTF8.self)
  }

  private func refuse(pages problem: String) throws {
    guard configuration.acceptsLoss else { throw StoreError.damagedPages(of: path, problem) }
    configuration.logger.warning("the pages are damaged: \(problem)")
  }

  /// Writes all rows into new pages. If a row cannot be read, this changes nothing, and the repair of the tables keeps the
  /// others.
  ///
  /// - Throws: any other error, such as that of a full disk: a repair in the damaged pages could overwrite rows.
  private func rewritePages(_ writer: some DatabaseWriter) throws {
    do {
      try writer.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
      configuration.logger.notice("all rows are in new pages")
    } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {}
  }
}
