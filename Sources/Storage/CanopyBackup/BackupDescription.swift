public import CanopyWire
internal import Foundation

/// The description of a backup, in its file `backup.json`.
public struct BackupDescription: Codable, Equatable, Sendable {
  /// The state of a namespace in a backup.
  public struct Database: Codable, Equatable, Sendable {
    /// The name of the namespace.
    public var name: String
    /// The sequence number of its last commit.
    public var sequence: Int64
    /// The time of that commit in milliseconds since 1970; nil if the journal has no commit.
    public var time: Int64?
  }

  /// The version of the format that this program writes.
  static let formatOfThisVersion = 1

  /// The version of the format.
  public var format: Int
  /// The program that wrote the backup.
  public var program: String
  /// The time at which the backup began, in milliseconds since 1970.
  public var time: Int64
  /// The id of the data folder, if its server made the backup; nil for one that a command or an earlier version made.
  public var folderID: String?
  /// The namespaces, the default one first.
  public var databases: [Database]

  /// Returns the state of a namespace; nil if the backup does not have it.
  public func database(of name: NamespaceName) -> Database? {
    databases.first { $0.name.utf8.elementsEqual(name.text.utf8) }
  }

  /// The text of the file.
  var json: [UInt8] {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
      return Array(try encoder.encode(self)) + [UInt8(ascii: "\n")]
    }
  }

  /// Reads the text of the file.
  ///
  /// - Parameter path: the backup, for the error.
  /// - Throws: `BackupError.damaged`.
  init(json: [UInt8], of path: String) throws(BackupError) {
    // A newer format may have other members.
    struct Version: Decodable { var format: Int }
    let data = Data(json)
    guard let version = try? JSONDecoder().decode(Version.self, from: data) else {
      throw .damaged(path, "its description cannot be read")
    }
    guard version.format <= BackupDescription.formatOfThisVersion else {
      throw .damaged(
        "a newer version of Canopy wrote \(path): use that version, or another backup")
    }
    do { self = try JSONDecoder().decode(BackupDescription.self, from: data) } catch {
      throw .damaged(path, "its description cannot be read")
    }
  }

  init(program: String, time: Int64) {
    format = BackupDescription.formatOfThisVersion
    self.program = program
    self.time = time
    databases = []
  }
}

/// The names of the files in a backup. They are those of a data folder, so that the unpacked backup is one.
enum BackupLayout {
  static let database = "canopy.sqlite"
  static let rules = "rules.json"
  /// The files of the default namespace with secrets.
  static let secrets = ["identity-keys", "admin-token"]
  static let namespaces = "namespaces"
  static let description = "backup.json"
  static let sums = "SHA256SUMS"
  /// The most bytes of the description and of the checksums each, which a reader has in memory. They suffice for
  /// 100,000 namespaces. A writer makes no backup with more.
  static let textBytesMax = 32 * 1024 * 1024

  /// Returns the beginning of the names of a namespace's files.
  static func prefix(of name: NamespaceName) -> String {
    name == .default ? "" : "\(namespaces)/\(name)/"
  }

  /// Whether a name is that of a file which a backup can have. So an archive of another origin writes to no other place.
  static func isName(_ name: String) -> Bool {
    let parts = name.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
      .map { String(decoding: Array($0), as: UTF8.self) }
    func has(_ names: [String], _ part: String) -> Bool {
      names.contains { $0.utf8.elementsEqual(part.utf8) }
    }
    switch parts.count {
    case 1: return has([database, rules, description, sums] + secrets, parts[0])
    case 3:
      guard let namespace = try? NamespaceName(parts[1]), namespace != .default else {
        return false
      }
      return has([namespaces], parts[0]) && has([database, rules], parts[2])
    default: return false
    }
  }
}
