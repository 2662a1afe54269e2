import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Namespaces of a data folder: the commands, and a server that is a process of its own.
@Suite(.timeLimit(.minutes(20)), .serialized) struct NamespaceTests {
  private let folder: TemporaryFolder
  private var data: String { folder.path + "/data" }

  init() throws {
    folder = try TemporaryFolder()
  }

  private func create(_ name: String) async throws {
    let ending = try await Command.run(["namespace", "create", name, "--data", data])
    #expect(ending.status == 0, "\(ending)")
  }

  /// Creates the data folder, as a first start does.
  private func createFolder() async throws {
    let ending = try await Command.run(["import", "--data", data], input: "{\"main\":1}")
    #expect(ending.status == 0, "\(ending)")
  }

  private func administrator(
    of server: ServerProcess, in name: String
  ) async throws -> LineSocketClient {
    let client = try await server.connect()
    try await client.value(ServerProcess.authentication(data: data))
    try await client.value("USE \(name)")
    return client
  }

  private func export(_ name: String) async throws -> String {
    let ending = try await Command.run(["export", "--data", data, "--namespace", name])
    #expect(ending.status == 0, "\(ending)")
    return ending.text
  }

  @Test func `a namespace whose folder is missing is reported until it is removed`() async throws {
    try await createFolder()
    try await create("shop")
    try await create("zoo")
    // An earlier version made no record.
    let record = data + "/known-namespaces"
    try FileManager.default.removeItem(atPath: record)
    let first = try await ServerProcess(data: data)
    #expect(try await first.terminate() == 0)
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: record).sorted() == ["shop", "zoo"])
    try FileManager.default.removeItem(atPath: data + "/namespaces")
    try await create("third")
    let second = try await ServerProcess(data: data)
    #expect(second.log.contains("the folder of a namespace is missing"), "\(second.log)")
    let client = try await second.connect()
    try await client.value(ServerProcess.authentication(data: data))
    try await client.expect("GET /main", "+1")
    #expect(try await second.terminate() == 0)
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1, "\(verified)")
    for name in ["shop", "zoo"] {
      #expect(verified.text.contains("\(data)/namespaces/\(name) is missing"), "\(verified)")
      let again = try await Command.run(["namespace", "create", name, "--data", data])
      #expect(again.isSentence && again.errors.contains("is missing"), "\(again)")
      let removed = try await Command.run(["namespace", "remove", name, "--yes", "--data", data])
      #expect(removed.status == 0, "\(removed)")
    }
    let sound = try await Command.run(["verify", "--data", data])
    #expect(sound.status == 0 && sound.text.contains("namespace third: ok"), "\(sound)")
    try await create("shop")
  }

  @Test func `no backup is made while the folder of a namespace is missing`()
    async throws
  {
    try await createFolder()
    try await create("shop")
    let (backup, missing) = (folder.file("backup.tar"), data + "/namespaces/shop")
    try await Command.run(["backup", "--data", data, backup]).expect(status: 0)
    let before = try Data(contentsOf: URL(filePath: backup))
    try FileManager.default.moveItem(atPath: missing, toPath: folder.file("moved"))
    for arguments in [[], ["--backup-every", "1000000"], ["--emulator"]] {
      let server = try await ServerProcess(data: data, arguments)
      let client = try await server.connect()
      try await client.value(ServerProcess.authentication(data: data))
      try await client.expect(
        "USE shop", failsWith: "UNAVAILABLE", "the folder of the namespace shop is missing")
      if arguments.isEmpty {
        try await client.expect("BACKUP", failsWith: "UNAVAILABLE", missing)
      } else if arguments.count == 2 {
        try await eventually {
          server.log.split(separator: "\n").contains {
            $0.contains("the backup failed") && $0.contains(missing)
          }
        }
        #expect(try await client.value("BACKUPS")["failures"]?.integer == 1)
      }
      let asked = try await Command.run(["backup", "--data", data, backup])
      #expect(asked.isSentence && asked.errors.contains("\(missing) is missing"), "\(asked)")
      #expect(try await server.terminate() == 0)
    }
    let ending = try await Command.run(["backup", "--data", data, backup])
    #expect(ending.isSentence && ending.errors.contains("namespace remove shop"), "\(ending)")
    #expect(!FileManager.default.fileExists(atPath: missing))
    #expect(try Data(contentsOf: URL(filePath: backup)) == before)

    try await remove("shop", "--yes").expect(status: 0)
    try await Command.run(["backup", "--data", data, backup]).expect(status: 0)
    #expect(try Data(contentsOf: URL(filePath: backup)) != before)
  }

  @Test func `a record of the namespaces that cannot be read ends no server and no repair`()
    async throws
  {
    try await createFolder()
    try await create("shop")
    let (record, new) = (data + "/known-namespaces", folder.file("new"))
    try FileManager.default.removeItem(atPath: record)
    try Data("x".utf8).write(to: URL(filePath: record))
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1 && verified.text.contains(record), "\(verified)")
    #expect(verified.text.contains("namespace shop: ok: "), "\(verified)")
    let backup = try await Command.run(["backup", "--data", data, folder.file("backup.tar")])
    #expect(backup.isSentence && backup.errors.contains(record), "\(backup)")
    let repaired = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(repaired.status == 0 && repaired.text.contains(record), "\(repaired)")
    try await Command.run(["verify", "--data", new]).expect(status: 0)
    let server = try await ServerProcess(data: data)
    #expect(server.log.contains("the namespaces cannot be recorded"), "\(server.log)")
    #expect(try await server.terminate() == 0)
  }

  @Test func `namespaces are created, listed, exported, imported and verified`() async throws {
    try await createFolder()
    try await create("zoo")
    try await create("a-1")
    let listed = try await Command.run(["namespace", "list", "--data", data])
    #expect(listed.text == "default\na-1\nzoo\n")
    let input = "{\"b\":{\"c\":true}}\n"
    let imported = try await Command.run(
      ["import", "--data", data, "--namespace", "zoo"], input: input)
    #expect(imported.status == 0, "\(imported)")
    #expect(try await export("zoo") == input)
    #expect(try await export("a-1") == "null\n")
    #expect(try await export("default") == "{\"main\":1}\n")
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 0 && verified.text.contains("namespace zoo: ok: "), "\(verified)")
    #expect(verified.text.hasPrefix("ok: ") && verified.text.contains("namespace a-1: ok: "))
    let one = try await Command.run(["verify", "--data", data, "--namespace", "zoo"])
    #expect(one.text.hasPrefix("namespace zoo: ok: ") && !one.text.contains("a-1"))
  }

  @Test(arguments: [
    "..", ".", "", "A", "a/b", "../x", "é", "default", "zoo", String(repeating: "a", count: 64),
  ])
  func `a name that is invalid or taken creates nothing`(_ name: String) async throws {
    try await createFolder()
    try await create("zoo")
    let before = try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
    let ending = try await Command.run(["namespace", "create", name, "--data", data])
    #expect(ending.isSentence, "\(ending)")
    #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted() == before)
  }

  /// The names in the folder of namespaces, with those that begin with a dot.
  private func entries() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: data + "/namespaces").sorted()
  }

  private func remove(
    _ name: String, _ flags: String..., input: String = ""
  ) async throws -> Command.Ending {
    try await Command.run(["namespace", "remove", name, "--data", data] + flags, input: input)
  }

  @Test func `a namespace is removed with its data if its name is typed, or with --yes`()
    async throws
  {
    try await createFolder()
    try await create("zoo")
    try await create("a-1")
    try await create("b")
    for input in ["", "\n", "zo\n", "zoo \n", "yes\n"] {
      let ending = try await remove("zoo", input: input)
      #expect(
        ending.status == 1 && ending.errors.contains("nothing is removed"), "\(input): \(ending)")
    }
    #expect(try entries() == ["a-1", "b", "zoo"])
    let typed = try await remove("zoo", input: "zoo\n")
    #expect(typed.status == 0 && typed.errors.contains("zoo is removed"), "\(typed)")
    #expect(try entries() == ["a-1", "b"])
    try await remove("a-1", "--yes").expect(status: 0)
    #expect(try await Command.run(["namespace", "list", "--data", data]).text == "default\nb\n")
    try await Command.run(["verify", "--data", data]).expect(status: 0)
    // The name is free again, and nothing of the former data is there.
    try await create("zoo")
    #expect(try await export("zoo") == "null\n")
  }

  @Test(arguments: ["default", "missing", "..", "", "A", "zoo/../zoo", ".removed-zoo-1"])
  func `a namespace that does not exist, or must stay, is not removed`(_ name: String) async throws
  {
    try await createFolder()
    try await create("zoo")
    let before = try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
    let ending = try await remove(name, "--yes")
    #expect(ending.status != 0 && ending.errors.hasPrefix("Error: "), "\(ending)")
    #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted() == before)
  }

  @Test func `a link in place of the folder of a namespace is not removed`() async throws {
    try await createFolder()
    try await create("zoo")
    let path = data + "/namespaces/zoo"
    try FileManager.default.moveItem(atPath: path, toPath: folder.path + "/elsewhere")
    try FileManager.default.createSymbolicLink(
      atPath: path, withDestinationPath: folder.path + "/elsewhere")
    let ending = try await remove("zoo", "--yes")
    #expect(ending.isSentence && ending.errors.contains("is a link"), "\(ending)")
    #expect(try await export("zoo") == "null\n")
  }

  @Test func `the rest of an interrupted removal is no namespace, and the next command deletes it`()
    async throws
  {
    try await createFolder()
    try await create("zoo")
    try await create("b")
    let folders = data + "/namespaces"
    // A crash directly behind the step that gives the folder another name.
    try FileManager.default.moveItem(
      atPath: folders + "/zoo", toPath: folders + "/.removed-zoo-1f")
    // The record went before.
    try FileManager.default.removeItem(atPath: data + "/known-namespaces/zoo")
    #expect(try await Command.run(["namespace", "list", "--data", data]).text == "default\nb\n")
    try await Command.run(["verify", "--data", data]).expect(status: 0)
    #expect(try await remove("zoo", "--yes").errors.contains("no namespace zoo"))
    #expect(try entries() == ["b"])
    try FileManager.default.createDirectory(
      atPath: folders + "/.removed-x-2", withIntermediateDirectories: false)
    try await create("zoo")
    #expect(try entries() == ["b", "zoo"])
  }

  @Test
  func `the rest of an interrupted creation is no namespace, and the next command deletes it`()
    async throws
  {
    try await createFolder()
    try await create("zoo")
    let folders = data + "/namespaces"
    // A crash directly before the step that gives the folder its name.
    try FileManager.default.moveItem(atPath: folders + "/zoo", toPath: folders + "/.new-zoo-1f")
    try FileManager.default.removeItem(atPath: data + "/known-namespaces/zoo")
    #expect(try await Command.run(["namespace", "list", "--data", data]).text == "default\n")
    try await Command.run(["verify", "--data", data]).expect(status: 0)
    try await create("zoo")
    #expect(try entries() == ["zoo"])
    // An empty folder is no namespace, either.
    try FileManager.default.createDirectory(
      atPath: folders + "/b", withIntermediateDirectories: false)
    try await Command.run(["verify", "--data", data]).expect(status: 0)
    try await create("b")
    #expect(
      try await Command.run(["namespace", "list", "--data", data]).text == "default\nb\nzoo\n")
  }

  /// Removes the database of a namespace and all other files but some.
  private func loseDatabase(of name: String, keeping kept: [String]) throws {
    let path = "\(data)/namespaces/\(name)/"
    for file in try FileManager.default.contentsOfDirectory(atPath: path)
    where !kept.contains(file) { try FileManager.default.removeItem(atPath: path + file) }
  }

  @Test(arguments: [
    ["canopy.tail", "lock", "rules.json"], ["canopy.tail"], ["lock"], ["rules.json"],
  ])
  func `a namespace without its database is reported, and no backup is made until it is removed`(
    _ kept: [String]
  ) async throws {
    try await createFolder()
    try await create("shop")
    try await create("zoo")
    let shop = data + "/namespaces/shop"
    try Data("{\"rules\":{}}".utf8).write(to: URL(fileURLWithPath: shop + "/rules.json"))
    try loseDatabase(of: "shop", keeping: kept)
    let listed = try await Command.run(["namespace", "list", "--data", data])
    #expect(listed.text == "default\nshop\nzoo\n")
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1 && verified.text.contains("namespace zoo: ok: "), "\(verified)")
    #expect(verified.text.contains("namespace shop: \(shop)/canopy.sqlite is missing"))
    let backup = folder.path + "/backup.tar"
    for command in [
      ["verify", "--namespace", "shop"], ["export", "--namespace", "shop"],
      ["import", "--namespace", "shop"], ["namespace", "create", "shop"], ["backup", backup],
    ] {
      let ending = try await Command.run(command + ["--data", data], input: "1")
      #expect(ending.isSentence && ending.errors.contains("shop"), "\(command): \(ending)")
    }
    #expect(!FileManager.default.fileExists(atPath: backup))
    #expect(!FileManager.default.fileExists(atPath: shop + "/canopy.sqlite"))
    let new = folder.path + "/new"
    let repaired = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(
      repaired.status == 0 && repaired.text.contains("namespace shop: lost as a whole"),
      "\(repaired)")

    let server = try await ServerProcess(data: data)
    #expect(server.log.contains("a namespace has lost its database"))
    let client = try await administrator(of: server, in: "zoo")
    try await client.expect("USE shop", failsWith: "UNAVAILABLE")
    try await client.expect("BACKUP", failsWith: "UNAVAILABLE")
    try await remove("shop", "--yes").expect(status: 0)
    try await client.value("BACKUP")
    try await client.expect("USE shop", failsWith: "NOT_FOUND")
    #expect(try await server.terminate() == 0)
    try await Command.run(["verify", "--data", data]).expect(status: 0)
  }

  @Test func `no backup is made while an open namespace has lost its database`() async throws {
    try await createFolder()
    try await create("shop")
    let server = try await ServerProcess(data: data)
    let client = try await administrator(of: server, in: "shop")
    try await client.value("SET /x 1")
    let database = data + "/namespaces/shop/canopy.sqlite"
    try FileManager.default.moveItem(atPath: database, toPath: folder.path + "/moved")
    try await client.expect("BACKUP", failsWith: "UNAVAILABLE")
    try FileManager.default.moveItem(atPath: folder.path + "/moved", toPath: database)
    try await client.value("BACKUP")
    #expect(try await server.terminate() == 0)
  }

  @Test func `a link to a disk that is not mounted is a namespace without its database`()
    async throws
  {
    try await createFolder()
    try await create("zoo")
    let path = data + "/namespaces/zoo"
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.createSymbolicLink(
      atPath: path, withDestinationPath: folder.path + "/elsewhere")
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1 && verified.text.contains("namespace zoo: "), "\(verified)")
  }

  /// Removes a namespace with the command, and puts a copy of its folder back, as an administrator can do.
  private func removeAndPutBack(_ name: String) async throws {
    let path = data + "/namespaces/" + name
    try FileManager.default.copyItem(atPath: path, toPath: folder.file("copy"))
    try await remove(name, "--yes").expect(status: 0)
    #expect(try entries().contains(".gone-" + name))
    try FileManager.default.moveItem(atPath: folder.file("copy"), toPath: path)
  }

  @Test(arguments: [true, false])
  func
    `a namespace whose folder is put back counts as existing when it is used or at the next start`(
      isUsed: Bool
    ) async throws
  {
    try await createFolder()
    try await create("shop")
    var server = try await ServerProcess(data: data)
    try await administrator(of: server, in: "default").value("BACKUP")
    if isUsed {
      try await removeAndPutBack("shop")
      _ = try await administrator(of: server, in: "shop")
      #expect(try await server.terminate() == 0)
    } else {
      #expect(try await server.terminate() == 0)
      try await removeAndPutBack("shop")
      server = try await ServerProcess(data: data)
      #expect(try await server.terminate() == 0)
    }
    #expect(try entries() == ["shop"])
  }

  /// The ways in which the folder of a namespace can disappear.
  enum Disappearance: CaseIterable {
    case command, interruptedCommand, loss, lossAfterNewCreation, lossAfterReturnAtBackup
    case lossAfterInterruptedCommand
  }

  /// Leaves a namespace as a crash in the middle of its removal does.
  private func interruptRemoval(of name: String) throws {
    let folders = data + "/namespaces/"
    try FileManager.default.removeItem(atPath: data + "/known-namespaces/" + name)
    try Data().write(to: URL(filePath: folders + ".gone-" + name))
    try FileManager.default.moveItem(
      atPath: folders + name, toPath: folders + ".removed-\(name)-1f")
  }

  @Test(arguments: Disappearance.allCases)
  func `an old backup stays if the new one lacks a namespace that no command has removed`(
    _ disappearance: Disappearance
  ) async throws {
    try await createFolder()
    try await create("shop")
    let server = try await ServerProcess(data: data, ["--backups-kept", "1"])
    let client = try await administrator(of: server, in: "default")
    try await client.value("BACKUP")
    let path = data + "/namespaces/shop"
    switch disappearance {
    case .command: try await remove("shop", "--yes").expect(status: 0)
    case .interruptedCommand:
      try interruptRemoval(of: "shop")
      try await create("other")
    case .lossAfterInterruptedCommand:
      try FileManager.default.copyItem(atPath: path, toPath: folder.file("copy"))
      try interruptRemoval(of: "shop")
      try FileManager.default.moveItem(atPath: folder.file("copy"), toPath: path)
      try await client.value("SET /x 0")
      try await client.value("BACKUP")
      try FileManager.default.removeItem(atPath: path)
      try await create("other")
    case .loss: try FileManager.default.removeItem(atPath: path)
    case .lossAfterNewCreation:
      try await remove("shop", "--yes").expect(status: 0)
      try await create("shop")
      try FileManager.default.removeItem(atPath: path)
    case .lossAfterReturnAtBackup:
      try await removeAndPutBack("shop")
      try await client.value("SET /x 0")
      try await client.value("BACKUP")
      try FileManager.default.removeItem(atPath: path)
    }
    // With the record, no backup is made.
    try? FileManager.default.removeItem(atPath: data + "/known-namespaces/shop")
    // A backup of the same commit and second has the same name.
    try await client.value("SET /x 1")
    try await client.value("BACKUP")
    let isLost = ![.command, .interruptedCommand].contains(disappearance)
    #expect(try await client.value("BACKUPS")["backups"]?.elements?.count == (isLost ? 2 : 1))
    #expect(server.log.contains("an old backup is kept") == isLost)
    #expect(try await server.terminate() == 0)
  }

  @Test func `a namespace that a server has open is not removed, and one that it has not is`()
    async throws
  {
    try await createFolder()
    try await create("open")
    try await create("other")
    let server = try await ServerProcess(data: data)
    let client = try await administrator(of: server, in: "open")
    try await client.value("SET /x 1")
    let refused = try await remove("open", "--yes")
    #expect(refused.isSentence && refused.errors.contains("is in use"), "\(refused)")
    try await client.expect("GET /x", "+1")
    try await client.value("SET /x 2")
    try await remove("other", "--yes").expect(status: 0)
    try await client.expect("USE other", failsWith: "NOT_FOUND")
    // It can be created again while the server runs.
    try await create("other")
    try await client.value("USE other")
    try await client.expect("GET /x", "+null")
    #expect(try await server.terminate() == 0)
    #expect(try await export("open") == "{\"x\":2}\n")
    try await remove("open", "--yes").expect(status: 0)
    #expect(try entries() == ["other"])
  }

  @Test func `commands for a namespace that does not exist end with a sentence`() async throws {
    try await createFolder()
    for command in ["export", "import", "verify"] {
      for name in ["missing", ".."] {
        let ending = try await Command.run(
          [command, "--data", data, "--namespace", name], input: "1")
        #expect(ending.status != 0 && !ending.errors.contains("Fatal"), "\(name): \(ending)")
        #expect(ending.errors.contains("namespace"))
      }
    }
    #expect(!FileManager.default.fileExists(atPath: data + "/namespaces"))
  }

  @Test
  func
    `a running server serves a namespace that is created, and has its data after a restart and a crash`()
    async throws
  {
    try await createFolder()
    var server = try await ServerProcess(data: data)
    try await create("zoo")
    var client = try await administrator(of: server, in: "zoo")
    try await client.value("SET /n 1")
    try await client.expect("GET /main", "+null")
    // Nobody but the administrator may do anything.
    let stranger = try await server.connect()
    try await stranger.value("USE zoo")
    try await stranger.expect("GET /n", failsWith: "PERMISSION_DENIED")
    let rules = folder.path + "/rules.json"
    try Data("{\"rules\":{\".read\":true}}".utf8).write(to: URL(fileURLWithPath: rules))
    let set = try await Command.run(["rules", "set", rules, "--data", data, "--namespace", "zoo"])
    #expect(set.status == 0, "\(set)")
    try await stranger.expect("GET /n", "+1")
    try await stranger.value("USE default")
    try await stranger.expect("GET /main", failsWith: "PERMISSION_DENIED")
    #expect(try await server.terminate() == 0)

    server = try await ServerProcess(data: data)
    client = try await administrator(of: server, in: "zoo")
    try await client.expect("GET /n", "+1")
    for number in 1...50 { try await client.value("SET /m/\(number) \(number)") }
    try await client.value("ONDISCONNECT SET /gone true")
    try await server.destroy()

    server = try await ServerProcess(data: data)
    let other = try await server.connect()
    try await other.value("USE zoo")
    try await other.expect("COUNT /m", "+50")
    try await other.expect("GET /gone", "+true")
    #expect(try await server.terminate() == 0)
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 0, "\(verified)")
  }

  @Test func `an emulator creates a namespace at its first use, with open rules`() async throws {
    try await createFolder()
    var server = try await ServerProcess(data: data, ["--emulator"])
    var client = try await server.connect()
    try await client.value("USE new-one")
    try await client.value("SET /x 1")
    #expect(try await server.terminate() == 0)
    #expect(
      try await Command.run(["namespace", "list", "--data", data]).text == "default\nnew-one\n")
    // Without --emulator the rules of a new namespace allow nothing.
    server = try await ServerProcess(data: data)
    client = try await server.connect()
    try await client.value("USE new-one")
    try await client.expect("GET /x", failsWith: "PERMISSION_DENIED")
    try await client.expect("USE other", failsWith: "NOT_FOUND")
    #expect(try await server.terminate() == 0)
  }

  @Test func `a damaged namespace does not harm the others`() async throws {
    try await createFolder()
    try await create("good")
    try await create("bad")
    let file = data + "/namespaces/bad/canopy.sqlite"
    try Data(repeating: 0x5A, count: 8192).write(to: URL(fileURLWithPath: file))
    try await create("rules")
    try Data("{".utf8).write(to: URL(fileURLWithPath: data + "/namespaces/rules/rules.json"))
    let server = try await ServerProcess(data: data)
    let client = try await administrator(of: server, in: "good")
    for name in ["bad", "rules"] {
      try await client.expect("USE \(name)", failsWith: "UNAVAILABLE")
    }
    try await client.value("SET /x 1")
    try await client.value("USE default")
    try await client.expect("GET /main", "+1")
    #expect(server.log.contains("a namespace cannot be opened"))
    #expect(try await server.terminate() == 0)
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1 && verified.text.contains("namespace good: ok: "), "\(verified)")
    #expect(
      verified.text.contains("namespace bad: ") && verified.text.contains("namespace rules: "))
  }
}
