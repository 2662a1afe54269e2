import CanopyEngine
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Logging
import Synchronization
import Testing

@testable import CanopySQLite

struct OpeningTests {
  let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func open() throws -> SQLiteStore {
    try SQLiteStore(folder: folder.path)
  }

  private func refusal() -> StoreError? {
    #expect(throws: StoreError.self) { try open() }
  }

  @Test func `a missing folder is created with its parents`() async throws {
    let store = try SQLiteStore(folder: folder.path + "/deep/er")
    try store.append([commit(1, "n", 1)], after: 0)
    try store.close()
    let mode = try FileManager.default.attributesOfItem(atPath: folder.path + "/deep/er")[
      .posixPermissions]
    #expect(mode as? Int == 0o700)
  }

  @Test func `only the owner may read the files`() async throws {
    try FileManager.default.setAttributes(
      [.posixPermissions: 0o755], ofItemAtPath: folder.path)
    for _ in 0..<2 {
      try await folder.withStore { store in
        let last = try await store.tree().sequence
        try store.append([commit(last + 1, "n", 1)], after: last)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(
          Set(names) == [
            "canopy.sqlite", "canopy.sqlite-wal", "canopy.sqlite-shm", "canopy.tail", "lock",
          ])
        for name in names {
          let attributes = try FileManager.default.attributesOfItem(
            atPath: folder.path + "/" + name)
          #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
      }
    }
  }

  @Test func `a file of a newer program is refused and not changed`() async throws {
    try await folder.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
      try await store.damage("INSERT INTO grdb_migrations VALUES ('99')")
    }
    let error = refusal()
    if case .newerSchema = error {} else { Issue.record("\(String(describing: error))") }
    expectAdvice(error, mentions: "newer version", "run that version", "backup")
    let queue = try DatabaseQueue(path: folder.database)
    let commits = try await queue.read {
      try Int.fetchOne($0, sql: "SELECT count(*) FROM commits")
    }
    #expect(commits == 1)
  }

  @Test func `the database of another program is refused and not changed`() async throws {
    let queue = try DatabaseQueue(path: folder.database)
    try await queue.write { try $0.execute(sql: "CREATE TABLE songs(name TEXT)") }
    try queue.close()
    expectAdvice(refusal(), mentions: "another program", "another data folder")
    let again = try DatabaseQueue(path: folder.database)
    let tables = try await again.read {
      try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema")
    }
    #expect(tables == ["songs"])
  }

  @Test func `a file that is not a database is refused and not changed`() throws {
    let garbage = Data((0..<20_000).map { UInt8(truncatingIfNeeded: $0 * 31 + 7) })
    try garbage.write(to: URL(filePath: folder.database))
    expectAdvice(refusal(), mentions: "is not a Canopy database", "backup", "move the data folder")
    #expect(try Data(contentsOf: URL(filePath: folder.database)) == garbage)
  }

  @Test(arguments: [100, 4_000, 4_096, 6_000, 8_192, 20_480, 40_000])
  func `a truncated file is refused when it is opened, loaded or verified`(
    bytes: Int
  ) async throws {
    try await folder.withStore { store in
      for sequence in 1...40 as ClosedRange<Int64> {
        let text = Node(String(repeating: "x", count: 3_000))
        try store.append([commit(sequence, "n/\(sequence)", text)], after: sequence - 1)
      }
      try await store.checkpoint(try await store.tree().root, through: 30)
      try store.emptyLog()
    }
    let file = try FileHandle(forUpdating: URL(filePath: folder.database))
    #expect(try file.seekToEnd() > UInt64(bytes))
    try file.truncate(atOffset: UInt64(bytes))
    try file.close()
    do {
      try await folder.withStore { store in
        #expect(try await !store.problems().isEmpty)
        _ = try await store.load()
        Issue.record("nothing was noticed")
      }
    } catch let error as StoreError {
      expectAdvice(error, mentions: "backup")
    }
  }

