import CanopyTree
import Foundation

/// The file that an export is written to.
///
/// A regular file is replaced as a whole: the bytes go to a file beside it, which is synced and renamed. A
/// symbolic link stays, and the file that it leads to is replaced. A device, a pipe or a terminal is written to.
struct ExportFile {
  /// What a name stands for.
  private enum Kind {
    /// A regular file, or none yet, at a path without symbolic links.
    case regular(String)
    /// A device or a pipe.
    case stream
  }

  private let name: String
  private let kind: Kind

  /// Finds out what a name stands for. Nothing is opened.
  ///
  /// - Throws: `Failure` for a directory, a socket, and a link to a missing file.
  init(_ name: String) throws {
    self.name = name
    var status = stat()
    guard stat(name, &status) == 0 else {
      let isMissing = errno == ENOENT
      var link = Foundation.stat()
      guard isMissing, lstat(name, &link) != 0 else {
        throw Failure(
          isMissing
            ? "\(name) is a symbolic link to a missing file; create that file, or name it itself"
            : "\(name) cannot be written: \(ExportFile.reason(errno))")
      }
      kind = .regular(name)
      return
    }
    switch status.st_mode & S_IFMT {
    case S_IFREG: kind = ExportFile.kind(ofRegular: name, status)
    case S_IFCHR, S_IFBLK, S_IFIFO: kind = .stream
    case S_IFDIR: throw Failure("\(name) is a directory; name a file in it")
    default: throw Failure("\(name) is neither a file nor a device nor a pipe; name a file")
    }
  }

  /// Follows links to a regular file. Links of `/proc` (`/dev/stdout`) lead to open files, which may have no
  /// name any more; those are written to.
  private static func kind(ofRegular name: String, _ status: stat) -> Kind {
    guard let path = realpath(name, nil) else { return .stream }
    defer { free(path) }
    var target = stat()
    guard lstat(path, &target) == 0, target.st_dev == status.st_dev, target.st_ino == status.st_ino
    else { return .stream }
    return .regular(String(cString: path))
  }

  /// Writes the bytes that `body` gives to its argument.
  ///
  /// - Throws: `Failure` if they cannot be written; a regular file is then as it was before.
  func write(_ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void) throws {
    switch kind {
    case .stream:
      // An error says more than a signal if nobody reads the pipe any more.
      signal(SIGPIPE, SIG_IGN)
      try withDescriptor(name, O_WRONLY | O_CLOEXEC | O_NOCTTY) { descriptor in
        try body { try writeAll($0, to: descriptor) }
        // A pipe or a terminal cannot be synced, and need not be.
        if fsync(descriptor) != 0, ![EINVAL, EROFS, ENOTSUP].contains(errno) { throw failure() }
      }
    case .regular(let path): try replace(path, body)
    }
  }

  private func replace(
    _ path: String, _ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
  ) throws {
    let temporary = path + ".part-\(ProcessInfo.processInfo.processIdentifier)"
    try withDescriptor(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC) { descriptor in
      do {
        try body { try writeAll($0, to: descriptor) }
        guard fsync(descriptor) == 0, rename(temporary, path) == 0 else { throw failure() }
      } catch {
        unlink(temporary)
        throw error
      }
    }
    // The name itself is durable once the folder is.
    let folder = (path as NSString).deletingLastPathComponent
    let directory = open(folder.isEmpty ? "." : folder, O_RDONLY | O_CLOEXEC)
    if directory >= 0 {
      fsync(directory)
      close(directory)
    }
  }

  private func withDescriptor(_ path: String, _ flags: Int32, _ body: (Int32) throws -> Void) throws
  {
    let descriptor = open(path, flags, 0o600)
    guard descriptor >= 0 else {
      throw Failure("\(path) cannot be written: \(ExportFile.reason(errno))")
    }
    defer { close(descriptor) }
    try body(descriptor)
  }

  private func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = UnsafeRawBufferPointer(rebasing: rest)
      let count = Foundation.write(descriptor, piece.baseAddress, piece.count)
      if count > 0 {
        rest = rest.dropFirst(count)
      } else if count < 0, errno != EINTR {
        throw failure()
      }
    }
  }

  private func failure() -> Failure {
    Failure("\(name) cannot be written: \(ExportFile.reason(errno))")
  }

  /// Returns the system's reason, with an advice where there is one.
  static func reason(_ code: Int32) -> String {
    let text = String(cString: strerror(code))
    switch code {
    case ENOSPC, EDQUOT, EFBIG: return "\(text); make room, or name a file on another disk"
    case EPIPE: return "nobody reads it any more"
    case EACCES, EPERM, EROFS: return "\(text); name a file in a folder that can be written"
    default: return text
    }
  }
}
