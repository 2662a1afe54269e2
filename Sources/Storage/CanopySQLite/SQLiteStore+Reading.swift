internal import Foundation
internal import Synchronization

extension SQLiteStore {
  /// The folder with the copies of folders of older versions that this process reads. It exists as long as there is a
  /// copy. A command that a signal ends must remove it.
  public static let temporaryFolder =
    FileManager.default.temporaryDirectory.path + "/canopy-older-\(UUID().uuidString)"

  /// Whether `canopy.tail` of a folder is damaged, so that it cannot prove which commits were stored.
  public static func hasDamagedTail(_ folder: String) -> Bool {
    let file = TailFile(folder: folder, isRelaxed: false)
    return file.exists && (try? file.read()) == nil
  }

  private static let temporaryCount = Atomic(0)

  /// Opens a data folder for reading only. Changes nothing in the folder, which need not be writable.
  ///
  /// A folder of an older version is copied into ``temporaryFolder``, and the copy is updated and read.
  ///
  /// - Parameters:
  ///   - isOwnCopy: whether the folder is a copy that the caller has made. Then it is updated itself.
  ///   - hasBeenUsed: whether the folder is known to have had tables: see `Configuration.hasBeenUsed`.
  /// - Throws: `StoreError`. A loss is no error here; see `losses`.
  public static func reading(
    _ folder: String, isOwnCopy: Bool = false, hasBeenUsed: Bool = false
  ) throws -> SQLiteStore {
    if let store = try SQLiteStore(readingCurrent: folder, hasBeenUsed: hasBeenUsed) {
      return store
    }
    return isOwnCopy ? try SQLiteStore(folder: folder) : try updatedCopy(of: folder)
  }

  private static func updatedCopy(of folder: String) throws -> SQLiteStore {
    let number = temporaryCount.add(1, ordering: .relaxed).newValue
    let copy = "\(temporaryFolder)/\(number)"
    do {
      try FileManager.default.createDirectory(
        atPath: copy, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      try copyFiles(of: folder, to: copy)
      var configuration = Configuration()
      configuration.isTemporary = true
      configuration.createsFolder = false
      return try SQLiteStore(folder: copy, configuration: configuration)
    } catch {
      removeTemporary(copy)
      switch error {
      case StoreError.damaged(let text):
        throw StoreError.damaged(text.replacing(copy, with: folder))
      case StoreError.inUse: throw error
      default:
        throw StoreError.inaccessible(
          "an older version wrote \(folder), and the copy of it that is updated and read cannot be made: make room in "
            + "the temporary folder of the system, or name another one with TMPDIR (\(reason(error)))"
        )
      }
    }
  }

  private static func reason(_ error: any Error) -> String {
    (error as? StoreError)?.sentence ?? error.localizedDescription
  }

  /// Removes a copy, and the folder of the copies if it was the last one.
  static func removeTemporary(_ copy: String) {
    try? FileManager.default.removeItem(atPath: copy)
    rmdir(temporaryFolder)
  }
}
