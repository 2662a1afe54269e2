internal import Foundation
internal import Synchronization

/// The exclusive right of one process to use a data folder, until it is released or the process ends.
///
/// It is an advisory lock (`flock`) on the folder itself, so removing a file in the folder does not release it. The
/// kernel releases it when the process ends for any reason, so a crash leaves nothing to clean up. The file `lock`
/// contains the process id, for the error message in a second process.
public final class FolderLock: Sendable {
  private let descriptor: Mutex<Int32?>

  /// Takes the lock.
  ///
  /// - Parameter isReading: whether the folder must not be changed. Then the process id is not written.
  /// - Throws: `StoreError.inUse` if another process has the lock; `StoreError.inaccessible`, also if the file `lock` has
  ///   other names, because the process id would replace the contents of a file outside of the folder.
  public init(folder: String, isReading: Bool = false) throws(StoreError) {
    let directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard directory >= 0 else {
      throw .unopenable(folder, errno)
    }
    let code = flock(directory, LOCK_EX | LOCK_NB) == 0 ? 0 : errno
    let isLocked = code == 0
    // Any other error says nothing about another process.
    guard isLocked || code == EWOULDBLOCK else {
      close(directory)
      throw .inaccessible(
        "the folder \(folder) cannot be locked: \(String(cString: strerror(code))); use a file system that has locks "
          + "(flock), or try again")
    }
    // The last holder of the lock may have removed the folder.
    guard !isLocked || FolderLock.isFolder(folder, directory) else {
      close(directory)
      throw .inaccessible("the folder \(folder) was removed or replaced just now; try again")
    }
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
      close(directory)
      throw .inUse(
        "the data folder \(folder) is in use by \(FolderLock.holder(of: folder)); stop that server first, or name "
          + "another folder")
    }
    var status = stat()
    guard isReading || (fstat(file, &status) == 0 && status.st_nlink <= 1) else {
      close(directory)
      throw .linked(path)
    }
    let text = "\(getpid())\n"
    if !isReading, ftruncate(file, 0) == 0 { _ = text.withCString { write(file, $0, strlen($0)) } }
    descriptor = Mutex(directory)
  }

  /// Returns the name of the process that uses a folder, for a sentence.
  ///
  /// A command that only reads does not write its number into the file `lock`, and a server in a container may write a
  /// number that another process has here. So the number counts only if the system says that its process has the lock.
  public static func holder(of folder: String) -> String {
    var status = stat()
    guard let bytes = FileManager.default.contents(atPath: folder + "/lock"),
      let number = Int32(String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)), number > 0,
      stat(folder, &status) == 0, hasLock(number, status.st_ino)
    else { return "another process" }
    return "process \(number)"
  }

  /// Whether the system lists a lock of a process on a file: `1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF`. The number of
  /// the device is not compared, because some file systems give another one to `stat`.
  private static func hasLock(_ process: Int32, _ inode: ino_t) -> Bool {
    guard let locks = FileManager.default.contents(atPath: "/proc/locks") else { return false }
    return locks.split(separator: UInt8(ascii: "\n")).contains { line in
      let fields = line.split(separator: UInt8(ascii: " "))
      guard fields.count > 5, let file = fields[5].split(separator: UInt8(ascii: ":")).last else {
        return false
      }
      return fields[4].elementsEqual("\(process)".utf8) && file.elementsEqual("\(inode)".utf8)
    }
  }

  /// Runs a step with the lock of a folder, whose files stay as they are; does nothing if another process has the lock. If
  /// the folder cannot be opened, the step finds out why.
  static func unlessInUse(
    _ folder: String, _ step: () throws(StoreError) -> Void
  ) throws(StoreError) {
    let directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
    defer { if directory >= 0 { close(directory) } }
    if directory >= 0, flock(directory, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { return }
    try step()
  }

  /// Whether a path still names the folder of a descriptor.
  private static func isFolder(_ path: String, _ descriptor: Int32) -> Bool {
    var (named, opened) = (stat(), stat())
    return stat(path, &named) == 0 && fstat(descriptor, &opened) == 0
      && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev
  }

  deinit {
    release()
  }

  /// Releases the lock. Later calls do nothing.
  public func release() {
    let directory = descriptor.withLock { $0.take() }
    guard let directory else { return }
    // Unlocked explicitly, because a child process that is just starting may still have a copy of the descriptor.
    flock(directory, LOCK_UN)
    close(directory)
  }
}
