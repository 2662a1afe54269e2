internal import CanopyTree
internal import Foundation
internal import GRDB

/// Why a data folder cannot be used, in a sentence that says what to do.
public enum StoreError: Error, Equatable, Sendable {
  /// Another process uses the folder.
  case inUse(String)
  /// The folder or a file in it cannot be read or written.
  case inaccessible(String)
  /// The folder was written by a newer program.
  case newerSchema(String)
  /// What is stored makes no sense.
  case damaged(String)

  /// One sentence that says what is wrong and what to do.
  public var sentence: String {
    switch self {
    case .inUse(let text), .inaccessible(let text), .newerSchema(let text), .damaged(let text): text
    }
  }

  /// What a failure of SQLite means to the one who runs the server.
  static func opening(_ path: String, _ error: any Error) -> StoreError {
    guard let error = error as? DatabaseError else {
      return .inaccessible("\(path) cannot be opened: \(error)")
    }
    switch error.resultCode {
    case .SQLITE_NOTADB, .SQLITE_CORRUPT:
      return .damaged(
        "\(path) is damaged or no Canopy database (\(error.message ?? "no details")): restore it from "
          + "a backup, or move the data folder away to begin with an empty one")
    default:
      return .inaccessible(
        "\(path) cannot be opened: \(error.message ?? "no details"); check the folder's owner, its "
          + "permissions and the space on the disk")
    }
  }

  /// The error that the system does not open a file or a folder.
  static func unopenable(_ path: String, _ code: Int32) -> StoreError {
    .inaccessible(
      "\(path) cannot be opened: \(String(cString: strerror(code))); check the folder's owner, its "
        + "permissions and the space on the disk")
  }

  /// The ways out of damage.
  static let waysOut =
    "restore the data folder from a backup, or have canopy serve --accept-loss go on with what is whole"

  /// The error that a row has another checksum than when it was written.
  static func altered(_ what: String) -> StoreError {
    .damaged("\(what) was altered on the disk (the checksum does not match): \(waysOut)")
  }

  static func missingRows(_ found: LeafSums, _ expected: LeafSums) -> StoreError {
    .damaged(
      "the checkpoint has \(found.count) rows, and \(expected.count) were written"
        + (found.count == expected.count ? ", but not all are the same" : "") + ": \(waysOut)")
  }

  /// The error that rows of a table are missing, or rows of an older time are in their place.
  static func missingRows(of table: String) -> StoreError {
    .damaged("\(table) does not have the rows that were written last: \(waysOut)")
  }

  static func missing(commit sequence: Int64) -> StoreError {
    .damaged("commit \(sequence) is missing from the journal: \(waysOut)")
  }

  static func damagedRow(_ what: String, _ error: Any) -> StoreError {
    let reason = (error as? TreeError)?.sentence ?? "\(error)"
    return .damaged(
      "\(what) cannot be read (\(reason)): run canopy verify for details, and restore the data folder "
        + "from a backup")
  }
}
