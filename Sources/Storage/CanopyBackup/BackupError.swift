// CanopyBackup owns the file of a backup, and the making, the keeping and the unpacking of such files. It must not know
// requests, sockets, SQL or the meaning of the tree.

public import CanopySystem
internal import Foundation

/// An error of a backup, with a sentence that says what to do.
public enum BackupError: Error, Equatable, Sendable {
  /// The file is not a whole backup.
  case damaged(String)
  /// The backup or the restored folder cannot be written.
  case unwritable(String)
  /// The backup or the restored folder is complete and has its name, but the disk may not have the name yet.
  case unsynchronized(String)
  /// Too little space would stay free on the disk.
  case lowOnSpace(String)
  /// Another backup is being made.
  case busy(String)
  /// The server shuts down.
  case stopped

  /// One sentence that says what is wrong and what to do.
  public var sentence: String {
    switch self {
    case .damaged(let text), .unwritable(let text), .unsynchronized(let text),
      .lowOnSpace(let text), .busy(let text):
      text
    case .stopped: "the server shuts down; make the backup after its next start"
    }
  }

  /// Creates the error for a system call that failed.
  public init(_ error: FileError) {
    let advice =
      [ENOSPC, EDQUOT, EFBIG].contains(error.code)
      ? "; free space on the disk, or choose another one" : ""
    self = .unwritable("cannot \(error.operation) \(error.path): \(error.reason)\(advice)")
  }

  /// Creates the error for a file that is not a whole backup.
  static func damaged(_ path: String, _ problem: String) -> BackupError {
    .damaged("\(path) is damaged or is not a backup: \(problem); use another backup")
  }
}
