import CanopyTesting
import Foundation
import Testing

/// Commands whose arguments name files and folders in unusual ways, or whose folder has links to missing files.
@Suite(.timeLimit(.minutes(20)), .serialized) struct NamedPathTests {
  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }
  private let files = FileManager.default

  init() throws {
    folder = try TemporaryFolder()
  }

  /// Runs a script of the shell in the temporary folder. `$0` is the program.
  private func shell(_ script: String) async throws -> Command.Ending {
    try await Command.run(
      ["-c", "cd \"$1\" && HOME=$1/home && export HOME && \(script)", Command.path, folder.path],
      program: "/bin/sh")
  }

  private func create() async throws {
    try await Command.run(["import", "--data", data], input: "{\"main\":1}").expect(status: 0)
  }

  private func link(_ name: String, to target: String) throws {
    try? files.removeItem(atPath: folder.file(name))
    try files.createSymbolicLink(atPath: folder.file(name), withDestinationPath: target)
  }

  @Test(arguments: ["file:data", "file://$1/data"])
  func `a folder whose name looks like an address of SQLite is a folder of its own`(
    name: String
  ) async throws {
    try await create()
    let before = try await Command.run(["export", "--data", data]).text
    try await shell("echo '{\"other\":2}' | \"$0\" import --data \"\(name)\"").expect(status: 0)
    #expect(try await Command.run(["export", "--data", data]).text == before)
    let other = try await shell("\"$0\" export --data \"\(name)\"")
    #expect(other.text == "{\"other\":2}\n", "\(other)")
  }

  @Test func `all commands take a tilde and two dots after a link as the system does`()
    async throws
  {
    try await create()
    for name in ["~", "home", "far/inner"] {
      try files.createDirectory(
        atPath: folder.file(name), withIntermediateDirectories: true)
    }
    try link("link", to: "far/inner")
    try await Command.run(["backup", "--data", data, folder.file("b.tar")]).expect(status: 0)
    for (name, place) in [("~/new", "~/new"), ("link/../new", "far/new"), ("plain/.", "plain")] {
      try await shell("\"$0\" restore b.tar --data='\(name)'").expect(status: 0)
      #expect(files.fileExists(atPath: folder.file("\(place)/canopy.sqlite")), "\(name)")
      let exported = try await shell("\"$0\" export --data='\(name)'")
      #expect(exported.text == "{\"main\":1}\n", "\(name): \(exported)")
      try await shell("\"$0\" repair --data=data --to='\(name)2'").expect(status: 0)
    }
    #expect(files.fileExists(atPath: folder.file("far/new2/canopy.sqlite")))
    #expect(try files.contentsOfDirectory(atPath: folder.file("home")).isEmpty)
  }

  @Test func `an empty name of a data folder is refused`() async throws {
    let ending = try await shell("\"$0\" verify --data ''")
    #expect(ending.status == 64 && ending.errors.contains("is empty"), "\(ending)")
  }

  @Test func `remains of a killed command with the same process id stay and are no obstacle`()
    async throws
  {
    try await create()
    try await shell(
      "mkdir .b.tar.part-$$ && exec \"$0\" backup --data data b.tar"
    ).expect(status: 0)
    try await shell(
      "touch e.json.part-$$ && exec \"$0\" export --data data / e.json"
    ).expect(status: 0)
    let names = try files.contentsOfDirectory(atPath: folder.path)
    #expect(names.count { $0.contains(".part-") } == 2, "\(names)")
    #expect(names.contains("b.tar") && names.contains("e.json"))
  }

  @Test(arguments: ["rules.json", "admin-token", "identity-keys"])
  func `a link to a missing file ends a backup, and verify reports it`(
    name: String
  ) async throws {
    try await create()
    try link("data/" + name, to: "missing")
    let ending = try await Command.run(["backup", "--data", data, folder.file("b.tar")])
    #expect(ending.isSentence && ending.errors.contains("\(name) is a symbolic link"), "\(ending)")
    #expect(try folder.files() == ["data"])
    #expect(try await Command.run(["verify", "--data", data]).status == 1)
  }

  @Test func `a repair does not replace rules that are a link to a missing file`() async throws {
    try await create()
    try link("data/rules.json", to: "missing")
    let ending = try await Command.run(["repair", "--data", data, "--to", folder.file("new")])
    #expect(ending.isSentence && ending.errors.contains("link to a missing file"), "\(ending)")
    #expect(try folder.files() == ["data"])
  }

  @Test func `a namespace that is a link to a missing folder waits for its disk`() async throws {
    try await create()
    try await Command.run(["namespace", "create", "shop", "--data", data]).expect(status: 0)
    try link("data/namespaces/shop", to: "missing")
    let ending = try await Command.run(["export", "--data", data, "--namespace", "shop"])
    #expect(ending.isSentence && ending.errors.contains("mount the disk"), "\(ending)")
  }

  @Test func `commands that pass over a damaged canopy tail say so`() async throws {
    try await create()
    let tail = data + "/canopy.tail"
    func damage() throws {
      try Data("damaged".utf8).write(to: URL(fileURLWithPath: tail))
    }
    try damage()
    let backup = try await Command.run(["backup", "--data", data, folder.file("b.tar")])
    #expect(backup.status == 0 && backup.errors.contains("canopy.tail is damaged"), "\(backup)")
    let again = try await Command.run(["import", "--data", data, "/a"], input: "1")
    #expect(again.status == 0 && again.errors.contains("canopy.tail was damaged"), "\(again)")
    let sound = try await Command.run(["backup", "--data", data, folder.file("b.tar")])
    #expect(sound.status == 0 && !sound.errors.contains("canopy.tail"), "\(sound)")
  }

  @Test(arguments: ["2026-04-21T22:00:00Z+02:00", "2026-04-21T22:00:00Zjunk"])
  func `a time with other characters after its zone is refused`(time: String) async throws {
    try await create()
    try await Command.run(["backup", "--data", data, folder.file("b.tar")]).expect(status: 0)
    let ending = try await Command.run(
      ["restore", folder.file("b.tar"), "--data", folder.file("new"), "--up-to-time", time])
    #expect(ending.status == 64 && ending.errors.contains("write a time as"), "\(ending)")
  }
}
