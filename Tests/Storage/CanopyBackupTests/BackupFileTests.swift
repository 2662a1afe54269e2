import CanopyAccounts
import CanopyEngine
import CanopySQLite
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import Testing

@testable import CanopyBackup

/// The file of a backup, and its unpacking.
@Suite(.timeLimit(.minutes(20))) struct BackupFileTests {
  private let server: Server

  init() throws {
    server = try Server()
  }

  private func fill(_ count: Int64) async throws {
    try await server.withStore { store in
      _ = try await store.insert(.ada, token: nil)
      _ = try await store.changeDisconnectWrites(
        adding: ("administrator", "SET /gone true"), exceptions: [:], removing: [])
      for number in 1...count {
        try store.append([commit(number, "n/\(number)", Node(number))], after: number - 1)
      }
    }
  }

  private func unpack(_ path: String) throws -> (BackupDescription, TemporaryFolder) {
    let target = try TemporaryFolder()
    return (try BackupFile(path).unpack(to: target.path), target)
  }

  @Test func `a backup has all namespaces, accounts, rules, secrets and on-disconnect writes`()
    async throws
  {
    try await fill(5)
    let (description, target) = try unpack(try server.backUp())
    #expect(description.program == "canopy test" && description.time == server.clock.now)
    #expect(
      description.databases == [
        .init(name: "default", sequence: 5, time: 5_000),
        .init(name: "shop", sequence: 1, time: 1_000),
      ])
    #expect(
      try target.files()
        == ["admin-token", "canopy.sqlite", "identity-keys", "namespaces", "rules.json"])
    for name in ["rules.json", "identity-keys", "admin-token", "namespaces/shop/rules.json"] {
      #expect(
        FileManager.default.contentsEqual(
          atPath: server.folder.file(name), andPath: target.file(name)))
      let mode = try FileManager.default.attributesOfItem(atPath: target.file(name))
      #expect(mode[.posixPermissions] as? Int == 0o600)
    }
    let store = try SQLiteStore(folder: target.path)
    #expect(try await store.tree().sequence == 5)
    #expect(try await store.account(uid: Account.ada.uid) == .ada)
    #expect(try await store.disconnectWriteIDs().count == 1)
    #expect(try await store.problems().isEmpty)
    try store.close()
    let shop = try SQLiteStore(folder: target.file("namespaces/shop"))
    #expect(try await shop.tree().root == Node(json: "{\"item\":\"hat\"}"))
    try shop.close()
  }

  @Test func `the programs tar and sha256sum read a backup`() async throws {
    try await fill(3)
    let path = try server.backUp()
    let target = try TemporaryFolder()
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = [
      "-c", "tar xf \"$0\" -C \"$1\" && cd \"$1\" && sha256sum --quiet --strict -c SHA256SUMS",
      path, target.path,
    ]
    let ended = LineMailbox()
    process.terminationHandler = { _ in ended.close() }
    try process.run()
    _ = try await ended.next()
    #expect(process.terminationStatus == 0)
    #expect(try target.files().contains("backup.json"))
  }

  @Test func `only the owner can read a backup, and no other file is left`() async throws {
    try await fill(1)
    let path = try server.backUp()
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    #expect(try server.place.files() == ["a.tar"])
  }

  @Test func `each altered byte of a backup is found`() async throws {
    try await fill(2)
    let path = try server.backUp()
    let bytes = Array(try Data(contentsOf: URL(filePath: path)))
    let file = try FileHandle(forUpdating: URL(filePath: path))
    func write(_ byte: UInt8, at place: Int) throws {
      try file.seek(toOffset: UInt64(place))
      try file.write(contentsOf: Data([byte]))
    }
    var random = SeededGenerator(seed: 3)
    // All bytes of the first header and of the last blocks, and random ones between them.
    let places =
      Array(0..<512) + Array((bytes.count - 2_600)..<bytes.count)
      + (0..<300).map { _ in Int.random(in: 0..<bytes.count, using: &random) }
    for place in places {
      try write(bytes[place] ^ 1 << UInt8.random(in: 0..<8, using: &random), at: place)
      let error = #expect(throws: BackupError.self, "byte \(place)") {
        try BackupFile(path).unpack(to: nil)
      }
      if case .damaged = error {
      } else {
        Issue.record("byte \(place): \(String(describing: error))")
      }
      try write(bytes[place], at: place)
    }
    try file.close()
    try BackupFile(path).unpack(to: nil)
  }

  @Test func `a backup without its last bytes, or with further ones, is refused`() async throws {
    try await fill(2)
    let path = try server.backUp()
    let data = try Data(contentsOf: URL(filePath: path))
    let other = server.place.file("b.tar")
    for count in [0, 1, 511, 512, 513, data.count / 2, data.count - 512, data.count - 1] {
      try data.prefix(count).write(to: URL(filePath: other))
      let error = #expect(throws: BackupError.self) { try BackupFile(other).unpack(to: nil) }
      #expect(error?.sentence.contains("its end is missing") == true, "\(count)")
    }
    try (data + Data([0])).write(to: URL(filePath: other))
    let error = #expect(throws: BackupError.self) { try BackupFile(other).unpack(to: nil) }
    #expect(error?.sentence.contains("1 bytes too many") == true)
    try data.write(to: URL(filePath: other))
    try BackupFile(other).unpack(to: nil)
  }

  @Test(arguments: [
    "../canopy.sqlite", "/etc/passwd", "namespaces/../x/canopy.sqlite", "namespaces/a/admin-token",
    "namespaces/default/canopy.sqlite", "canopy.sqlite-wal", "namespaces/A/canopy.sqlite", "",
  ])
  func `an archive with another name writes no file`(name: String) throws {
    let path = server.place.file("b.tar")
    var writer = try BackupWriter(path, seconds: 5)
    try writer.add([1], as: name)
    try writer.finish()
    writer.close()
    let target = try TemporaryFolder()
    #expect(throws: BackupError.self) { try BackupFile(path).unpack(to: target.path) }
    #expect(try target.files().isEmpty)
  }

  @Test func `a backup of a newer format is refused`() throws {
    let path = server.place.file("b.tar")
    var description = BackupDescription(program: "canopy 99", time: 5)
    for format in [1, 2] {
      description.format = format
      let text = try description.json
      do throws(BackupError) {
        let read = try BackupDescription(json: text, of: path)
        #expect(read == description && format == 1)
      } catch {
        #expect(format == 2 && error.sentence.contains("newer version"))
      }
    }
  }

  @Test func `a backup that is cancelled in any step leaves no file`() async throws {
    try await fill(100)
    struct Stop: Error {}
    var steps = 0
    try server.backUp { _ in steps += 1 }
    let path = server.place.file("a.tar")
    let whole = try Data(contentsOf: URL(filePath: path))
    #expect(steps > 3)
    for last in 1...steps {
      var step = 0
      #expect(throws: Stop.self, "step \(last)") {
        try server.backUp { _ in
          step += 1
          if step == last { throw Stop() }
        }
      }
      #expect(try server.place.files() == ["a.tar"])
    }
    #expect(try Data(contentsOf: URL(filePath: path)) == whole, "the older backup is as before")
  }

  @Test(arguments: [false, true])
  func `a namespace that is removed meanwhile is left out`(isServed: Bool) async throws {
    try await fill(3)
    let removed = server.place.file("removed")
    let path = try server.backUp(isServed: isServed) { progress in
      guard progress.namespace == .default, !FileManager.default.fileExists(atPath: removed) else {
        return
      }
      try FileManager.default.moveItem(atPath: server.shopFolder, toPath: removed)
    }
    let (description, target) = try unpack(path)
    #expect(description.databases.map(\.name) == ["default"])
    #expect(
      try target.files() == ["admin-token", "canopy.sqlite", "identity-keys", "rules.json"])
    #expect(try server.place.files() == ["a.tar", "removed"])
  }

  @Test func `a namespace whose folder goes missing meanwhile fails the backup`()
    async throws
  {
    struct IsMissing: Error {}
    try await fill(3)
    let path = try server.backUp()
    let before = try Data(contentsOf: URL(filePath: path))
    let (shop, folder) = (try NamespaceName("shop"), server.shopFolder)
    let maker = BackupMaker(
      folder: server.folder.path, isServed: false,
      namespaces: {
        guard FileManager.default.fileExists(atPath: folder) else { throw IsMissing() }
        return [(shop, folder)]
      }, program: "canopy test", now: { 1 }, pace: .unlimited)
    #expect(throws: IsMissing.self) {
      try maker.make(in: server.place.file(".work")) { _ in
        path
      } progress: { _ in
        try? FileManager.default.moveItem(atPath: folder, toPath: server.place.file("moved"))
      }
    }
    #expect(try Data(contentsOf: URL(filePath: path)) == before)
    #expect(try server.place.files() == ["a.tar", "moved"])
  }

  @Test func `a namespace that has lost its files meanwhile fails the backup`() async throws {
    try await fill(3)
    #expect(throws: (any Error).self) {
      try server.backUp(isServed: true) { progress in
        guard progress.namespace == .default else { return }
        for name in try FileManager.default.contentsOfDirectory(atPath: server.shopFolder) {
          try FileManager.default.removeItem(atPath: server.shopFolder + "/" + name)
        }
      }
    }
    #expect(try server.place.files().isEmpty)
  }

  @Test(arguments: ["rules.json", "identity-keys", "admin-token", "namespaces/shop/rules.json"])
  func `a small file that has become long is not read as a whole, and fails the backup`(
    name: String
  ) throws {
    let path = server.folder.file(name)
    #expect(truncate(path, 1 << 30) == 0)
    for isServed in [false, true] {
      let error = #expect(throws: StoreError.self) { try server.backUp(isServed: isServed) }
      let sentence = error?.sentence ?? ""
      #expect(sentence.contains(path) && sentence.contains("put back the file of a backup"))
    }
    #expect(try server.place.files().isEmpty)
  }

  @Test func `a backup that names a namespace twice is refused`() throws {
    var (description, target) = try unpack(try server.backUp())
    func write(_ name: String) throws -> BackupFile {
      let path = server.place.file(name)
      var writer = try BackupWriter(path, seconds: 1)
      for name in ["canopy.sqlite", "namespaces/shop/canopy.sqlite"] {
        try writer.add(file: target.file(name), as: name) { _ in }
      }
      try writer.add(try description.json, as: BackupLayout.description)
      try writer.finish()
      writer.close()
      return BackupFile(path)
    }
    #expect(try write("once.tar").unpack(to: nil) == description)
    description.databases.append(description.databases[1])
    let twice = try write("twice.tar")
    let error = #expect(throws: BackupError.self) { try twice.unpack(to: nil) }
    #expect(error?.sentence.contains("its files are not those of its description") == true)
  }

  @Test func `a backup with thousands of namespaces can be read`() throws {
    let path = server.place.file("b.tar")
    var writer = try BackupWriter(path, seconds: 5)
    var description = BackupDescription(program: "canopy test", time: 5)
    let long = String(repeating: "x", count: 57)
    for number in 0..<4_000 {
      let name = try number == 0 ? .default : NamespaceName("\(long)-\(number)")
      for file in [BackupLayout.database, BackupLayout.rules] {
        try writer.add([1], as: BackupLayout.prefix(of: name) + file)
      }
      description.databases.append(
        BackupDescription.Database(name: name.text, sequence: 1, time: nil))
    }
    try writer.add(try description.json, as: BackupLayout.description)
    try writer.finish()
    writer.close()
    #expect(try BackupFile(path).unpack(to: nil) == description)
  }

  @Test
  func `a backup is not written if its description or its checksums would be too long to read`()
    throws
  {
    let path = server.place.file("b.tar")
    // The line of a checksum has 64 digits, two spaces, the name and its end.
    var writer = try BackupWriter(path, seconds: 5, textBytesMax: 78)
    defer { writer.close() }
    try writer.add([1], as: "admin-token")
    let long = [UInt8](repeating: 1, count: 79)
    for (contents, name) in [([1], "rules.json"), (long, BackupLayout.description)] {
      let error = #expect(throws: BackupError.self) { try writer.add(contents, as: name) }
      #expect(error?.sentence.contains("too many namespaces") == true, "\(name)")
    }
  }

  @Test func `rules that change meanwhile are those of the copy`() async throws {
    try await fill(1)
    var changes = 0
    let path = try server.backUp { progress in
      guard progress.namespace == .default, changes < 1 else { return }
      changes += 1
      // The first step reads the rules before this is called, so that the change belongs to a later moment.
      try server.write("{\"rules\":{\"later\":{}}}", "rules.json")
    }
    let (_, target) = try unpack(path)
    let rules = try String(contentsOfFile: target.file("rules.json"), encoding: .utf8)
    #expect(rules == "{\"rules\":{}}")
  }
}
