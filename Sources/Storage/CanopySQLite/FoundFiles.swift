internal import CanopySystem
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
  /// Whether the files may have been changed in other ways than those noted. Then the noted bytes do not belong to them
  /// any more.
  private(set) var areChanged = false

  /// The path of the copy before it has its name. A start removes one that an interrupted start has left.
  static func work(in folder: String) -> String { folder + "/.damaged.sqlite" }

  /// The endings of the database file and its log.
  static let suffixes = ["", "-wal"]

  /// Begins with the present files. There is no copy if the configuration does not ask for one.
  init(_ opening: Opening) {
    self.opening = opening
    isKept = !opening.configuration.keepsFormerFiles
  }

  /// Notes the beginning of the database file. Call before it is replaced.
  mutating func note(_ head: DatabaseHead) {
    heads.append(head)
  }

  /// Notes bytes of the log that were corrected.
  mutating func note(_ found: [LogCorrection.Found]) {
    log += found
  }

  /// Copies the damaged file and its log to the first free names `damaged-1.sqlite`, `damaged-2.sqlite`, …, once. If the
  /// last such copy is of the same bytes, an earlier start has made it, and there is no other one. Call before the files are
  /// changed in other ways than those noted.
  ///
  /// The copy gets its name when all of it is on the disk.
  ///
  /// - Throws: `StoreError.inaccessible`. Then there is no copy.
  mutating func keep() throws {
    if !isKept {
      let work = FoundFiles.work(in: opening.folder)
      FoundFiles.remove(work)
      defer { FoundFiles.remove(work) }
      let name: String
      do throws(StoreError) {
        try copy(to: work)
        name = try giveName(to: work)
      } catch {
        throw StoreError.inaccessible(
          "the damaged file cannot be copied to \(opening.folder)/damaged-1.sqlite, so it stays as it is: make room on the "
            + "disk, or repair the folder with canopy repair to another disk (\(error.sentence))")
      }
      isKept = true
      opening.configuration.logger.notice("the damaged file is kept", metadata: ["file": "\(name)"])
    }
    areChanged = true
  }

  /// Copies the files as they were found. A log without a header has nothing.
  private func copy(to work: String) throws(StoreError) {
    let path = opening.path
    if access(path, F_OK) == 0 { try FileCopy.copy(path, to: work) }
    if LogScan.exists(database: path) { try FileCopy.copy(path + "-wal", to: work + "-wal") }
    for head in heads.reversed() {
      guard head.restore(in: work) else { throw .unopenable(work, errno) }
    }
    try LogCorrection.restore(log, in: work + "-wal")
  }

  /// Gives the copy its name. Returns the name, or that of the last copy if it has the same bytes.
  private func giveName(to work: String) throws(StoreError) -> String {
    let folder = opening.folder
    var number = 1
    func kept(_ number: Int) -> String { "damaged-\(number).sqlite" }
    func path(_ number: Int) -> String { folder + "/" + kept(number) }
    while FoundFiles.suffixes.contains(where: { access(path(number) + $0, F_OK) == 0 }) {
      number += 1
    }
    let isSame = FoundFiles.suffixes.allSatisfy {
      FileCopy.areEqual(work + $0, path(number - 1) + $0)
    }
    if number > 1, isSame { return kept(number - 1) }
    let present = FoundFiles.suffixes.filter { access(work + $0, F_OK) == 0 }
    do throws(StoreError) {
      for suffix in present { try opening.synchronizeFile(work + suffix) }
      // The database last: without it, a log of that name is no copy.
      for suffix in present.reversed() {
        guard FileCalls.renameFile(work + suffix, to: path(number) + suffix) == 0 else {
          throw .unopenable(path(number) + suffix, errno)
        }
      }
      try opening.synchronizeFolder()
    } catch {
      FoundFiles.remove(path(number))
      throw error
    }
    return kept(number)
  }

  /// Removes a copy that has no name yet, or whose name may not be on the disk.
  static func remove(_ copy: String) {
    for suffix in suffixes { unlink(copy + suffix) }
  }
}
