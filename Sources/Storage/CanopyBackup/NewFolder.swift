internal import CanopySystem
internal import Foundation

/// A data folder that a command makes: it gets its name when it is complete.
public struct NewFolder: Sendable {
  /// The path, without a slash at its end.
  public let path: String

  /// Names a folder by a path from the root.
  ///
  /// The path loses slashes and dots at its end. Otherwise a folder beside it would be in the folder itself. All other names
  /// stay as they are: see `AbsolutePath`.
  public init(_ folder: String) {
    var bytes = folder.utf8[...]
    while bytes.count > 1,
      bytes.last == UInt8(ascii: "/") || bytes.suffix(2).elementsEqual("/.".utf8)
    {
      bytes.removeLast()
    }
    let path = String(decoding: bytes, as: UTF8.self)
    guard bytes.suffix(3).elementsEqual("/..".utf8), let resolved = realpath(path, nil) else {
      self.path = path
      return
    }
    defer { free(resolved) }
    self.path = String(cString: resolved)
  }

  /// Returns a path beside the folder that nothing has, for a temporary folder: `data.restoring-12`, or
  /// `data.restoring-12-2` if that is taken.
  ///
  /// - Parameters:
  ///   - work: the work in the temporary folder, such as `restoring`.
  ///   - number: a number that other processes do not use.
  public func unusedPath(for work: String, number: Int) -> String {
    let first = "\(path).\(work)-\(number)"
    var (path, next) = (first, 2)
    var status = stat()
    while lstat(path, &status) == 0 {
      path = "\(first)-\(next)"
      next += 1
    }
    return path
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
    guard status.st_mode & S_IFMT != S_IFLNK else {
      throw .unwritable(
        "\(path) is a symbolic link, which the new folder would replace: name the folder to which it leads, or a new one"
      )
    }
    guard status.st_mode & S_IFMT == S_IFDIR,
      let contents = try? FileManager.default.contentsOfDirectory(atPath: path), contents.isEmpty
    else {
      throw .unwritable("\(path) is not an empty folder; name a folder that is new or empty")
    }
  }

  /// Gives the path to a folder that is complete, in one step. It replaces an empty folder.
  ///
  /// First waits until the disk has the folder with all its files, however they were written. Otherwise a loss of power could
  /// leave the name with parts of the files.
  ///
  /// - Throws: `BackupError`, also if only the name may not be on the disk. Then the error says so, and the folder stays.
  public func replace(by folder: String) throws(BackupError) {
    try synchronizeAll(of: folder)
    if access(path, F_OK) == 0 { rmdir(path) }
    guard FileCalls.renameFile(folder, to: path) == 0 else {
      throw BackupError(FileError("create", path))
    }
    try BackupMaker.synchronizeFolder(of: path, "\(path) is complete")
  }

  /// Waits until the disk has the files and folders in a folder, and the folder itself.
  private func synchronizeAll(of folder: String) throws(BackupError) {
    let names: [String]
    do { names = try FileManager.default.subpathsOfDirectory(atPath: folder).sorted() } catch {
      throw .unwritable("\(folder) cannot be read: \(error.localizedDescription)")
    }
    for path in names.map({ folder + "/" + $0 }) + [folder] {
      var status = stat()
      guard lstat(path, &status) == 0, [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT) else {
        continue
      }
      do throws(FileError) { try AtomicFile.synchronize(path) } catch { throw BackupError(error) }
    }
  }
}
