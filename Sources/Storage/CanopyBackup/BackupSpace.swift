internal import Foundation

/// The free space that backups must leave on their disk.
///
/// A server refuses writes of its users when too little space is free. A backup is less important than these writes, so it
/// is refused if it would take that space, and given up if other programs or the writes take it meanwhile.
public struct BackupSpace: Sendable {
  /// The bytes that must stay free.
  public var bytesMin: Int64
  /// Returns the free bytes of the disk of a folder; nil if the system does not report them. Then backups have no bound.
  public var freeBytes: @Sendable (_ folder: String) -> Int64?

  /// Creates a bound.
  public init(bytesMin: Int64, freeBytes: @escaping @Sendable (_ folder: String) -> Int64?) {
    self.bytesMin = bytesMin
    self.freeBytes = freeBytes
  }

  /// No bound, for a command whose user watches the disk.
  public static let unbounded = BackupSpace(bytesMin: 0) { _ in nil }

  /// Checks before a backup that enough space is free.
  ///
  /// - Parameters:
  ///   - needed: the most bytes that the backup takes at one time.
  ///   - folder: a folder on the disk of the backup.
  /// - Throws: `BackupError.lowOnSpace`.
  func check(for needed: Int64, in folder: String) throws(BackupError) {
    guard let free = freeBytes(folder) else { return }
    // Neither number is negative, so a difference has no overflow.
    guard free - needed < bytesMin else { return }
    throw .lowOnSpace(
      "a backup needs about \(needed) bytes, and \(bytesMin) bytes must stay free, but the disk of \(folder) has only "
        + "\(free): remove old backups, or use a larger disk")
  }

  /// Checks during a backup that enough space is left.
  ///
  /// - Throws: `BackupError.lowOnSpace`.
  func check(in folder: String) throws(BackupError) {
    guard let free = freeBytes(folder), free < bytesMin else { return }
    throw .lowOnSpace(
      "the backup was given up, because the disk of \(folder) has only \(free) bytes left, and \(bytesMin) must stay free: "
        + "remove old backups, or use a larger disk")
  }

  /// Returns the most bytes that a backup of some folders takes at one time, about.
  ///
  /// Each database is copied, and then the copy is written into the file of the backup and removed. The write-ahead log may
  /// have pages that the database file lacks. Gaps of a damaged log are not copied.
  static func bytesNeeded(for folders: [String]) -> Int64 {
    var (written, most) = (Int64(0), Int64(0))
    for folder in folders {
      let database = "\(folder)/canopy.sqlite"
      let size = bytes(of: database) + bytesOnDisk(of: database + "-wal")
      written += size
      most = max(most, written + size)
    }
    return most
  }

  /// Returns the size of a file; 0 if it does not exist, because the copy reports that.
  private static func bytes(of path: String) -> Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  /// Returns the size of a file without its gaps; 0 if it does not exist.
  private static func bytesOnDisk(of path: String) -> Int64 {
    var status = stat()
    guard stat(path, &status) == 0 else { return 0 }
    return min(Int64(status.st_size), 512 * Int64(status.st_blocks))
  }
}
