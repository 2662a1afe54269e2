import CanopyBackup
import CanopySystem
import CanopyTree
import Foundation

/// The output file of an export.
///
/// A regular file is replaced as a whole: the bytes go to a temporary file, which is synced and renamed. A symbolic
/// link stays, and its target is replaced. The bytes for a device, a pipe or a terminal are written into it.
struct ExportFile {
  /// The kind of a file.
  private enum Kind {
    /// A regular file, or a file that does not exist yet, at a path without symbolic links.
    /// Two exports to the same file have different temporary files, and none has that of a killed export.
    case regular(String, temporary: String)
    /// A device or a pipe.
    case stream
    /// A regular file that is open already, such as `/dev/stdout`. The bytes follow those that were written before.
    case descriptor(Int32)
  }

  private let name: String
  private let kind: Kind

  /// The path of the regular file that is replaced or created, without a symbolic link at its end; nil for a stream.
  var path: String? { if case .regular(let path, _) = kind { path } else { nil } }

  /// The path of the temporary file, which an interruption leaves; nil for a stream.
  var temporary: String? { if case .regular(_, let temporary) = kind { temporary } else { nil } }

  /// Finds the kind of the file with a name, without opening it.
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
            ? "\(name) is a symbolic link to a missing file; create that file, or give its own name"
            : "\(name) cannot be written: \(ExportFile.reason(errno))")
      }
      kind = ExportFile.kind(ofPath: try Setting.path(name))
      return
    }
    switch status.st_mode & S_IFMT {
    case S_IFREG: kind = ExportFile.kind(ofRegular: name, status)
    case S_IFCHR, S_IFBLK, S_IFIFO: kind = .stream
    case S_IFDIR: throw Failure("\(name) is a directory; name a file in it")
    default: throw Failure("\(name) is neither a file nor a device nor a pipe; name a file")
    }
  }

  private static func kind(ofPath path: String) -> Kind {
    let number = Int(ProcessInfo.processInfo.processIdentifier)
    return .regular(
      path, temporary: NewFolder.unusedPath(beside: path, for: "part", number: number))
  }

  /// Follows links to a regular file. A link of `/proc` (`/dev/stdout`) leads to an open file, which may have no
  /// name any more; it counts as a stream.
  private static func kind(ofRegular name: String, _ status: stat) -> Kind {
    if let descriptor = openDescriptor(name, status) { return .descriptor(descriptor) }
    guard let path = realpath(name, nil) else { return .stream }
    defer { free(path) }
    var target = stat()
    guard lstat(path, &target) == 0, target.st_dev == status.st_dev, target.st_ino == status.st_ino
    else { return .stream }
    return Self.kind(ofPath: String(cString: path))
  }

  /// Returns the open descriptor to which a name such as `/dev/stdout` or `/proc/self/fd/3` leads; nil for any other name.
  private static func openDescriptor(_ name: String, _ status: stat) -> Int32? {
    guard name.hasBytePrefix("/dev/") || name.hasBytePrefix("/proc/") else { return nil }
    let number = name.utf8.lastIndex(of: UInt8(ascii: "/")).flatMap {
      Int32(String(decoding: name.utf8[$0...].dropFirst(), as: UTF8.self))
    }
    return ([number, STDOUT_FILENO, STDERR_FILENO] as [Int32?]).compactMap(\.self).first {
      var opened = stat()
      return fstat($0, &opened) == 0 && opened.st_dev == status.st_dev
        && opened.st_ino == status.st_ino
    }
  }

  /// Writes the bytes that `body` passes to its argument.
  ///
  /// - Throws: `Failure` if they cannot be written. A regular file is then unchanged.
  func write(_ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void) throws {
    switch kind {
    case .stream:
      // If the reader of a pipe has gone, report an error instead of ending by a signal.
      signal(SIGPIPE, SIG_IGN)
      let descriptor = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY)
      guard descriptor >= 0 else { throw failure(errno) }
      defer { close(descriptor) }
      try write(to: descriptor, body)
    case .descriptor(let descriptor): try write(to: descriptor, body)
    case .regular(let path, let temporary):
      do {
        try AtomicFile.replace(path, temporary: temporary, body)
      } catch let error as FileError {
        throw failure(error.code)
      }
    }
  }

  private func write(
    to descriptor: Int32, _ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
  ) throws {
    do {
      try body { try AtomicFile.writeAll($0, to: descriptor, name) }
    } catch let error as FileError {
      throw failure(error.code)
    }
    // A pipe or a terminal cannot be synchronized, and need not be.
    if fsync(descriptor) != 0, ![EINVAL, EROFS, ENOTSUP].contains(errno) { throw failure(errno) }
  }

  private func failure(_ code: Int32) -> Failure {
    Failure("\(name) cannot be written: \(ExportFile.reason(code))")
  }

  /// Returns the system's reason, followed by advice if there is any.
  static func reason(_ code: Int32) -> String {
    let text = String(cString: strerror(code))
    switch code {
    case ENOSPC, EDQUOT, EFBIG: return "\(text); free space, or name a file on another disk"
    case EPIPE: return "its reader has closed it"
    case EACCES, EPERM, EROFS: return "\(text); name a file in a folder that you may write"
    default: return text
    }
  }
}
