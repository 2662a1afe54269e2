import CanopyTesting
import Foundation
import GRDB
import Testing

/// A data folder that an earlier program has written, with the answers of that program: `Tests/Storage/OldFolders`.
///
/// A file `canopy.sql` is a database as SQL, a file with the suffix `.hex` has bytes as hexadecimal digits, and other files
/// are unchanged. The name is the last migration and the commit of the program.
struct OldFolder: CustomTestStringConvertible, Sendable {
  /// A request with the answer of the earlier program.
  struct Exchange: Sendable {
    let request: String
    let answer: String
    /// The events that followed, if the request was LISTEN.
    var events: [String] = []
  }

  /// A connection: who asks, and the requests.
  struct Conversation: Sendable {
    let isAdministrator: Bool
    var exchanges: [Exchange] = []
  }

  /// A database that was made of its SQL.
  struct Restored: Sendable {
    /// The latest time of a commit.
    let time: Int64
    let contents: [String]
  }

  private let url: URL
  var testDescription: String { url.lastPathComponent }

  private init(_ name: String) { url = Self.place.appending(path: name) }

  private static let place = Checkout.root.appending(path: "Tests/Storage/OldFolders")

  static let all: [OldFolder] = {
    let names = try? FileManager.default.contentsOfDirectory(atPath: place.path)
    return (names ?? []).sorted().map { OldFolder($0) }.filter { $0.has("canopy.sql") }
  }()

  private func has(_ file: String) -> Bool {
    FileManager.default.fileExists(atPath: url.appending(path: file).path)
  }

  private func text(_ file: String) throws -> String {
    try String(contentsOf: url.appending(path: file), encoding: .utf8)
  }

  /// The databases, as paths of their folders.
  var databases: [String] {
    ["", "namespaces/weather/"].filter { has($0 + "canopy.sql") }
  }

  /// The migrations of the database, in their order.
  var migrations: [String] {
    get throws {
      try text("canopy.sql").matches(of: /(?m)^INSERT INTO grdb_migrations VALUES\('(.*)'\);$/)
        .map { String($0.1) }
    }
  }

  /// Returns what clients asked, and what the earlier program answered when it started again with the folder.
  func conversations(_ database: String) throws -> [Conversation] {
    var conversations: [Conversation] = []
    var lines = try text(database + "answers.txt").split(separator: "\n")[...]
    while let line = lines.popFirst() {
      if line.hasPrefix("= ") {
        conversations.append(Conversation(isAdministrator: line == "= administrator"))
        continue
      }
      let next = lines.popFirst()
      let answer = try #require(next)
      try #require(line.hasPrefix("> ") && !conversations.isEmpty)
      let events = lines.prefix { $0.hasPrefix(">{") }
      lines = lines.dropFirst(events.count)
      conversations[conversations.count - 1].exchanges.append(
        Exchange(
          request: String(line.dropFirst(2)), answer: String(answer),
          events: events.map(String.init)))
    }
    return conversations
  }

  /// Returns the files beside a database, by name.
  func otherFiles(_ database: String) throws -> [String: Data] {
    var files: [String: Data] = [:]
    let folder = url.appending(path: database)
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
    where !["canopy.sql", "answers.txt", "namespaces"].contains(name) {
      let data = try Data(contentsOf: folder.appending(path: name))
      guard name.hasSuffix(".hex") else {
        files[name] = data
        continue
      }
      let digits = String(decoding: data, as: UTF8.self).filter { $0.isHexDigit }
      files[String(name.dropLast(4))] = Data(
        stride(from: 0, to: digits.count, by: 2).compactMap { offset in
          UInt8(digits.dropFirst(offset).prefix(2), radix: 16)
        })
    }
    return files
  }

  /// Writes the files of a database into a folder.
  ///
  /// - Parameter hasLog: whether the rows are in the write-ahead log, as a kill leaves them, or in the database file.
  func restore(_ database: String, to folder: TemporaryFolder, hasLog: Bool) throws -> Restored {
    for (name, data) in try otherFiles(database) {
      // Only the owner may read secrets.
      let isWritten = FileManager.default.createFile(
        atPath: folder.file(name), contents: data, attributes: [.posixPermissions: 0o600])
      try #require(isWritten)
    }
    let work = try TemporaryFolder()
    let queue = try DatabaseQueue(path: work.file("canopy.sqlite"))
    let restored = try queue.writeWithoutTransaction { db in
      try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
      try db.execute(sql: text(database + "canopy.sql"))
      return Restored(
        time: try Int64.fetchOne(db, sql: "SELECT max(time) FROM commits") ?? 0,
        contents: try Self.contents(db))
    }
    if !hasLog { try queue.close() }
    for file in try work.files() where !file.hasSuffix("-shm") {
      try FileManager.default.copyItem(atPath: work.file(file), toPath: folder.file(file))
    }
    return restored
  }

  /// Returns the contents of a database file.
  static func contents(ofFile path: String) throws -> [String] {
    try #require(FileManager.default.fileExists(atPath: path))
    return try DatabaseQueue(path: path).read { try contents($0) }
  }

  /// Returns the settings, the definitions and the rows of a database.
  private static func contents(_ db: Database) throws -> [String] {
    var lines: [String] = []
    for name in ["application_id", "user_version", "page_size", "auto_vacuum", "integrity_check"] {
      lines.append("\(name) \(try String.fetchOne(db, sql: "PRAGMA \(name)") ?? "")")
    }
    lines += try String.fetchAll(
      db,
      sql: """
        SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name
        """)
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    for table in try String.fetchAll(db, sql: tables) {
      let columns = try db.columns(in: table).map { "quote(\($0.name))" }
      let row = columns.joined(separator: " || ',' || ")
      lines += try String.fetchAll(db, sql: "SELECT \(row) FROM \(table) ORDER BY 1")
        .map { "\(table): \($0)" }
    }
    return lines
  }
}
