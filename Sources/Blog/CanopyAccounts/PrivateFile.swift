internal import CanopySystem

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The reading of a file that only its owner may read.
package enum PrivateFile {
  /// Returns the contents of a private file; nil if it does not exist.
  ///
  /// Checks the open file, and not its path, so that no other file can take its place after the check.
  ///
  /// - Throws: ``PrivateFileProblem``: `.notAFile`; `.exposed` if the group or others have any permission;
  ///   `.malformed` if the file has more than `bytesMax` bytes.
  package static func read(_ path: String, bytesMax: Int) throws -> [UInt8]? {
    // Without O_NONBLOCK, opening a pipe would wait for its other end.
    let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
    var file = open(path, flags)
    while file < 0 && errno == EINTR { file = open(path, flags) }
    if file < 0 && errno == ENOENT { return nil }
    if file < 0 && errno == ELOOP { throw PrivateFileProblem.notAFile }
    guard file >= 0 else { throw problem("open") }
    defer { close(file) }

    var status = stat()
    guard fstat(file, &status) == 0 else { throw problem("examine") }
    guard status.st_mode & S_IFMT == S_IFREG else { throw PrivateFileProblem.notAFile }
    let mode = UInt32(status.st_mode & 0o777)
    guard mode & 0o077 == 0 else { throw PrivateFileProblem.exposed(mode: mode) }

    var content: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: bytesMax + 1)
    while content.count <= bytesMax {
      let count = try retrying("read") {
        #if canImport(Glibc)
          Glibc.read(file, &buffer, buffer.count)
        #else
          Musl.read(file, &buffer, buffer.count)
        #endif
      }
      guard count > 0 else { return content }
      content += buffer.prefix(count)
    }
    throw PrivateFileProblem.malformed
  }

  /// Repeats a system call while signals interrupt it.
  @discardableResult
  private static func retrying<Count: FixedWidthInteger>(
    _ operation: String, _ call: () -> Count
  ) throws -> Count {
    while true {
      let result = call()
      if result >= 0 { return result }
      guard errno == EINTR else { throw problem(operation) }
    }
  }

  /// Returns the problem of the system call that has just failed.
  private static func problem(_ operation: String) -> PrivateFileProblem {
    let error = FileError(operation, "")
    return .system(operation: operation, reason: error.reason)
  }
}
