internal import CanopyRows
internal import CanopyTree
internal import Foundation
internal import GRDB

/// An error of a data folder, with a sentence that says what to do.
public enum StoreError: Error, Equatable, Sendable {
  /// Another process uses the folder.
  case inUse(String)
  /// The folder or a file in it cannot be read or written.
  case inaccessible(String)
  /// A newer program wrote the folder.
  case newerSchema(String)
  /// Stored data is damaged or missing.
  case damaged(String)
  /// A time is outside of the range that keys can contain.
  case wrongTime(String)
  /// A database cannot be restored to the requested commit.
  case unreachable(String)
  /// A folder has no data yet. Its first start was interrupted, or has not begun.
  case unstarted(String)

  /// One sentence that says what is wrong and what to do.
  public var sentence: String {
    switch self {
    case .inUse(let text), .inaccessible(let text), .newerSchema(let text), .damaged(let text),
      .wrongTime(let text), .unreachable(let text), .unstarted(let text):
      text
    }
  }

  /// Returns the error of the folder for an error of SQLite.
  static func opening(_ path: String, _ error: any Error) -> StoreError {
    guard let error = error as? DatabaseError else {
      return .inaccessible("\(path) cannot be opened: \(error)")
    }
    switch error.resultCode {
    // Without a statement it is an error of the opening itself.
    case .SQLITE_ERROR where error.sql != nil, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH:
      return .damaged(
        "the tables of \(path) are not as expected (\(error.message ?? "no details")): restore the data folder "
          + "from a backup")
    case .SQLITE_CORRUPT where error.message?.utf8.starts(with: invalidDefinition) ?? false:
      return .damaged(
        "the definitions of the tables in \(path) are damaged (\(error.message ?? "no details")): \(waysOut)"
      )
    case .SQLITE_NOTADB, .SQLITE_CORRUPT:
      return .damaged(
        "\(path) is damaged or is not a Canopy database (\(error.message ?? "no details")): restore it from "
          + "a backup, or move the data folder away to begin with an empty one")
    default:
      return .inaccessible(
        "\(path) cannot be opened: \(error.message ?? "no details"); check the folder's owner, its "
          + "permissions and the space on the disk")
    }
  }

  /// Returns the error for an error of SQLite in a file that is known to be a database of Canopy.
  static func reading(_ path: String, _ error: DatabaseError) -> StoreError {
    guard error.resultCode == .SQLITE_CORRUPT,
      !(error.message?.utf8.starts(with: invalidDefinition) ?? false)
    else { return opening(path, error) }
    return damagedPages(of: path, error.message ?? "no details")
  }

  /// The beginning of SQLite's message for a definition that it cannot read.
  private static let invalidDefinition = "malformed database schema".utf8

  /// Returns the error of a copy for an error of SQLite, which has a message for the original, but none for the copy.
  static func copying(to path: String, _ error: any Error) -> any Error {
    guard (error as? DatabaseError)?.resultCode == .SQLITE_FULL else { return error }
    return StoreError.inaccessible(
      "\(path) cannot be written, because the disk is full: free space, or choose a folder on another disk"
    )
  }

  /// Returns the error for reading a folder in which no server has completed its first start.
  public static func unstarted(in folder: String) -> StoreError {
    .unstarted(
      "\(folder) has no data yet, because its first start was interrupted or has not begun: start the server on it, "
        + "which completes the folder, or name another folder")
  }

  /// Returns the error for a folder that has been used and has lost its database.
  public static func withoutDatabase(_ folder: String) -> StoreError {
    .damaged(
      "\(folder)/canopy.sqlite is missing or empty, but the folder has been used: restore the file from a backup, or, "
        + "if it is the folder of a namespace that you do not need, delete it with canopy namespace remove"
    )
  }

  /// Returns the error for a file or a folder that the system does not open.
  static func unopenable(_ path: String, _ code: Int32) -> StoreError {
    .inaccessible(
      "\(path) cannot be opened: \(String(cString: strerror(code))); check the folder's owner, its "
        + "permissions and the space on the disk")
  }

  /// Returns the error for a file of a folder that has other names.
  static func linked(_ path: String) -> StoreError {
    .inaccessible(
      "\(path) has other names (hard links), so another folder may use the same file: copy the data folder "
        + "(cp -r), and name the copy")
  }

  /// Returns the error for damage that remains after all repairs.
  static func beyondRepair(_ error: StoreError) -> StoreError {
    guard case .damaged(let text) = error else { return error }
    return .damaged(
      text.replacing(
        waysOut, with: "--accept-loss cannot repair this, so restore the data folder from a backup")
    )
  }

