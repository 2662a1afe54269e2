internal import CanopySystem
internal import Foundation

/// A data folder that a command makes: it gets its name when it is complete.
public struct NewFolder: Sendable {
  /// The path, without a slash at its end.
  public let path: String

  /// Names a folder by a path from the root.
  ///
  /// The path of a folder that exists loses its links. That of another one loses slashes and dots at its end, so that a path
  /// beside it is not in the folder itself. All other names stay as they are: see `AbsolutePath`.
  public init(_ folder: String) {
    if let resolved = realpath(folder, nil) {
      defer { free(resolved) }
      path = String(cString: resolved)
      return
    }
    var bytes = folder.utf8[...]
    while bytes.count > 1,
      bytes.last == UInt8(ascii: "/") || bytes.suffix(2).elementsEqual("/.".utf8)
    {
      bytes.removeLast()
    }
    path = String(decoding: bytes, as: UTF8.self)
  }

  /// Returns a path that nothing has, for the temporary folder in which the new folder is filled: `data.restoring-12`
  /// beside it, or `data/.restoring-12` if the folder exists. An existing folder may be a mount point, which cannot be
  /// replaced, and the user may have no permission to create a folder beside it. If the path is taken, `-2` and so on
  /// follows.
  ///
  /// - Parameters:
  ///   - work: the work in the temporary folder, such as `restoring`.
  ///   - number: a number that other processes do not use.
  public func workPath(for work: String, number: Int) -> String {
    Self.unused(isFolder ? "\(path)/.\(work)-\(number)" : "\(path).\(work)-\(number)")
  }

  /// Returns a path beside a file that nothing has, for a temporary file: `monday.tar.part-12`, or `monday.tar.part-12-2`
  /// if that is taken.
  public static func unusedPath(beside file: String, for work: String, number: Int) -> String {
    unused("\(file).\(work)-\(number)")
  }

  private static func unused(_ first: String) -> String {
    var (path, next) = (first, 2)
    var status = stat()
    while lstat(path, &status) == 0 {
      path = "\(first)-\(next)"
      next += 1
    }
    return path
  }

  /// Whether the path is that of a folder, or of a link to one.
  private var isFolder: Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Checks that nothing has the path, or only an empty folder, or a link to one. The folder `lost+found`, which a new disk
  /// has, does not count.
  ///
  /// - Parameter allowsHidden: whether names that begin with a dot do not count, as those of `workPath`.
  /// - Throws: `BackupError`.
  public func checkIsFree(allowsHidden: Bool = false) throws(BackupError) {
    var status = stat()
    guard stat(path, &status) == 0 else {
      guard errno == ENOENT else { throw BackupError(FileError("examine", path)) }
      guard lstat(path, &status) != 0 else {
        throw .unwritable("\(path) is a symbolic link to a missing folder; name another folder")
      }
      return
    }
    guard isFolder, let contents = try? FileManager.default.contentsOfDirectory(atPath: path),
      contents.allSatisfy({
        $0.utf8.elementsEqual("lost+found".utf8)
          || allowsHidden && $0.utf8.first == UInt8(ascii: ".")
      })
    else {
      throw .unwritable("\(path) is not an empty folder; name a folder that is new or empty")
    }
  }

  /// Gives the path to a folder that is complete, in one step. If an empty folder has the path, the files are moved into it,
  /// and `canopy.sqlite` last: without it, no server starts with the folder.
  ///
  /// First waits until the disk has the folder with all its files, however they were written. Otherwise a loss of power could
  /// leave the name with parts of the files.
  ///
  /// - Parameters:
  ///   - folder: a folder at the path that `workPath` has returned.
  ///   - willName: called before the first change of the path, when the disk has all files.
  /// - Throws: `BackupError`, also if only the name may not be on the disk. Then the error says so, and the folder stays.
  public func fill(
    from folder: String, willName: () -> Void = {}
  ) throws(BackupError) {
    try synchronizeAll(of: folder)
    willName()
    guard access("\(folder)/\(Self.database)", F_OK) == 0 else {
      throw BackupError(FileError("find", "\(folder)/\(Self.database)"))
    }
    guard isFolder else {
      guard FileCalls.renameFile(folder, to: path) == 0 else {
        throw BackupError(FileError("create", path))
      }
      return try BackupMaker.synchronizeFolder(of: path, "\(path) is complete")
    }
    try moveFiles(of: folder)
    // Other users must not read the data and the secrets. If the folder belongs to another user, its mode stays.
    chmod(path, 0o700)
    rmdir(folder)
    try BackupMaker.synchronizeFolder(of: "\(path)/\(Self.database)", "\(path) is complete")
  }

  private static let database = "canopy.sqlite"

  /// Moves the files of a folder into the empty folder at the path. If one cannot be moved, moves all back.
  private func moveFiles(of folder: String) throws(BackupError) {
    try checkIsFree(allowsHidden: true)
    let names: [String]
    do { names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted() } catch {
      throw .unwritable("\(folder) cannot be read: \(error.localizedDescription)")
    }
    let first = names.filter { !$0.utf8.elementsEqual(Self.database.utf8) }
    var moved: [String] = []
    do throws(FileError) {
      for name in first + [Self.database] {
        // Otherwise a loss of power could leave the database without another file.
        if moved.count == first.count { try AtomicFile.synchronize(path) }
        guard FileCalls.renameFile("\(folder)/\(name)", to: "\(path)/\(name)") == 0 else {
          throw FileError("create", "\(path)/\(name)")
        }
        moved.append(name)
      }
    } catch {
      for name in moved { _ = FileCalls.renameFile("\(path)/\(name)", to: "\(folder)/\(name)") }
      throw BackupError(error)
    }
  }

  /// Waits until the disk has the files and folders in a folder, and the folder itself.
  private func synchronizeAll(of folder: String) throws(BackupError) {
    let names: [String]
    do { names = try FileManager.default.subpathsOfDirectory(atPath: folder).sorted() } catch {
      throw .unwritable("\(folder) cannot be read: \(error.localizedDescription)")
    }
    for path in names.map({ folder + "/" + $0 }) + [folder] {
      var status = stat()
      guard lstat(path, &status) == 0 else { throw BackupError(FileError("examine", path)) }
      guard [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT) else { continue }
      do throws(FileError) { try AtomicFile.synchronize(path) } catch { throw BackupError(error) }
    }
  }
}
