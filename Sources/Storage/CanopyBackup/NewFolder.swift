internal import CanopySystem
internal import Foundation

/// A data folder that a command makes: it gets its name when it is complete.
public struct NewFolder: Sendable {
  /// The path, without a slash at its end.
  public let path: String

  /// Names a folder.
  public init(_ folder: String) {
    let path = URL(fileURLWithPath: folder).standardizedFileURL.path
    self.path =
      path.utf8.count > 1 && path.utf8.last == UInt8(ascii: "/")
      ? String(decoding: path.utf8.dropLast(), as: UTF8.self) : path
  }

  /// Checks that nothing has the path, or only an empty folder.
  ///
  /// - Throws: `BackupError`.
  public func checkIsFree() throws(BackupError) {
    var status = stat()
    guard lstat(path, &status) == 0 else {
      guard errno == ENOENT else { throw BackupError(FileError("examine", path)) }
      return
    }
    guard status.st_mode & S_IFMT == S_IFDIR,
      let contents = try? FileManager.default.contentsOfDirectory(atPath: path), contents.isEmpty
    else {
      throw .unwritable("\(path) is not an empty folder; name a folder that is new or empty")
    }
  }

  /// Gives the path to a folder that is complete, in one step. It replaces an empty folder.
  ///
  /// - Throws: `BackupError`.
  public func replace(by folder: String) throws(BackupError) {
    if access(path, F_OK) == 0 { rmdir(path) }
    guard FileCalls.renameFile(folder, to: path) == 0 else {
      throw BackupError(FileError("create", path))
    }
    try BackupMaker.synchronizeFolder(of: path)
  }
}