  @Test func `a folder that cannot be written is refused`() throws {
    try Data("a file".utf8).write(to: URL(filePath: folder.path + "/file"))
    let error = #expect(throws: StoreError.self) {
      try SQLiteStore(folder: folder.path + "/file/below")
    }
    if case .inaccessible = error {} else { Issue.record("\(String(describing: error))") }
  }

  @Test(
    arguments: ["canopy.sqlite", "canopy.sqlite-wal", "canopy.sqlite-shm", "canopy.tail", "lock"])
  func `a symbolic link, a folder or a pipe is refused and not changed`(
    name: String
  ) throws {
    try open().close()
    let path = folder.path + "/" + name
    let target = try Folder()
    let file = target.path + "/file"
    try Data("precious".utf8).write(to: URL(filePath: file))
    let makers: [() throws -> Void] = [
      { try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: file) },
      { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false) },
      { #expect(mkfifo(path, 0o600) == 0) },
    ]
    for make in makers {
      try? FileManager.default.removeItem(atPath: path)
      try make()
      expectAdvice(refusal(), mentions: path, "not a regular file")
      let error = #expect(throws: StoreError.self) { try SQLiteStore.reading(folder.path) }
      expectAdvice(error, mentions: path, "not a regular file")
    }
    #expect(try Data(contentsOf: URL(filePath: file)) == Data("precious".utf8))
  }

  @Test func `only one store uses a folder at a time`() throws {
    let store = try open()
    let error = refusal()
    if case .inUse = error {} else { Issue.record("\(String(describing: error))") }
    expectAdvice(error, mentions: "process \(getpid())", "stop that server", folder.path)
    try store.close()
    try open().close()
  }

  @Test func `a failed opening releases the folder`() throws {
    try Data("garbage, garbage, garbage".utf8).write(to: URL(filePath: folder.database))
    expectAdvice(refusal(), mentions: "is not a Canopy database")
    try FileManager.default.removeItem(atPath: folder.database)
    try open().close()
  }

  @Test func `removing the file with the process id does not release the folder`() throws {
    let store = try open()
    try FileManager.default.removeItem(atPath: folder.path + "/lock")
    expectAdvice(refusal(), mentions: "in use by another process;")
    try store.close()
    try open().close()
  }

  @Test func `a process that does not have the lock is not named`() throws {
    let store = try open()
    // Process 1 exists on each system.
    for text in ["1\n", "\(getppid())\n", "\(Int32.max)\n", "", "-1\n"] {
      try Data(text.utf8).write(to: URL(filePath: folder.path + "/lock"))
      expectAdvice(refusal(), mentions: "in use by another process;")
    }
    try store.close()
  }

  @Test(arguments: ["canopy.sqlite-wal", "admin-token"])
  func `a missing or empty database file is a loss if the folder has been used`(
    trace: String
  ) throws {
    try open().close()
    let database = folder.path + "/canopy.sqlite"
    try Data("trace".utf8).write(to: URL(filePath: folder.path + "/" + trace))
    for isEmpty in [true, false] {
      try? FileManager.default.removeItem(atPath: database)
      if isEmpty { try Data().write(to: URL(filePath: database)) }
      expectAdvice(refusal(), mentions: "missing or empty", "backup")
    }
    try FileManager.default.removeItem(atPath: folder.path + "/" + trace)
    expectAdvice(refusal(), mentions: "missing or empty", "backup")
    try FileManager.default.removeItem(atPath: folder.path + "/canopy.tail")
    try open().close()
  }

  @Test(
    arguments: ["canopy.sqlite", "canopy.sqlite-wal", "canopy.sqlite-shm", "canopy.tail", "lock"])
  func `a file with a second name is refused, because another folder may use it`(
    name: String
  ) throws {
    let (path, other) = (folder.path + "/" + name, folder.path + "/other")
    let used = try open()
    let copy = try Folder()
    try FileManager.default.linkItem(atPath: path, toPath: copy.path + "/" + name)
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: copy.path) }
    expectAdvice(error, mentions: copy.path + "/" + name, "hard links", "copy the data folder")
    #expect(throws: StoreError.self) { try SQLiteStore.reading(copy.path) }
    try used.close()
    guard FileManager.default.fileExists(atPath: path) else { return }
    expectAdvice(refusal(), mentions: path, "hard links")
    try FileManager.default.copyItem(atPath: path, toPath: other)
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.moveItem(atPath: other, toPath: path)
    try open().close()
  }

  @Test func `the file with the process id does not replace a file outside of the folder`() throws {
    try open().close()
    let other = try Folder()
    try Data("precious".utf8).write(to: URL(filePath: other.file("file")))
    try FileManager.default.removeItem(atPath: folder.file("lock"))
    try FileManager.default.linkItem(atPath: other.file("file"), toPath: folder.file("lock"))
    expectAdvice(refusal(), mentions: folder.file("lock"), "hard links")
    // A folder without a database, such as that of a node, is only locked.
    let error = #expect(throws: StoreError.self) { try FolderLock(folder: folder.path) }
    expectAdvice(error, mentions: folder.file("lock"), "hard links")
    #expect(try Data(contentsOf: URL(filePath: other.file("file"))) == Data("precious".utf8))
    try FileManager.default.removeItem(atPath: folder.file("lock"))
    try open().close()
  }

  @Test func `a folder or a file that cannot be written is refused before it is used`() throws {
    try open().close()
    for name in ["", "/canopy.sqlite", "/canopy.tail", "/lock"] {
      let path = folder.path + name
      let error = #expect(throws: StoreError.self) {
        try Opening.checkWritable(folder.path) { $0 != path }
      }
      expectAdvice(error, mentions: path + " cannot be written", "permissions")
    }
    try Opening.checkWritable(folder.path)
    try Opening.checkWritable(folder.path) { $0 != folder.path + "/admin-token" }
    // Other users than root cannot write this file.
    guard getuid() != 0 else { return }
    #expect(chmod(folder.database, 0o400) == 0)
    expectAdvice(refusal(), mentions: folder.database + " cannot be written")
  }

  /// A young folder: the file has only its first page, and the tables are in the write-ahead log.
  @Test func `a database without tables is refused if the folder has been used`() async throws {
    let young = try await folder.withStore { _ in try folder.crashed() }
    let database = try Data(contentsOf: URL(filePath: young.database))
    #expect(database.count == 4_096)
    for name in ["canopy.tail", "canopy.sqlite-wal"] {
      try FileManager.default.removeItem(atPath: young.path + "/" + name)
    }
    let token = young.path + "/admin-token"
    try Data("token".utf8).write(to: URL(filePath: token))
    let error = #expect(throws: StoreError.self) { try SQLiteStore(folder: young.path) }
    expectAdvice(error, mentions: "no tables", "backup", "--accept-loss")
    #expect(!FileManager.default.fileExists(atPath: young.path + "/canopy.tail"))
    // A first start that was killed has left no trace.
    let first = try Folder()
    try database.write(to: URL(filePath: first.database))
    try await first.withStore { store in
      try store.append([commit(1, "n", 1)], after: 0)
    }
    var accepting = SQLiteStore.Configuration()
    accepting.acceptsLoss = true
    try await young.withStore(accepting) { store async throws in
      let losses = try await store.acceptLosses(at: 1_577_836_801_000)
      #expect(losses.notes.contains { $0.contains("no tables") }, "\(losses.notes)")
      // Clients may have seen the lost commits.
      let last = try await store.load().sequence
      #expect(last == 1_000_000)
      try store.append([commit(last + 1, "n", 1)], after: last)
    }
    try await young.withStore { store async throws in
      #expect(try await store.problems().isEmpty)
    }
  }

  @Test func `a start removes the files that a killed start has left`() async throws {
    try await folder.withStore { try $0.append([commit(1, "n", 1)], after: 0) }
    let rests = [".salvaged.sqlite", ".old-version/canopy.sqlite"].map { folder.file($0) }
    try FileManager.default.createDirectory(
      atPath: folder.file(".old-version"), withIntermediateDirectories: false)
    for rest in rests { try Data("rest".utf8).write(to: URL(filePath: rest)) }
    try await folder.withStore { _ in }
    #expect(try folder.files().filter { $0.hasPrefix(".") } == [])
  }

  @Test func `the next checkpoint includes the commits of another writer`() async throws {
    try await folder.withStore { store in
      let other = [try commit(1, "a", 1), try commit(2, "b", 2)]
      try store.append(other, after: 0)
      #expect(throws: JournalError.self) {
        try store.append([commit(1, "c", 3)], after: 0)
      }
      try store.append([commit(3, "d", 4)], after: 2)
      let root = try Node(json: #"{"a":1,"b":2,"d":4}"#)
      try await store.checkpoint(root, through: 3)
    }
    try await folder.withStore { store in
      let state = try await store.load()
      #expect(state.checkpoint == 3)
      #expect(state.tree.root.childCount == 3)
    }
  }

  @Test func `the end of a process releases its folder`() throws {
    // The command flock takes the same lock. The shell writes its process id as the store does.
    let holder = Process()
    holder.executableURL = URL(filePath: "/usr/bin/flock")
    holder.arguments = [
      "--no-fork", folder.path, "/bin/sh", "-c",
      "echo $$ > \"$0\"; echo ready; read forever", folder.path + "/lock",
    ]
    let output = Pipe()
    holder.standardOutput = output
    holder.standardInput = Pipe()
    try holder.run()
    defer { if holder.isRunning { kill(holder.processIdentifier, SIGKILL) } }
    #expect(output.fileHandleForReading.availableData == Data("ready\n".utf8))
    expectAdvice(refusal(), mentions: "process \(holder.processIdentifier)")
    kill(holder.processIdentifier, SIGKILL)
    holder.waitUntilExit()
    try open().close()
  }

  @Test
  func `an error while reading rows is reported, and not the rows that are missing because of it`()
    throws
  {
    // The second row has an invalid number. Without it, the first row is invalid too.
    let database = try DatabaseQueue()
    try database.write { db in
      try db.execute(
        sql: """
          CREATE TABLE numbers(path TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID;
          CREATE VIEW leaves AS SELECT path, abs(number) AS value, 0 AS checksum FROM numbers;
          INSERT INTO numbers VALUES ('x/a/.priority', 1), ('x/a/b', -9223372036854775807 - 1);
          """)
      #expect(throws: DatabaseError.self) { try SQLiteStore.readLeaves(db) }
    }
  }

  // SQLite takes the first name after two slashes for the name of a machine.
  @Test func `a folder whose name begins with two slashes is opened, read and copied`()
    async throws
  {
    let path = "/" + folder.path
    let store = try SQLiteStore(folder: path)
    try store.append([commit(1, "n", 1)], after: 0)
    let crashed = try folder.crashed()
    let copy = try Folder()
    #expect(
      try SQLiteStore.copyDatabase(of: path, isServed: true, to: "/" + copy.path).sequence == 1)
    try store.close()
    let reading = try SQLiteStore.reading(path)
    #expect(try await reading.problems().isEmpty)
    try reading.close()
    let next = try SQLiteStore(folder: "/" + crashed.path)
    #expect(try await next.tree().sequence == 1)
    try next.close()
  }

  @Test func `an error of an open names no tables`() {
    let error = StoreError.opening("f", DatabaseError(resultCode: .SQLITE_ERROR))
    expectAdvice(error, mentions: "f cannot be opened")
    let statement = StoreError.opening(
      "f", DatabaseError(resultCode: .SQLITE_ERROR, message: "no such column", sql: "SELECT a"))
    expectAdvice(statement, mentions: "the tables of f are not as expected (no such column)")
  }
}
