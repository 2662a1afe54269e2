internal import CanopySystem
internal import Foundation

/// The id of a data folder, in its file `folder-id`: 32 hexadecimal digits.
///
/// The server writes it into its backups. So it removes none of another server from a folder `backups` that both use.
///
/// It is made once. A backup does not have the file, so a restored folder gets an id of its own. A copy of a folder
/// has the same id, and counts as the same server: see ``BackupLock``.
enum FolderID {
  static let fileName = "folder-id"
  private static let digits = 32

  /// Returns the id of a folder. Makes one if the file is missing or has no id. Then the backups with the earlier id
  /// are kept.
  ///
  /// - Throws: `BackupError`, or `StoreError` for a file that is too long.
  static func loadOrCreate(in folder: String, random: () -> UInt64) throws -> String {
    let path = folder + "/" + fileName
    if let contents = try BackupMaker.contents(path), let id = read(contents) { return id }
    let id = (0..<2).map { _ in hexadecimal(random()) }.joined()
    do throws(FileError) {
      try AtomicFile.replace(path, with: Array(id.utf8) + [UInt8(ascii: "\n")])
    } catch { throw BackupError(error) }
    return id
  }

  private static func read(_ contents: [UInt8]) -> String? {
    let isHexadecimal = contents.dropLast().allSatisfy { byte in
      (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }
    guard contents.count == digits + 1, contents.last == UInt8(ascii: "\n"), isHexadecimal else {
      return nil
    }
    return String(decoding: contents.dropLast(), as: UTF8.self)
  }

  private static func hexadecimal(_ number: UInt64) -> String {
    let text = String(number, radix: 16)
    return String(repeating: "0", count: digits / 2 - text.utf8.count) + text
  }
}
