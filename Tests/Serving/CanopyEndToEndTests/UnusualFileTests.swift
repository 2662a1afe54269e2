import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Commands on data folders with pipes, links and very large files, and commands whose output would be in the folder.
@Suite(.timeLimit(.minutes(20)), .serialized) struct UnusualFileTests {
  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }
  private var new: String { folder.file("new") }
  private let files = FileManager.default

  init() throws {
    folder = try TemporaryFolder()
  }

  /// Creates a data folder with the namespace `shop`.
  private func create() async throws {
    try await Command.run(["import", "--data", data], input: "{\"main\":1}").expect(status: 0)
    try await Command.run(["namespace", "create", "shop", "--data", data]).expect(status: 0)
    try await Command.run(
      ["import", "--data", data, "--namespace", "shop"], input: "{\"item\":\"hat\"}"
    ).expect(status: 0)
  }

  private func write(_ text: String, _ name: String) throws {
    let isWritten = files.createFile(
      atPath: data + "/" + name, contents: Data(text.utf8),
      attributes: [.posixPermissions: 0o600])
    try #require(isWritten)
  }

  private func replace(_ name: String, byLinkTo target: String) throws {
    try? files.removeItem(atPath: data + "/" + name)
    try files.createSymbolicLink(atPath: data + "/" + name, withDestinationPath: target)
  }

  private func replaceByPipe(_ name: String) throws {
    try? files.removeItem(atPath: data + "/" + name)
    try #require(mkfifo(data + "/" + name, 0o600) == 0)
  }

  private func expectRefusal(_ arguments: [String], mentions words: String...) async throws {
    let ending = try await Command.run(arguments)
    ending.expectSentence()
    for word in words { #expect(ending.errors.contains(word), "\(ending)") }
  }

  private func repair() async throws -> Command.Ending {
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    ending.expect(status: 0)
    return ending
  }

  @Test(arguments: [true, false])
  func
    `a repair ends with the name of the namespace, and leaves nothing, after an error without damage`(
      hasSecondName: Bool
    ) async throws
  {
    try await create()
    let shop = data + "/namespaces/shop"
    if hasSecondName {
      try files.linkItem(atPath: shop + "/canopy.sqlite", toPath: folder.file("other"))
    } else {
      try replace("namespaces/shop/canopy.tail", byLinkTo: folder.file("missing"))
    }
    let before = try folder.files()
    try await expectRefusal(
      ["repair", "--data", data, "--to", new], mentions: "namespace shop", "cannot be repaired")
    #expect(try folder.files() == before)
  }

  @Test func `a pipe in place of a secret is left out by a repair`() async throws {
    try await create()
    for name in ["admin-token", "identity-keys"] { try replaceByPipe(name) }
    let ending = try await repair()
    for name in ["admin-token", "identity-keys"] {
      #expect(ending.text.contains("lost: \(name), which cannot be read"), "\(ending)")
    }
  }

  @Test func `a repair copies no small file that is too long`() async throws {
    try await create()
    for name in ["admin-token", "identity-keys"] { try write("x", name) }
    let bytes = 1 << 36
    for name in ["admin-token", "identity-keys", "canopy.tail"] {
      try #require(truncate(data + "/" + name, bytes) == 0)
    }
    _ = try await repair()
    #expect(try await Command.run(["export", "--data", new]).text == "{\"main\":1}\n")
  }

  @Test func `a repair copies the rules to which a relative link leads`() async throws {
    try await create()
    let rules = "{\"rules\":{\".read\":false}}"
    try Data(rules.utf8).write(to: URL(filePath: folder.file("shared.json")))
    try replace("rules.json", byLinkTo: "../shared.json")
    _ = try await repair()
    #expect(files.contents(atPath: new + "/rules.json") == Data(rules.utf8))
    let attributes = try files.attributesOfItem(atPath: new + "/rules.json")
    #expect(attributes[.type] as? FileAttributeType == .typeRegular)
  }

  @Test(arguments: ["missing", "namespaces"])
  func `a folder of namespaces that is a link to nothing is refused`(_ target: String) async throws
  {
    try await create()
    try replace("namespaces", byLinkTo: target)
    for command in [
      ["verify", "--data", data], ["repair", "--data", data, "--to", new],
      ["backup", "--data", data, folder.file("backup.tar")],
      ["namespace", "list", "--data", data],
    ] {
      try await expectRefusal(command, mentions: "\(data)/namespaces cannot be read", "mount")
    }
    let served = try await Command.run(["serve", "--data", data, "--port", "0"])
    #expect(served.status == 1 && served.errors.contains("namespaces cannot be read"), "\(served)")
    #expect(try folder.files() == ["data"])
  }

  @Test func `a pipe in place of a journal of SQLite is refused`() async throws {
    try await create()
    try replaceByPipe("canopy.sqlite-journal")
    for command in [["serve", "--data", data, "--port", "0"], ["verify", "--data", data]] {
      try await expectRefusal(command, mentions: "canopy.sqlite-journal is not a regular file")
    }
  }

  @Test func `a pipe is no backup, and an empty name is no file`() async throws {
    try await create()
    try #require(mkfifo(folder.file("pipe"), 0o600) == 0)
    for command in [["verify"], ["restore", "--data", new]] {
      let ending = try await Command.run(command + [folder.file("pipe")])
      let text = ending.text + ending.errors
      #expect(ending.status == 1 && text.contains("is not a regular file"), "\(ending)")
    }
    let empty = try await Command.run(["backup", "--data", data, ""])
    #expect(empty.status == 64 && empty.errors.contains("name a file"), "\(empty)")
  }

  @Test func `a new folder may be a link to an empty folder, and not to a missing one`()
    async throws
  {
    try await create()
    let (first, second) = (folder.file("first"), folder.file("second"))
    let file = folder.file("b.tar")
    try await Command.run(["backup", "--data", data, file]).expect(status: 0)
    for link in [first, second] {
      try files.createSymbolicLink(atPath: link, withDestinationPath: link + "-disk")
    }
    try await expectRefusal(
      ["restore", file, "--data", first], mentions: "is a symbolic link to a missing folder")
    try await expectRefusal(
      ["repair", "--data", data, "--to", second], mentions: "is a symbolic link to a missing folder"
    )
    for link in [first, second] {
      try files.createDirectory(atPath: link + "-disk", withIntermediateDirectories: false)
    }
    try await Command.run(["restore", file, "--data", first]).expect(status: 0)
    try await Command.run(["repair", "--data", data, "--to", second]).expect(status: 0)
    for link in [first, second] {
      try await Command.run(["verify", "--data", link]).expect(status: 0)
      let names = try files.contentsOfDirectory(atPath: link + "-disk")
      #expect(names.contains("canopy.sqlite") && !names.contains { $0.hasPrefix(".") }, "\(names)")
    }
  }

  @Test func `an export to the open output goes on where the output is`() async throws {
    try await create()
    let file = folder.file("all.txt")
    let script = #"""
      (echo begin; "$0" export --data "$1" / /dev/stdout; echo; "$0" export --data "$1" / /dev/fd/3 3>&1; echo; echo end) >"$2"
      """#
    let ending = try await Command.run(
      ["-c", script, Command.path, data, file], program: "/bin/sh")
    ending.expect(status: 0)
    let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
    #expect(lines == ["begin", "{\"main\":1}", "{\"main\":1}", "end"], "\(lines)")
  }

  @Test(.enabled(if: geteuid() == 0, "only root may give a folder to another user"))
  func `a namespace is created only by the user of the folder`() async throws {
    try await create()
    for path in [data, data + "/canopy.sqlite"] { try #require(chown(path, 65_534, 65_534) == 0) }
    try await expectRefusal(
      ["namespace", "create", "other", "--data", data], mentions: "belongs to the user")
    try await expectRefusal(
      ["namespace", "remove", "shop", "--data", data], mentions: "belongs to the user")
    #expect(try files.contentsOfDirectory(atPath: data + "/namespaces").contains("other") == false)
  }

  @Test func `the folder of the backups may be a link to another folder`() async throws {
    try await create()
    let other = folder.file("other")
    try files.createDirectory(atPath: other, withIntermediateDirectories: false)
    try replace("backups", byLinkTo: other)
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    let name = try #require(try await client.value("BACKUP")["file"]?.string)
    #expect(try files.contentsOfDirectory(atPath: other) == [name])
    try files.removeItem(atPath: other)
    try await client.expect("BACKUP", failsWith: "UNAVAILABLE", "leads to no folder")
    #expect(try await server.terminate() == 0)
  }

  @Test func `messages about the copy of a backup name the backup`() async throws {
    try await create()
    let backup = folder.file("b.tar")
    try await Command.run(["backup", "--data", data, backup]).expect(status: 0)
    try await expectRefusal(
      ["verify", backup, "--namespace", "nope"], mentions: "\(backup) has no namespace nope")
  }

  @Test func `a backup, an export and a repair do not write into the data folder`() async throws {
    try await create()
    let link = folder.file("link")
    try files.createSymbolicLink(atPath: link, withDestinationPath: data + "/namespaces/shop")
    let text = folder.file("text")
    try files.createSymbolicLink(atPath: text, withDestinationPath: data + "/canopy.tail")
    let shop = try #require(files.contents(atPath: link + "/canopy.sqlite"))
    let places = [
      data + "/canopy.sqlite", data + "/new", data + "/namespaces/shop/canopy.sqlite",
      link + "/canopy.sqlite", link + "/../shop/canopy.sqlite",
    ]
    for place in places {
      try await expectRefusal(["backup", "--data", data, place], mentions: "in the data folder")
    }
    for place in places + [text] {
      try await expectRefusal(
        ["export", "--data", data, "/", place], mentions: "in the data folder")
    }
    try await expectRefusal(
      ["repair", "--data", data, "--to", data + "/new"], mentions: "in the data folder")
    let server = try await ServerProcess(data: data)
    try await expectRefusal(
      ["backup", "--data", data, data + "/canopy.sqlite"], mentions: "in the data folder")
    #expect(try await server.terminate() == 0)
    #expect(files.contents(atPath: link + "/canopy.sqlite") == shop)
    try await Command.run(["verify", "--data", data]).expect(status: 0)
  }
}
