internal import Foundation
internal import Synchronization

/// The right to use a data folder: one process at a time, held until released or the process ends.
///
/// An advisory lock (`flock`) on the file `lock` in the folder. The kernel drops it when the process
/// dies in whatever way, so a crash leaves nothing to clean up. The file holds the process id, for the
/// message to the second comer.
final class FolderLock: Sendable {
  private let descriptor: Mutex<Int32?>

  /// Takes the lock.
  ///
  /// - Throws: `StoreError.inUse` when another process has it.
  init(folder: String) throws(StoreError) {
    let path = folder + "/lock"
    let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard file >= 0 else {
      throw .inaccessible("\(path) cannot be opened: \(String(cString: strerror(errno)))")
    }
    guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
      var bytes = [UInt8](repeating: 0, count: 20)
      let count = max(0, read(file, &bytes, bytes.count))
      let digits = bytes.prefix(count).prefix { $0 >= 0x30 && $0 <= 0x39 }
      let holder = digits.isEmpty ? "" : " \(String(decoding: digits, as: UTF8.self))"
      close(file)
      throw .inUse(
        "the data folder \(folder) is in use by process\(holder); stop that server first, or name "
          + "another folder")
    }
    let text = "\(getpid())\n"
    if ftruncate(file, 0) == 0 { _ = text.withCString { write(file, $0, strlen($0)) } }
    descriptor = Mutex(file)
  }

  deinit {
    release()
  }

  /// Gives the lock back.
  func release() {
    let file = descriptor.withLock { $0.take() }
    if let file { close(file) }
  }
}
