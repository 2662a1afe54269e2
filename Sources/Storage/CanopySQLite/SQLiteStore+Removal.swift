internal import CanopySystem
internal import Foundation

extension SQLiteStore {
  /// Creates a data folder without data.
  ///
  /// The folder gets its name when all its files are on the disk. So a crash leaves the whole folder, or no folder of the
  /// name; the rest under the other name can be deleted at any time.
  ///
  /// The first server that opens the folder begins with new sequence numbers, because clients may remember those of an
  /// earlier folder of the name.
  ///
  /// - Parameter new: an unused path in the same parent folder, under which the folder is filled.
  /// - Throws: `StoreError`, also if a folder of the name has files. Then it is unchanged.
  public static func create(folder: String, through new: String) throws {
    var made = new
    do {
      var configuration = Configuration()
      configuration.requiresNewNumbers = true
      try SQLiteStore(folder: new, configuration: configuration).close()
      // While it is locked, no other command deletes it as a rest.
      let lock = try FolderLock(folder: new)
      defer { lock.release() }
      guard FileCalls.renameFile(new, to: folder) == 0 else { throw FileError("create", folder) }
      made = folder
      try AtomicFile.synchronizeFolder(of: folder)
      try AtomicFile.synchronizeFolder(
        of: URL(fileURLWithPath: folder).deletingLastPathComponent().path)
    } catch {
      // The name may not be on the disk, so the next try begins again.
      try? FileManager.default.removeItem(atPath: made)
      guard let error = error as? FileError else { throw error }
      throw StoreError.inaccessible(
        "\(folder) cannot be created: \(error.reason); check the folder above it, and try again")
    }
  }

  /// Deletes a data folder that no process uses, with everything in it.
  ///
  /// The folder gets another name first, which is one step for the file system. So a crash leaves the whole folder
  /// under the old name, or no folder there; the rest under the other name can be deleted at any time.
  ///
  /// - Parameter removed: an unused path in the same parent folder, under which the folder is deleted.
  /// - Throws: `StoreError.inUse`, and then nothing is changed; or `StoreError.inaccessible`.
  public static func remove(folder: String, through removed: String) throws(StoreError) {
    var status = stat()
    guard lstat(folder, &status) == 0 else { throw .unopenable(folder, errno) }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      throw .inaccessible(
        "\(folder) is a link to another place: remove the link, and the folder there, yourself")
    }
    let lock = try FolderLock(folder: folder)
    defer { lock.release() }
    guard FileCalls.renameFile(folder, to: removed) == 0 else {
      let code = errno
      throw .inaccessible(
        "\(folder) cannot be removed: \(String(cString: strerror(code))); check the permissions of the folder above it"
      )
    }
    // Otherwise a loss of power may bring the name back, and the removal is to be asked for again.
    try? AtomicFile.synchronizeFolder(of: removed)
    try delete(removed)
  }

  /// Deletes the rest of a folder that `remove` has moved or `create` has begun, unless another process is at work in it
  /// now. That process has the lock of the folder until it is done.
  ///
  /// - Throws: `StoreError.inaccessible`.
  public static func deleteRest(_ removed: String) throws(StoreError) {
    try FolderLock.unlessInUse(removed) { () throws(StoreError) in try delete(removed) }
  }

  /// Deletes a folder that `remove` has moved, or the rest of it.
  ///
  /// - Throws: `StoreError.inaccessible`.
  private static func delete(_ removed: String) throws(StoreError) {
    do {
      try FileManager.default.removeItem(atPath: removed)
    } catch {
      // Another command may have deleted it meanwhile.
      guard access(removed, F_OK) == 0 else { return }
      throw .inaccessible(
        "\(removed), the rest of a removed folder, cannot be deleted: delete it yourself")
    }
  }
}
