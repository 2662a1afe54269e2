internal import Foundation
internal import Synchronization

/// The open files of a store's database, kept to notice that one was removed.
///
/// Writes to a removed file succeed, and are lost when the process ends. A removed file has no name left, which its
/// link count says. A file that was moved keeps a name, and so its writes. If another file takes its place, the next
/// start finds by `canopy.tail` that commits are missing.
final class DatabaseFiles: Sendable {
  private let files: [(path: String, descriptor: Int32)]
  private let isClosed = Mutex(false)

  /// Opens those of the files that exist.
  ///
  /// Precondition for closing: SQLite has closed the files. Closing any descriptor of a file drops all POSIX locks
  /// that the process has on it, SQLite's among them.
  init(_ paths: [String]) {
    files = paths.compactMap { path in
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      return descriptor >= 0 ? (path, descriptor) : nil
    }
  }

  deinit { close() }

  /// Closes the files. Later calls do nothing.
  func close() {
    let wasClosed = isClosed.withLock { isClosed in
      defer { isClosed = true }
      return isClosed
    }
    if !wasClosed { for file in files { Foundation.close(file.descriptor) } }
  }

  /// Waits until the disk has all that was written to the files.
  ///
  /// A process that was killed may have left commits that only the page cache has. They are about to be served, and
  /// must not be lost after that.
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
        "\(file.path) was removed or replaced while the server was running, so nothing more can be stored: "
          + "stop the server, and restore the data folder from a backup")
    }
  }
}
