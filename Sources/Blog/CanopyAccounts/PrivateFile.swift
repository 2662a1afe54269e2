#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Files that nobody else may read, by the system's own calls: Foundation creates a file first
/// and restricts it afterwards, and in between anyone could open it.
///
/// Everything throws ``AdministratorTokenProblem``.
enum PrivateFile {
  /// Creates a file with mode 0600 from the start, writes it and waits until it is on the disk.
  /// Refuses a name that is taken, even by a symbolic link.
  static func create(_ path: String, content: [UInt8]) throws {
    let file = try retrying("create") {
      open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode_t(0o600))
    }
    defer { close(file) }
    var rest = content[...]
    while !rest.isEmpty {
      let written = try retrying("write") {
        rest.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
      }
      rest = rest.dropFirst(written)
    }
    try retrying("synchronise") { fsync(file) }
  }

  /// The content of a private file, or nil if there is no such file.
  ///
  /// What is read is the file that was checked, not one put in its place in between.
  ///
  /// - Throws: `.notAFile`; `.exposed` if group or others may do anything with it; `.malformed` if
  ///   it has more than `bytesMax` bytes.
  static func read(_ path: String, bytesMax: Int) throws -> [UInt8]? {
    // Without O_NONBLOCK, opening a pipe would wait for its other end.
    let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
    var file = open(path, flags)
    while file < 0 && errno == EINTR { file = open(path, flags) }
    if file < 0 && errno == ENOENT { return nil }
    if file < 0 && errno == ELOOP { throw AdministratorTokenProblem.notAFile }
    guard file >= 0 else { throw problem("open") }
    defer { close(file) }

    var status = stat()
    guard fstat(file, &status) == 0 else { throw problem("examine") }
    guard status.st_mode & S_IFMT == S_IFREG else { throw AdministratorTokenProblem.notAFile }
    let mode = UInt32(status.st_mode & 0o777)
    guard mode & 0o077 == 0 else { throw AdministratorTokenProblem.exposed(mode: mode) }

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
    throw AdministratorTokenProblem.malformed
  }

  /// Gives a file another name, replacing what has that name, in one step.
  static func rename(_ path: String, to name: String) throws {
    #if canImport(Glibc)
      guard Glibc.rename(path, name) == 0 else { throw problem("rename") }
    #else
      guard Musl.rename(path, name) == 0 else { throw problem("rename") }
    #endif
  }

  /// Waits until the names in a folder are on the disk.
  static func synchronizeFolder(_ path: String) throws {
    let folder = try retrying("open the folder of") {
      open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    }
    defer { close(folder) }
    try retrying("synchronise the folder of") { fsync(folder) }
  }

  /// Removes a file, or does nothing if there is none.
  static func removeIfPresent(_ path: String) throws {
    guard unlink(path) == 0 || errno == ENOENT else { throw problem("replace") }
  }

  /// Does a system call again for as long as a signal interrupts it.
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

  private static func problem(_ operation: String) -> AdministratorTokenProblem {
    let code = errno
    var buffer = [CChar](repeating: 0, count: 256)
    guard strerror_r(code, &buffer, buffer.count - 1) == 0 else {
      return .system(operation: operation, reason: "error \(code)")
    }
    let text = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    return .system(operation: operation, reason: String(decoding: text, as: UTF8.self))
  }
}
