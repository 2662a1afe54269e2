internal import Foundation
internal import Synchronization

/// The open files of a store's database: `canopy.sqlite` and its write-ahead log.
///
/// Before each durable transaction the store compares them with the files that have their names then. Writes to a file
/// that was removed or moved, or whose folder was moved, succeed, and the next start does not find them. The write-ahead
/// log must not become shorter either: SQLite never shortens it while the store is open, and would go on behind the gap.
/// A file whose contents are replaced in place by as many bytes keeps its device, inode and size, so this is not found.
final class DatabaseFiles: Sendable {
  private struct File {
    let path: String
    var isLog: Bool { path.utf8.suffix(4).elementsEqual("-wal".utf8) }
    let descriptor: Int32
    let device: dev_t
    let inode: ino_t
  }

  private let files: [File]
  private let isClosed = Mutex(false)
  /// The greatest size in bytes that the write-ahead log had.
  private let logBytes = Atomic(0)

  /// Opens the files that exist.
  ///
  /// Precondition of `close`: SQLite has closed the files. Closing any descriptor of a file releases all POSIX locks
  /// that the process has on the file, including SQLite's.
  init(_ paths: [String]) {
    files = paths.compactMap { path in
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { return nil }
      var status = stat()
      fstat(descriptor, &status)
      return File(
        path: path, descriptor: descriptor, device: status.st_dev, inode: status.st_ino)
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
  func synchronizeLog() { synchronize { $0.isLog } }

  /// Synchronizes the database file, if the files are open. Blocks until the disk has answered.
  ///
  /// Ignores an error: the system reports it to SQLite's descriptor as well, when a copy of the log is complete.
  func synchronizeDatabase() { synchronize { !$0.isLog } }

  private func synchronize(_ isWanted: (File) -> Bool) {
    isClosed.withLock { isClosed in
      guard !isClosed else { return }
      for file in files where isWanted(file) { fdatasync(file.descriptor) }
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

  /// Checks that each name still leads to the file that was opened, with one `lstat` call each.
  ///
  /// - Throws: `StoreError.inaccessible`.
  func checkRemain() throws(StoreError) {
    for file in files {
      var status = stat()
      if lstat(file.path, &status) == 0, status.st_dev == file.device,
        status.st_ino == file.inode, !file.isLog || hasGrown(to: Int(status.st_size))
      {
        continue
      }
      throw .inaccessible(
        "\(file.path) was removed or replaced while the server was running (or moved, or cut), so nothing can be stored: "
          + "stop the server, and restore the data folder from a backup")
    }
  }

  /// Forgets the size of the log, because the store itself has cut it.
  func forgetLogSize() {
    logBytes.store(0, ordering: .relaxed)
  }

  /// Notes the size of the log. Returns whether it is at least as long as before.
  private func hasGrown(to bytes: Int) -> Bool {
    logBytes.max(bytes, ordering: .relaxed).oldValue <= bytes
  }
}
