internal import Foundation
internal import Logging

/// The files of a damaged database as a start has found them.
///
/// If the database is replaced as a whole, the folder keeps a copy of them. A start corrects single bytes before it knows
/// that, so it notes the bytes that were there, and the copy gets them back.
struct FoundFiles {
  private let opening: Opening
  private var heads: [DatabaseHead] = []
  private var log: [LogCorrection.Found] = []
  private var isKept: Bool

  /// Begins with the present files. There is no copy if the configuration does not ask for one.
  init(_ opening: Opening) {
    self.opening = opening
    isKept = !opening.configuration.keepsDamagedFile
  }

  /// Notes the beginning of the database file. Call before it is replaced.
  mutating func note(_ head: DatabaseHead) {
    heads.append(head)
  }

  /// Notes bytes of the log that were corrected.
  mutating func note(_ found: [LogCorrection.Found]) {
    log += found
  }

  /// Copies the damaged file and its log to the first free names `damaged-1.sqlite`, `damaged-2.sqlite`, …, once. Call
  /// before the files are changed in other ways than those noted.
  ///
  /// - Throws: `StoreError.inaccessible`. Then there is no copy.
  mutating func keep() throws {
    guard !isKept else { return }
    let (path, folder, suffixes) = (opening.path, opening.folder, ["", "-wal"])
    var number = 1
    func kept(_ suffix: String) -> String { "\(folder)/damaged-\(number).sqlite\(suffix)" }
    while suffixes.contains(where: { access(kept($0), F_OK) == 0 }) { number += 1 }
    do throws(StoreError) {
      for suffix in suffixes where access(path + suffix, F_OK) == 0 {
        try FileCopy.copy(path + suffix, to: kept(suffix))
      }
      for head in heads.reversed() { head.restore(in: kept("")) }
      try LogCorrection.restore(log, in: kept("-wal"))
    } catch {
      for suffix in suffixes { unlink(kept(suffix)) }
      throw StoreError.inaccessible(
        "\(kept("")) cannot be written, so the damaged file stays as it is: make room on the disk, or repair the folder "
          + "with canopy repair to another disk (\(error.sentence))")
    }
    for suffix in suffixes where access(kept(suffix), F_OK) == 0 {
      try opening.synchronizeFile(kept(suffix))
    }
    try opening.synchronizeFolder()
    isKept = true
    opening.configuration.logger.notice(
      "the damaged file is kept", metadata: ["file": "damaged-\(number).sqlite"])
  }
}
