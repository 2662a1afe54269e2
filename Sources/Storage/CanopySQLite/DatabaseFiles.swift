internal import CanopySystem
internal import Foundation
internal import Synchronization

/// The open files of a store's database: `canopy.sqlite` and its write-ahead log.
///
/// Before each durable transaction the store compares them with the files that have their names then. Writes to a file
/// that was removed or moved, or whose folder was moved, succeed, and the next start does not find them. The files must not
/// become shorter either: SQLite never shortens them while the store is open, and would go on behind the gap.
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
  /// The greatest sizes in bytes that the database file and the write-ahead log had.
  private let databaseBytes = Atomic(0)
  private let logBytes = Atomic(0)
  /// The number of errors of the disk.
  private let errors = Atomic(0)
  /// The number of errors of the disk after which the log was repaired; -1 if an earlier process has left a log.
  private let repairedErrors: Atomic<Int>

  /// Opens the files that exist.
  ///
  /// Precondition of `close`: SQLite has closed the files. Closing any descriptor of a file releases all POSIX locks
  /// that the process has on the file, including SQLite's.
  ///
  /// - Parameter hasLeftLog: whether an earlier process has left a log, which is repaired like one after an error.
  init(_ paths: [String], hasLeftLog: Bool = false) {
    repairedErrors = Atomic(hasLeftLog ? -1 : 0)
    var bytes = 0
    files = paths.compactMap { path in
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { return nil }
      var status = stat()
      fstat(descriptor, &status)
      let file = File(
        path: path, descriptor: descriptor, device: status.st_dev, inode: status.st_ino)
      if !file.isLog { bytes = Int(status.st_size) }
      return file
    }
    databaseBytes.store(bytes, ordering: .relaxed)
  }

  deinit { close() }

  /// Closes the files. Later calls do nothing.
  func close() {
    isClosed.withLock { isClosed in
      if !isClosed { for file in files { Foundation.close(file.descriptor) } }
      isClosed = true
    }
  }

  /// Locks the database file against a checkpoint by another process, until `unlock` or the end of the process.
  ///
  /// Another program that reads the file, such as `sqlite3`, copies the log into it and removes the log when it is closed,
  /// unless a process has a lock. SQLite's own lock is not enough: the system releases it when the process closes
  /// any descriptor of the file, as a copy or a check of its first bytes does. This lock belongs to the open descriptor
  /// (`F_OFD_SETLK` of Linux), so only closing that one releases it. It is on the bytes that SQLite locks for reading. Waits
  /// up to five seconds for a program that is just removing the log.
  ///
  /// Without effect on file systems that have no such locks.
  ///
  /// - Parameter wait: waits for ten milliseconds.
  /// - Throws: `StoreError.inaccessible` if another program keeps the file locked.
  func lock(wait: () -> Void = { usleep(10_000) }) throws(StoreError) {
    guard let file = files.first(where: { !$0.isLog }) else { return }
    for _ in 0..<500 {
      guard !setLock(Int16(F_RDLCK), of: file) else { return }
      guard errno == EAGAIN || errno == EACCES else { return }
      wait()
    }
    throw .inaccessible("\(file.path) is locked by another program: end that program first")
  }

  /// Releases the lock, so that SQLite can remove the log when it closes the files.
  func unlock() {
    guard let file = files.first(where: { !$0.isLog }) else { return }
    _ = setLock(Int16(F_UNLCK), of: file)
  }

  private func setLock(_ type: Int16, of file: File) -> Bool {
    // The name of the command is missing in Swift's module of the C library. It has the same number on all processors.
    let command: Int32 = 37
    var range = Foundation.flock()
    range.l_type = type
    range.l_whence = Int16(SEEK_SET)
    (range.l_start, range.l_len) = (DatabaseFiles.sharedLock.start, DatabaseFiles.sharedLock.count)
    return fcntl(file.descriptor, command, &range) == 0
  }

  /// The bytes of a database file that SQLite locks for reading: `SHARED_FIRST` and `SHARED_SIZE`.
  static let sharedLock: (start: Int, count: Int) = (0x4000_0002, 510)

  /// Notes an error of the disk. The files may lack bytes that were written since they were last synchronized.
  func noteError() { errors.add(1, ordering: .relaxed) }

  /// The number of errors of the disk if the log must be repaired before it is used again: see `LogRepair`.
  var unrepairedErrors: Int? {
    let count = errors.load(ordering: .relaxed)
    return count == repairedErrors.load(ordering: .relaxed) ? nil : count
  }

  /// Notes that the log was repaired after so many errors.
  func noteRepair(after count: Int) { repairedErrors.store(count, ordering: .relaxed) }

  /// Synchronizes the write-ahead log, if the files are open. Blocks until the disk has answered.
  ///
  /// An error is only noted.
  func synchronizeLog() { synchronize { $0.isLog } }

  /// Synchronizes the database file, if the files are open. Blocks until the disk has answered.
  ///
  /// An error is only noted.
  func synchronizeDatabase() { synchronize { !$0.isLog } }

  private func synchronize(_ isWanted: (File) -> Bool) {
    isClosed.withLock { isClosed in
      guard !isClosed else { return }
      for file in files where isWanted(file) {
        if fdatasync(file.descriptor) != 0 { noteError() }
      }
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
      guard hasItsName(file, &status), hasGrown(file, to: Int(status.st_size)) else {
        throw .inaccessible(
          "\(file.path) was removed or replaced while the server was running (or moved, or cut), so nothing can be stored: "
            + "stop the server, and restore the data folder from a backup")
      }
    }
  }

  /// Prepares the copy of the whole write-ahead log into the database file, after which the log is cut to no bytes.
  ///
  /// The log must be kept if the database file has lost its name: the copy would go into a file that the next start does
  /// not find, and the cut would remove the commits from the log. It must also be kept if a file was cut: the copy would end
  /// at the first missing page of the log, and the database would have pages of different times or lack some.
  ///
  /// If only the log has lost its name, its commits are in no other file, so it is copied. Another file that has the name
  /// now gets the ending `.replaced`, because the next start would apply its older pages to the newer database.
  ///
  /// - Throws: `StoreError.inaccessible` if the log must be kept.
  func prepareToEmptyLog() throws(StoreError) {
    for file in files {
      var status = stat()
      guard file.isLog || hasItsName(file, &status) else {
        throw .inaccessible(
          "\(file.path) was removed, moved or replaced while the server was running: restore the data folder from a backup, "
            + "or start the server again if the file is a copy")
      }
      guard fstat(file.descriptor, &status) == 0, hasGrown(file, to: Int(status.st_size)) else {
        throw .inaccessible(
          "\(file.path) was cut while the server was running: restore the data folder from a backup"
        )
      }
      if !file.isLog || hasItsName(file, &status) || access(file.path, F_OK) != 0 { continue }
      guard FileCalls.renameFile(file.path, to: file.path + ".replaced") == 0 else {
        throw .inaccessible(
          "\(file.path) was replaced while the server was running, and the other file cannot be renamed: restore the data folder from a backup"
        )
      }
      // Without a log in its place, the copy must go on: no other file has the commits. If the power fails before the disk
      // has the new name, the other file may have the name of the log again.
      try? AtomicFile.synchronizeFolder(of: file.path)
    }
  }

  /// Whether the name of a file still leads to it.
  private func hasItsName(_ file: File, _ status: inout stat) -> Bool {
    lstat(file.path, &status) == 0 && status.st_dev == file.device && status.st_ino == file.inode
  }

  /// Forgets the size of the log, because the store itself has cut it.
  func forgetLogSize() {
    logBytes.store(0, ordering: .relaxed)
  }

  /// Notes the size of a file. Returns whether it is at least as long as before.
  private func hasGrown(_ file: File, to bytes: Int) -> Bool {
    let before =
      file.isLog
      ? logBytes.max(bytes, ordering: .relaxed) : databaseBytes.max(bytes, ordering: .relaxed)
    return before.oldValue <= bytes
  }
}