  /// Returns the error for a record of the version that was altered.
  static func alteredVersion(_ path: String, isRepairable: Bool) -> StoreError {
    .damaged(
      "the record of the version in \(path) (the table grdb_migrations) was altered on the disk: "
        + (isRepairable
          ? waysOut
          : "restore the data folder from a backup, because the tables are not those of this version")
    )
  }

  /// Returns the error for a file whose first bytes are those of a database, but not of one of this program.
  static func damagedHead(of path: String) -> StoreError {
    .damaged("\(path) is damaged (its first bytes are not those of a Canopy database): \(waysOut)")
  }

  /// The advice for damage, as the end of a sentence.
  static let waysOut =
    "restore the data folder from a backup, or copy the undamaged data into a new folder with canopy repair; canopy "
    + "serve --accept-loss removes damaged rows, and all commits after a damaged one, from this folder"

  /// The advice for damage that a running server has found. The server has the whole tree in memory.
  private static let waysOutOfServer =
    "save the tree before you stop this server, by reading /.json as its administrator; then restore the data folder "
    + "from a backup, or copy the undamaged data into a new folder with canopy repair"

  /// The advice for a damaged commit whose values the checkpoint has.
  private static let waysOutOfContained =
    "no value is lost, because the checkpoint has them, but clients that resume from before it get the present state; "
    + "canopy repair makes a new folder without such commits"

  /// Returns the sentence of a problem with the advice for a running server, for its log and its administrator.
  public static func ofServer(_ sentence: String) -> String {
    sentence.replacing(waysOut, with: waysOutOfServer)
  }

  /// Returns the error for a damaged commit, with other advice if the checkpoint contains the commit.
  static func damagedCommit(_ sequence: Int64, checkpoint: Int64, _ error: StoreError) -> StoreError
  {
    guard sequence <= checkpoint, case .damaged(let text) = error else { return error }
    return .damaged(text.replacing(waysOut, with: waysOutOfContained))
  }

  /// Returns a sentence without the advice for damage, for a loss that has been accepted.
  public static func withoutAdvice(_ sentence: String) -> String {
    sentence.replacing(": " + waysOut, with: "")
  }

  /// Returns the error for a row whose checksum does not match.
  static func altered(_ what: String) -> StoreError {
    .damaged("\(what) was altered on the disk (the checksum does not match): \(waysOut)")
  }

  /// Returns the error for damaged definitions of tables, without which SQLite reads nothing.
  static func damagedDefinitions(of path: String, _ error: DatabaseError) -> StoreError {
    .damaged(
      "the definitions of the tables in \(path) are damaged (\(error.message ?? "no details")), so no row can be "
        + "found: restore the data folder from a backup")
  }

  /// The error for numbers of the table `meta` that are missing or altered.
  static let damagedMeta = StoreError.damaged(
    "the table meta, with the number and the sums of the checkpoint, is damaged: \(waysOut)")

  /// Returns the error for pages that are damaged, used twice, or free and in use.
  static func damagedPages(of path: String, _ problem: String) -> StoreError {
    .damaged("the pages of \(path) are damaged (\(problem)): \(waysOut)")
  }

  /// Returns the error for tables, indexes, triggers or views that are not those of the version of a file.
  static func alteredDefinition(in path: String) -> StoreError {
    .damaged(
      "the definition of a table, an index, a trigger or a view in \(path) was altered or added (the definitions are not "
        + "those of its version of Canopy): \(waysOut)")
  }

  /// Returns the error for rows of the checkpoint whose number or sum does not match.
  static func missingRows(_ found: LeafSums, _ expected: LeafSums) -> StoreError {
    .damaged(
      "the checkpoint has \(found.count) rows, and \(expected.count) were written"
        + (found.count == expected.count ? ", but some of them differ" : "") + ": \(waysOut)")
  }

  /// Returns the error for a table whose sum does not match: rows are missing, or are of an older time.
  static func missingRows(of table: String) -> StoreError {
    .damaged("rows of \(table) are missing or older than the last change: \(waysOut)")
  }

  /// Returns the error for a missing commit.
  static func missing(commit sequence: Int64) -> StoreError {
    .damaged("commit \(sequence) is missing from the journal: \(waysOut)")
  }

  /// Returns the error for a row that cannot be decoded.
  static func damagedRow(_ what: String, _ error: Any) -> StoreError {
    let reason = (error as? TreeError)?.sentence ?? "\(error)"
    return .damaged(
      "\(what) cannot be read (\(reason)): run canopy verify for details, and restore the data folder "
        + "from a backup")
  }
}
