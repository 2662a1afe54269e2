internal import Foundation
internal import Synchronization

/// The open files of a store's database: `canopy.sqlite` and its write-ahead log.
///
/// They are kept open to find out that one was removed. Writes to a removed file succeed, and are lost when the process
/// ends. The link count of such a file is 0. A file that was moved keeps its name elsewhere, and with it the writes. If
/// another file takes its place, the next start finds by `canopy.tail` that commits are missing.
final class DatabaseFiles: Sendable {
  private let files: [(path: String, descriptor: Int32)]
  private let isClosed = Mutex(false)

  /// Opens the files that exist.
  ///
  /// Precondition of `close`: SQLite has closed the files. Closing any descriptor of a file releases all POSIX locks
  /// that the process has on the file, including SQLite's.
  init(_ paths: [String]) {
    files = paths.compactMap { path in
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      return descriptor >= 0 ? (path, descriptor) : nil
    }
  }

  deinit { close() }

  /// Closes the files. Later calls do nothing.
  func close() {
    isClosed.withLock { isClosed in
      if !isClosed { for file in files { Foundation.close(file.descriptor) } }
      isClosed = true
    }
  }

  /// Synchronizes the write-ahead log, if the files are open. Blocks until the disk has answered.
  ///
  /// Ignores an error: the system reports it to SQLite's descriptor as well, at the next durable transaction.
  func synchronizeLog() { synchronize { $0.suffix(4).elementsEqual("-wal".utf8) } }

  /// Synchronizes the database file, if the files are open. Blocks until the disk has answered.
  ///
  /// Ignores an error: the system reports it to SQLite's descriptor as well, when a copy of the log is complete.
  func synchronizeDatabase() { synchronize { !$0.suffix(4).elementsEqual("-wal".utf8) } }

  private func synchronize(_ isWanted: (String.UTF8View) -> Bool) {
    isClosed.withLock { isClosed in
      guard !isClosed else { return }
      for file in files where isWanted(file.path.utf8) { fdatasync(file.descriptor) }
    }
  }

  /// Waits until the disk has the contents of the files.
  ///
  /// A process that was killed may have left commits that only the page cache has. They are about to be served, so
  /// they must not be lost afterwards.
  ///
  /// - Throws: `StoreError.inaccessible`.
  func synchronize() throws(StoreError) {
    for file in files where fsync(file.descriptor) != 0 {
      throw .inaccessible(
        "\(file.path) cannot be written to the disk: \(String(cString: strerror(errno)))")
    }
  }

  /// Checks that each file still has a name, with one `fstat` call each.
  ///
  /// - Throws: `StoreError.inaccessible`.
  func checkRemain() throws(StoreError) {
    for file in files {
      var status = stat()
      if fstat(file.descriptor, &status) == 0, status.st_nlink > 0 { continue }
      throw .inaccessible(
        "\(file.path) was removed or replaced while the server was running, so nothing can be stored any more: "
          + "stop the server, and restore the data folder from a backup")
    }
  }
}
