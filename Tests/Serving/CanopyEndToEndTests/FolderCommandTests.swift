import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Commands for a data folder that no server uses.
@Suite(.timeLimit(.minutes(20)), .serialized) struct FolderCommandTests {
  private static let fixture = Checkout.root.appending(path: "Seeds/demo.json").path

  private static func type(of path: String) throws -> FileAttributeType? {
    try FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
  }

  private func export(_ folder: String, _ path: String = "/") async throws -> [UInt8] {
    let ending = try await Command.run(["export", "--data", folder, path])
    #expect(ending.status == 0, "\(ending)")
    return ending.output
  }

  @Test func `an export that is imported elsewhere is exported with the same bytes`()
    async throws
  {
    let folder = try TemporaryFolder()
    let (first, second) = (folder.path + "/first", folder.path + "/second")
    try await Command.run(["seed", "--data", first, Self.fixture])
    let file = folder.path + "/export.json"
    let exported = try await Command.run(["export", "--data", first, "/", file])
    #expect(exported.status == 0, "\(exported)")
    let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: file)))
    #expect(bytes.count > 50_000)
    let imported = try await Command.run(["import", "--data", second, "/", file])
    #expect(imported.status == 0, "\(imported)")
    #expect(try await export(second) == bytes)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 3)
    let verified = try await Command.run(["verify", "--data", second])
    #expect(verified.status == 0, "\(verified)")
  }

  @Test func `a folder is seeded whether its name ends with a slash or is a dot`() async throws {
    let folder = try TemporaryFolder()
    let files = FileManager.default
    func seed(_ name: String, in directory: String) async throws -> Command.Ending {
      try await Command.run(
        [
          "-c", "cd \"$1\" && \"$2\" seed --data \"$3\" \"$4\" && \"$2\" verify --data \"$3\"",
          "sh",
          directory, Command.path, name, Self.fixture,
        ], program: "/bin/sh")
    }
    try files.createDirectory(atPath: folder.path + "/here", withIntermediateDirectories: false)
    for (name, directory) in [("new/", ""), ("other//", ""), (".", "/here")] {
      let ending = try await seed(name, in: folder.path + directory)
      #expect(ending.status == 0 && ending.text.hasPrefix("ok: "), "\(name): \(ending)")
    }
    #expect(
      try files.contentsOfDirectory(atPath: folder.path).sorted() == ["here", "new", "other"])
    let again = try await seed("./", in: folder.path + "/here")
    #expect(again.isSentence && again.errors.contains("is not an empty folder"), "\(again)")
  }

  @Test func `the first server of a folder that a command has filled has lost no secrets`()
    async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.file("data")
    try await Command.run(["import", "--data", data], input: "{\"a\":1}").expect(status: 0)
    for isFirst in [true, false] {
      let server = try await ServerProcess(data: data)
      #expect(server.log.contains("a file of secrets is missing") == !isFirst, "\(server.log)")
      #expect(try await server.terminate() == 0)
      try FileManager.default.removeItem(atPath: data + "/identity-keys")
    }
  }

  @Test func `a password that is not UTF-8 is refused, and one in UTF-8 is kept`() async throws {
    let folder = try TemporaryFolder()
    func add(_ name: String, _ password: String) async throws -> Command.Ending {
      try await Command.run(
        [
          "-c", "printf '\(password)' | \"$1\" user add --data \"$2\" \(name)@example.org \(name)",
          "sh",
          Command.path, folder.path + "/data",
        ], program: "/bin/sh")
    }
    let wrong = try await add("eve", "caf\\351 of 1843\\n")
    #expect(wrong.isSentence && wrong.errors.contains("not UTF-8"), "\(wrong)")
    try await add("ada", "caf\\303\\251 of 1843\\r\\nmore").expect(status: 0)
    try await add("bob", "without an end 1843").expect(status: 0)
    let server = try await ServerProcess(data: folder.path + "/data")
    let client = try await server.connect()
    try await client.value("LOGIN ada@example.org \"café of 1843\"")
    try await client.value("LOGIN bob@example.org \"without an end 1843\"")
    #expect(try await server.terminate() == 0)
  }

  @Test(arguments: [0, 1])
  func `names and texts of new data have the bounds of the blog`(extra: Int) async throws {
    let folder = try TemporaryFolder()
    func text(_ max: Int) -> String { String(repeating: "a", count: max + extra) }
    let add = try await Command.run(
      ["user", "add", "--data", folder.path + "/added", "ada@example.org", text(32)],
      input: "engine of 1843\n")
    #expect(extra == 0 ? add.status == 0 : add.isSentence, "\(add)")
    for (number, texts) in [
      (text(32), "t", "c"), ("ada", text(200), "c"), ("ada", "t", text(10_000)),
    ].enumerated() {
      let time = "2026-01-31T12:00:00Z"
      let fixture = """
        {"people":[{"username":"\(texts.0)","email":"ada@example.org","password":"engine of 1843",
        "joined":"\(time)"}],"posts":[{"title":"\(texts.1)","body":"b","by":"\(texts.0)","at":"\(time)",
        "comments":[{"text":"\(texts.2)","by":"\(texts.0)","at":"\(time)"}],"stars":[]}]}
        """
      let file = folder.path + "/\(number).json"
      try Data(fixture.utf8).write(to: URL(fileURLWithPath: file))
      let seed = try await Command.run(["seed", "--data", folder.path + "/\(number)", file])
      #expect(extra == 0 ? seed.status == 0 : seed.isSentence, "\(number): \(seed)")
    }
  }

  @Test func `an export through a symbolic link replaces the target of the link`() async throws {
    let folder = try TemporaryFolder()
    let (data, files) = (folder.path + "/data", FileManager.default)
    try await Command.run(["import", "--data", data], input: "{\"a\":1}")
    let (file, link) = (folder.path + "/file", folder.path + "/link")
    try Data("before".utf8).write(to: URL(fileURLWithPath: file))
    try files.createSymbolicLink(atPath: link, withDestinationPath: "file")
    let ending = try await Command.run(["export", "--data", data, "/", link])
    #expect(ending.status == 0, "\(ending)")
    #expect(try files.destinationOfSymbolicLink(atPath: link) == "file")
    #expect(try String(contentsOfFile: file, encoding: .utf8) == "{\"a\":1}\n")
    try files.removeItem(atPath: file)
    let missing = try await Command.run(["export", "--data", data, "/", link])
    #expect(missing.isSentence && missing.errors.contains("missing file"), "\(missing)")
    #expect(try files.destinationOfSymbolicLink(atPath: link) == "file")
    let directory = try await Command.run(["export", "--data", data, "/", folder.path])
    #expect(directory.isSentence && directory.errors.contains("is a directory"), "\(directory)")
    #expect(try files.contentsOfDirectory(atPath: folder.path).sorted() == ["data", "link"])
  }

  @Test func `an export to a pipe is written into the pipe`() async throws {
    let folder = try TemporaryFolder()
    try await Command.run(["import", "--data", folder.path], input: "{\"a\":1}")
    let pipe = folder.path + "/pipe"
    try #require(mkfifo(pipe, 0o600) == 0)
    let reader = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    try #require(reader >= 0)
    defer { close(reader) }
    let ending = try await Command.run(["export", "--data", folder.path, "/", pipe])
    #expect(ending.status == 0, "\(ending)")
    var bytes = [UInt8](repeating: 0, count: 100)
    let count = read(reader, &bytes, bytes.count)
    #expect(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self) == "{\"a\":1}\n")
    #expect(try FolderCommandTests.type(of: pipe) != .typeRegular)
  }

  @Test func `an export to a device is written into it, and a full disk is reported`()
    async throws
  {
    let folder = try TemporaryFolder()
    try await Command.run(["import", "--data", folder.path], input: "{\"a\":1}")
    // The test creates its own device if the system allows it. Otherwise this device cannot be replaced anyway.
    let own = folder.path + "/full"
    let device = mknod(own, S_IFCHR | 0o600, dev_t(0x107)) == 0 ? own : "/dev/full"
    let ending = try await Command.run(["export", "--data", folder.path, "/", device])
    #expect(ending.isSentence, "\(ending)")
    #expect(
      ending.errors.contains("\(device) cannot be written: No space left on device; free space"))
    #expect(try FolderCommandTests.type(of: device) == .typeCharacterSpecial)
  }

  @Test func `values at the limits of JSON are the same after an export and an import`()
    async throws
  {
    let folder = try TemporaryFolder()
    let json = #"""
      {"a":{".value":1.5,".priority":"p"},"b":{".priority":3,"x":"\u0000\u001f\"\\/é\u2028"},\#
      "c":{"0":"zero","1":"one"},"d":9007199254740993,"e":-0.0,"f":1e300,"g":{"-1":true,"10":false},\#
      "h":"\ud83d\ude00","é":1,"é":2,"i":-9223372036854775808}
      """#
    try await Command.run(["import", "--data", folder.path], input: json)
    let first = try await export(folder.path)
    let other = try TemporaryFolder()
    let text = String(decoding: first, as: UTF8.self)
    let imported = try await Command.run(["import", "--data", other.path], input: text)
    #expect(imported.status == 0, "\(imported)")
    #expect(try await export(other.path) == first)
    #expect(text.contains("9007199254740993") && text.contains("-9223372036854775808"))
  }

  @Test func `verify says that a first start was interrupted, and the next start completes it`()
    async throws
  {
    let folder = try TemporaryFolder()
    let data = folder.path + "/data"
    let files = FileManager.default
    for names in [["lock"], ["lock", "canopy.sqlite"], ["canopy.sqlite"]] {
      try files.createDirectory(atPath: data, withIntermediateDirectories: false)
      for name in names { try Data().write(to: URL(fileURLWithPath: "\(data)/\(name)")) }
      for command in [["verify", "--data", data], ["export", "--data", data, "/"]] {
        let ending = try await Command.run(command)
        #expect(
          ending.isSentence && ending.errors.contains("its first start was interrupted"),
          "\(ending)")
        #expect(!ending.errors.contains("damage"), "\(ending.errors)")
        #expect(try files.contentsOfDirectory(atPath: data).sorted() == names.sorted())
      }
      let server = try await ServerProcess(data: data)
      #expect(try await server.terminate() == 0)
      let verified = try await Command.run(["verify", "--data", data])
      #expect(
        verified.status == 0 && verified.text.hasPrefix("ok: up to commit 0,"), "\(verified)")
      // The loss of the file in a folder that was used is damage.
      for name in try files.contentsOfDirectory(atPath: data) where name.hasPrefix("canopy.sqlite")
      {
        try files.removeItem(atPath: "\(data)/\(name)")
      }
      let lost = try await Command.run(["verify", "--data", data])
      #expect(lost.isSentence && lost.errors.contains("the folder has been used"), "\(lost)")
      try files.removeItem(atPath: data)
    }
  }

  @Test(arguments: ["admin-token", "identity-keys"])
  func `verify reports a secret file with which a server does not start`(
    name: String
  ) async throws {
    let folder = try TemporaryFolder()
    let file = folder.path + "/data/" + name
    func verify() async throws -> Command.Ending {
      try await Command.run(["verify", "--data", folder.path + "/data"])
    }
    try await Command.run(["import", "--data", folder.path + "/data"], input: "{\"a\":1}")
    try await verify().expect(status: 0)
    #expect(!FileManager.default.fileExists(atPath: file), "verify creates nothing")
    for content in ["", "{\"keys\":[{}]}\n"] {
      try Data(content.utf8).write(to: URL(fileURLWithPath: file))
      for mode: mode_t in [0o600, 0o644] {
        try #require(chmod(file, mode) == 0)
        let verified = try await verify()
        #expect(verified.status == 1 && verified.text.contains(file), "\(verified)")
        let served = try await Command.run(
          ["serve", "--data", folder.path + "/data", "--port", "0", "--http-port", "0"])
        #expect(served.status == 1, "\(served)")
        #expect(served.errors.hasSuffix("Error: " + verified.text), "\(served.errors)")
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == Data(content.utf8))
      }
    }
    try FileManager.default.removeItem(atPath: file)
    let server = try await ServerProcess(
      data: folder.path + "/data", environment: ["CANOPY_HTTP_PORT": "0"])
    #expect(try await server.terminate() == 0)
    #expect(FileManager.default.fileExists(atPath: file))
    try await verify().expect(status: 0)
  }

  @Test func `invalid JSON changes nothing, and the error names the byte`() async throws {
    let folder = try TemporaryFolder()
    try await Command.run(["import", "--data", folder.path], input: "{\"a\":{\"b\":1}}")
    let before = try await export(folder.path)
    let deep = String(repeating: "{\"a\":", count: 33) + "1" + String(repeating: "}", count: 33)
    for json in [
      "", "{", "{\"a\":}", "{\"a\":1}}", "{\"a.b\":1}", "[1,2", "nul", deep,
      "{\"a\":{\".sv\":\"timestamp\"}}",
    ] {
      let ending = try await Command.run(["import", "--data", folder.path], input: json)
      #expect(ending.isSentence, "\(json): \(ending)")
      #expect(try await export(folder.path) == before)
    }
    let ending = try await Command.run(["import", "--data", folder.path], input: "{\"a\":}")
    #expect(ending.errors.contains("(at byte 5)"))
    for arguments in [["/a.b"], ["/", "/nowhere/file.json"]] {
      let ending = try await Command.run(
        ["import", "--data", folder.path] + arguments, input: "1")
      #expect(ending.isSentence, "\(ending)")
    }
    #expect(try await export(folder.path) == before)
  }

  @Test func `an import below a path leaves all other data unchanged`() async throws {
    let folder = try TemporaryFolder()
    try await Command.run(
      ["import", "--data", folder.path], input: "{\"a\":{\"b\":1,\"c\":2},\"d\":3}")
    let ending = try await Command.run(
      ["import", "--data", folder.path, "/a/b"], input: "{\"x\":[true]}")
    #expect(ending.status == 0, "\(ending)")
    let whole = String(decoding: try await export(folder.path), as: UTF8.self)
    #expect(whole == "{\"a\":{\"b\":{\"x\":{\"0\":true}},\"c\":2},\"d\":3}\n")
    #expect(String(decoding: try await export(folder.path, "/a/c"), as: UTF8.self) == "2\n")
    try await Command.run(["import", "--data", folder.path, "/a"], input: "null")
    #expect(String(decoding: try await export(folder.path), as: UTF8.self) == "{\"d\":3}\n")
  }

  @Test func `accounts are added, listed, disabled and given passwords`() async throws {
    let folder = try TemporaryFolder()
    func user(_ arguments: [String], input: String = "") async throws -> Command.Ending {
      try await Command.run(["user"] + arguments + ["--data", folder.path], input: input)
    }
    let added = try await user(["add", "ada@example.org", "ada"], input: "engine of 1843\n")
    #expect(added.status == 0, "\(added)")
    let uid = added.text.trimmingCharacters(in: .whitespacesAndNewlines)
    #expect(uid.utf8.count == 20)
    try await user(["add", "eve@example.org", "eve"], input: "words of eve\n").expect(status: 0)
    for (arguments, input) in [
      (["add", "ADA@example.org", "other"], "engine of 1843\n"),
      (["add", "new@example.org", "ADA"], "engine of 1843\n"),
      (["add", "new@example.org", "new"], "short\n"), (["add", "new@example.org", "new"], ""),
      (["add", "new", "new"], "engine of 1843\n"),
      (["add", "new@example.org", "a b"], "engine 1843\n"),
      (["disable", "nobody@example.org"], ""), (["set-password", "nobody"], "engine of 1843\n"),
    ] {
      let ending = try await user(arguments, input: input)
      #expect(ending.isSentence, "\(arguments): \(ending)")
    }
    try await user(["disable", "Eve@example.org"]).expect(status: 0)
    try await user(["set-password", uid], input: "another engine\n").expect(status: 0)
    let list = try await user(["list"]).text
    let lines = list.split(separator: "\n").map(String.init)
    #expect(lines.count == 2)
    #expect(lines.first == "\(uid)\tada@example.org\tada\tactive")
    #expect(lines.last?.hasSuffix("\teve@example.org\teve\tdisabled") == true)

    let server = try await ServerProcess(data: folder.path)
    let client = try await server.connect()
    try await client.expect(
      "LOGIN ada@example.org \"engine of 1843\"", failsWith: "UNAUTHENTICATED")
    #expect(try await client.text("uid", "LOGIN ada@example.org \"another engine\"") == uid)
    try await client.expect(
      "LOGIN eve@example.org \"words of eve\"", failsWith: "PERMISSION_DENIED")
    try await client.value("POST title body")
    #expect(try await server.terminate() == 0)
    try await user(["enable", "eve@example.org"]).expect(status: 0)
    #expect(try await user(["list"]).text.contains("eve\tactive"))
    try await Command.run(["verify", "--data", folder.path]).expect(status: 0)
  }
}
