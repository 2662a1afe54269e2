internal import Foundation
internal import Synchronization

/// The right to use a data folder: one process at a time, held until released or the process ends.
///
/// An advisory lock (`flock`) on the folder itself: removing a file in it does not give it free. The
/// kernel drops it when the process dies in whatever way, so a crash leaves nothing to clean up. The
/// file `lock` holds the process id, for the message to the second comer.
final class FolderLock: Sendable {
  private let descriptor: Mutex<Int32?>

  /// Takes the lock.
  ///
  /// - Parameter isReading: whether nothing in the folder is to be changed; then the process id is not written.
  /// - Throws: `StoreError.inUse` when another process has it.
  init(folder: String, isReading: Bool = false) throws(StoreError) {
    let directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else {
      throw .unopenable(folder, errno)
    }
    let isLocked = flock(directory, LOCK_EX | LOCK_NB) == 0
    let path = folder + "/lock"
    let flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
    let file = open(path, flags | (isReading ? O_RDONLY : O_RDWR | O_CREAT), 0o600)
    guard file >= 0 || (isReading && isLocked) else {
      let code = errno
      close(directory)
      throw .unopenable(path, code)
    }
    defer { if file >= 0 { close(file) } }
    guard isLocked else {
      var bytes = [UInt8](repeating: 0, count: 20)
      let count = max(0, read(file, &bytes, bytes.count))
      let digits = bytes.prefix(count).prefix { $0 >= 0x30 && $0 <= 0x39 }
      let holder =
        digits.isEmpty ? "another process" : "process \(String(decoding: digits, as: UTF8.self))"
      close(directory)
      throw .inUse(
        "the data folder \(folder) is in use by \(holder); stop that server first, or name "
          + "another folder")
    }
    let text = "\(getpid())\n"
    if !isReading, ftruncate(file, 0) == 0 { _ = text.withCString { write(file, $0, strlen($0)) } }
    descriptor = Mutex(directory)
  }

  deinit {
    release()
  }

  /// Gives the lock back.
  func release() {
    let directory = descriptor.withLock { $0.take() }
    guard let directory else { return }
    // Unlocked by name: a process that is just being started may have a copy of the descriptor yet.
    flock(directory, LOCK_UN)
    close(directory)
  }
}
