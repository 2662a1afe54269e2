internal import CanopySystem
internal import Foundation

/// The right of one server to make and remove backups in a folder, until the last reference is gone or the process
/// ends.
///
/// Two servers can have one folder `backups`, because it may be a link, and both the same id, because one data folder
/// is a copy of the other. While the first one runs, the second one makes no backups there.
final class BackupLock: Sendable {
  private let descriptor: Int32

  /// Takes the lock, which is an advisory one (`flock`) on the folder.
  ///
  /// - Throws: `BackupError.busy` if another server has it.
  init(_ folder: String) throws(BackupError) {
    let directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else { throw BackupError(FileError("open", folder)) }
    // Some network file systems have no such locks. There the ids alone protect the backups of others.
    guard flock(directory, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else {
      close(directory)
      throw .busy(
        "another server makes its backups in \(folder), which may be a symbolic link: give each server a folder of its own"
      )
    }
    descriptor = directory
  }

  deinit { close(descriptor) }

  /// Whether the path still leads to the folder.
  func isOf(_ folder: String) -> Bool {
    var (own, named) = (stat(), stat())
    return fstat(descriptor, &own) == 0 && stat(folder, &named) == 0 && own.st_dev == named.st_dev
      && own.st_ino == named.st_ino
  }
}
