import CanopySQLite
import CanopySystem
import CanopyTree
import CanopyWire
import Foundation

/// The record of the namespaces of a data folder: `known-namespaces` has an empty file for each one.
///
/// With it a start notices that the folder of a namespace is missing. The record is not in the folder `namespaces`,
/// because that may be a link to a disk that is not mounted. A namespace of an earlier version gets its file at the
/// next start of a server.
extension NamespaceFolders {
  private var record: String { dataFolder + "/known-namespaces" }

  private func recordFile(of name: NamespaceName) -> String { "\(record)/\(name)" }

  /// Returns the names of the namespaces that were recorded and have no folder any more, in order.
  func missingNames() throws -> [NamespaceName] {
    guard access(record, F_OK) == 0 else { return [] }
    let directory = opendir(record)
    defer { if let directory { closedir(directory) } }
    guard directory != nil,
      let entries = try? FileManager.default.contentsOfDirectory(atPath: record)
    else {
      throw Failure(
        "\(record) cannot be read (\(String(cString: strerror(errno)))), so a missing namespace would not be noticed: "
          + "check its owner and its permissions, or move it away if it is no folder; the next start of a server makes "
          + "it again")
    }
    return entries.compactMap { try? NamespaceName($0) }.filter(isMissing)
      .sorted { $0.text < $1.text }
  }

  /// Whether a namespace was recorded and has no folder any more.
  func isMissing(_ name: NamespaceName) -> Bool {
    guard name != .default, isRecorded(name), !exists(name) else { return false }
    // A command that removes the namespace just now has removed the record before the folder.
    return isRecorded(name)
  }

  private func isRecorded(_ name: NamespaceName) -> Bool {
    access(recordFile(of: name), F_OK) == 0
  }

  /// Checks that no namespace has lost its folder, for a copy of the data folder that would lack it.
  ///
  /// - Throws: `StoreError.damaged` for the first one whose folder is missing; `Failure` if the record cannot be read.
  func checkNoneIsMissing() throws {
    if let name = try missingNames().first {
      throw StoreError.damaged("the namespace \(name) would be left out, because \(loss(of: name))")
    }
  }

  /// Returns a sentence about a namespace whose folder is missing.
  func loss(of name: NamespaceName) -> String {
    "the folder \(path(of: name)) is missing: mount its disk, restore it from a backup, or run canopy namespace remove "
      + "\(name)"
  }

  /// Checks that a namespace has not lost its folder.
  func checkIsNotMissing(_ name: NamespaceName) throws {
    if isMissing(name) { throw Failure(loss(of: name)) }
  }

  /// Records all namespaces that exist. O(namespaces); writes only the new ones.
  func recordAll() throws {
    try record(try names().filter { !isRecorded($0) })
  }

  /// Records namespaces that exist.
  func record(_ names: [NamespaceName]) throws {
    guard let last = names.last else { return }
    let isNew = mkdir(record, 0o700) == 0
    guard isNew || errno == EEXIST else { throw failure(record, "created") }
    for name in names {
      let file = open(recordFile(of: name), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
      guard file >= 0 else { throw failure(recordFile(of: name), "created") }
      close(file)
    }
    do throws(FileError) {
      try AtomicFile.synchronizeFolder(of: recordFile(of: last))
      if isNew { try AtomicFile.synchronizeFolder(of: record) }
    } catch {
      throw Failure("\(error.path) cannot be written: \(error.reason)")
    }
  }

  /// Removes a namespace from the record.
  func forget(_ name: NamespaceName) throws {
    guard access(recordFile(of: name), F_OK) == 0 else { return }
    do throws(FileError) { try AtomicFile.remove(recordFile(of: name)) } catch {
      throw Failure("\(error.path) cannot be removed: \(error.reason)")
    }
  }

  private func failure(_ path: String, _ verb: String) -> Failure {
    Failure(
      "\(path) cannot be \(verb), so the loss of a namespace would not be noticed: \(String(cString: strerror(errno)))"
    )
  }
}
