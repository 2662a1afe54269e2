#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A system call on a file that failed.
public struct FileError: Error, Equatable, Sendable {
  /// The operation as a verb, such as "create" or "write".
  public let operation: String
  /// The file or the folder.
  public let path: String
  /// The system's error number.
  public let code: Int32

  /// The system's description of the error number.
  public var reason: String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard strerror_r(code, &buffer, buffer.count - 1) == 0 else { return "error \(code)" }
    return String(
      decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Creates the error of the system call that has just failed, from `errno`.
  public init(_ operation: String, _ path: String) {
    self.operation = operation
    self.path = path
    code = errno
  }
}

/// The replacement and the removal of a file, such that a crash at any time leaves the old file or the new one.
///
/// The new bytes go to a temporary file in the same folder, which is synchronized and then renamed. Last, the folder is
/// synchronized, because a name is durable only then. Each call blocks its thread until the disk has answered.
public enum AtomicFile {
  /// Replaces a file, or creates it, with mode 0600. A symbolic link at the path is replaced itself.
  ///
  /// The temporary file is `path` with the suffix `.new`. One that a crash has left is removed first, so only one
  /// process may replace a file at a time.
  ///
  /// - Throws: `FileError`; the file is then unchanged, unless the operation is "synchronize the folder of".
  public static func replace(_ path: String, with bytes: [UInt8]) throws(FileError) {
    let temporary = path + ".new"
    guard FileCalls.removeFile(temporary) == 0 || errno == ENOENT else {
      throw FileError("replace", temporary)
    }
    let file = try create(temporary)
    do throws(FileError) {
      defer { close(file) }
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = try retrying("write", temporary) {
          rest.withUnsafeBytes { FileCalls.writeBytes($0, to: file, temporary) }
        }
        rest = rest.dropFirst(count)
      }
      try finish(file, temporary, path)
    } catch {
      _ = FileCalls.removeFile(temporary)
      throw error
    }
    try synchronizeFolder(of: path)
  }

  /// Replaces a file, or creates it, with mode 0600 and the bytes that `body` passes to its argument.
  ///
  /// - Parameters:
  ///   - path: the file.
  ///   - temporary: the path of the temporary file, in the same folder. It must not exist.
  ///   - body: writes the contents.
  /// - Throws: `FileError`, or an error of `body`; the file is then unchanged, unless the operation is "synchronize the
  ///   folder of".
  public static func replace(
    _ path: String, temporary: String,
    _ body: (_ write: (UnsafeRawBufferPointer) throws -> Void) throws -> Void
  ) throws {
    let file = try create(temporary)
    do {
      defer { close(file) }
      try body { try writeAll($0, to: file, temporary) }
      try finish(file, temporary, path)
    } catch {
      _ = FileCalls.removeFile(temporary)
      throw error
    }
    try synchronizeFolder(of: path)
  }

  /// Removes a file, if it exists.
  public static func remove(_ path: String) throws(FileError) {
    guard FileCalls.removeFile(path) == 0 || errno == ENOENT else {
      throw FileError("remove", path)
    }
    try synchronizeFolder(of: path)
  }

  /// Writes bytes to an open file or pipe.
  ///
  /// - Parameter path: the name for an error.
  public static func writeAll(
    _ bytes: UnsafeRawBufferPointer, to descriptor: Int32, _ path: String
  ) throws(FileError) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = UnsafeRawBufferPointer(rebasing: rest)
      let count = try retrying("write", path) {
        FileCalls.writeBytes(piece, to: descriptor, path)
      }
      rest = rest.dropFirst(count)
    }
  }

  /// Creates the temporary file. Refuses a path that exists, even as a symbolic link.
  private static func create(_ temporary: String) throws(FileError) -> Int32 {
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
    return try retrying("create", temporary) { FileCalls.openFile(temporary, flags) }
  }

  /// Synchronizes the temporary file and renames it.
  private static func finish(
    _ file: Int32, _ temporary: String, _ path: String
  ) throws(FileError) {
    try retrying("synchronize", temporary) { FileCalls.synchronize(file, temporary) }
    guard FileCalls.renameFile(temporary, to: path) == 0 else { throw FileError("replace", path) }
  }

  /// Waits until the names in the folder of a file are on the disk.
  ///
  /// - Throws: `FileError` with the operation "synchronize the folder of".
  public static func synchronizeFolder(of path: String) throws(FileError) {
    let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
    let folder = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let operation = "synchronize the folder of"
    let directory = try retrying(operation, path) {
      FileCalls.openFile(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    }
    defer { close(directory) }
    try retrying(operation, path) { FileCalls.synchronize(directory, folder) }
  }

  /// Waits until the contents of a file, or the names in a folder, are on the disk.
  public static func synchronize(_ path: String) throws(FileError) {
    let file = try retrying("synchronize", path) {
      FileCalls.openFile(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
    }
    defer { close(file) }
    try retrying("synchronize", path) { FileCalls.synchronize(file, path) }
  }

  /// Repeats a system call while signals interrupt it. Returns its result, which is not negative.
  @discardableResult
  private static func retrying<Result: FixedWidthInteger>(
    _ operation: String, _ path: String, _ call: () -> Result
  ) throws(FileError) -> Result {
    while true {
      let result = call()
      if result >= 0 { return result }
      guard errno == EINTR else { throw FileError(operation, path) }
    }
  }
}
