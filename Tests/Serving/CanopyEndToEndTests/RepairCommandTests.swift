import CanopyEngine
import CanopyRows
import CanopySQLite
import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// `canopy repair`.
@Suite(.timeLimit(.minutes(20)), .serialized) struct RepairCommandTests {
  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }
  private var new: String { folder.file("new") }

  init() throws {
    folder = try TemporaryFolder()
  }

  /// Writes three values with a server, and stops it.
  private func fill() async throws {
    let server = try await ServerProcess(data: data)
    let admin = try await server.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    for (key, value) in [("a", "first"), ("b", "needle"), ("c", "third")] {
      try await admin.value("SET /n/\(key) \"\(value)\"")
    }
    #expect(try await server.terminate() == 0)
  }

  /// Alters a text wherever the database has it. Returns whether it was there.
  private func damage() throws -> Bool {
    let path = URL(filePath: data + "/canopy.sqlite")
    var bytes = try Data(contentsOf: path)
    var found = false
    while let range = bytes.range(of: Data("needle".utf8)) {
      bytes.replaceSubrange(range, with: Data("noodle".utf8))
      found = true
    }
    try bytes.write(to: path)
    return found
  }

  private func contents() throws -> [String: Data] {
    var contents: [String: Data] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: data) where name != "lock" {
      contents[name] = try? Data(contentsOf: URL(filePath: data + "/" + name))
    }
    return contents
  }

  private func export(_ path: String) async throws -> String {
    try await Command.run(["export", "--data", new, path]).text
  }

  @Test func `a repair keeps the undamaged data in a new folder, and lists the rest with its time`()
    async throws
  {
    try await fill()
    #expect(try damage())
    try await Command.run(["verify", "--data", data]).expect(status: 1)
    let before = try contents()
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.text.contains("namespace default: lost: "), "\(ending.text)")
    let year = String(
      Calendar(identifier: .gregorian).component(.year, from: Date(timeIntervalSinceNow: 0)))
    #expect(
      ending.text.contains("the newest commit that is kept is of \(year)"), "\(ending.text)")
    #expect(try contents() == before, "the old folder is as it was")
    let verified = try await Command.run(["verify", "--data", new])
    #expect(verified.status == 0, "\(verified)")
    #expect(try await export("/n/a") == "\"first\"\n")
    #expect(try await export("/n/b") == "null\n")
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == ["data", "new"])
  }

  @Test(arguments: [false, true])
  func `an altered definition is written again, and servers start after that`(inPlace: Bool)
    async throws
  {
    try await fill()
    let path = URL(filePath: data + "/canopy.sqlite")
    var bytes = try Data(contentsOf: path)
    let range = try #require(bytes.range(of: Data("CREATE TRIGGER".utf8)))
    bytes[range.lowerBound] = UInt8(ascii: "c")
    try bytes.write(to: path)
    try await Command.run(["verify", "--data", data]).expect(status: 1)
    if inPlace {
      let server = try await ServerProcess(data: data, ["--accept-loss"])
      #expect(try await server.terminate() == 0)
    } else {
      let ending = try await Command.run(["repair", "--data", data, "--to", new])
      #expect(ending.status == 0 && !ending.text.contains("a problem remains"), "\(ending)")
      #expect(ending.text.contains("namespace default: all commits are kept"), "\(ending.text)")
    }
    let folder = inPlace ? data : new
    try await Command.run(["verify", "--data", folder]).expect(status: 0)
    let server = try await ServerProcess(data: folder)
    #expect(try await server.terminate() == 0)
    let tree = try await Command.run(["export", "--data", folder, "/n"]).text
    #expect(tree == #"{"a":"first","b":"needle","c":"third"}"# + "\n")
  }

  @Test func `a loss names the new folder, and not the temporary one`() async throws {
    try await fill()
    let server = try await ServerProcess(data: data)
    let admin = try await server.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    try await admin.value("SET /a 1")
    let tail = URL(filePath: data + "/canopy.tail")
    var bytes = try Data(contentsOf: tail)
    #expect(try await server.terminate() == 0)
    // As if the machine had been restarted before the log was copied, and a program had removed the log since.
    for offset in 48..<64 { bytes[offset] = 9 }
    let checksum = Array(bytes.prefix(64)).withUnsafeBytes { Checksum.xxh64($0, seed: 4) }
    withUnsafeBytes(of: checksum.littleEndian) { bytes.replaceSubrange(64..<72, with: $0) }
    try bytes.write(to: tail)
    try? FileManager.default.removeItem(atPath: data + "/canopy.sqlite-wal")
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.status == 0 && ending.text.contains("the write-ahead log \(new)/"), "\(ending)")
    #expect(!ending.text.contains("repairing-"), "\(ending)")
  }

  @Test func `a folder without damage is kept as a whole`() async throws {
    try await fill()
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.status == 0, "\(ending)")
    #expect(ending.text.contains("namespace default: all commits are kept"), "\(ending.text)")
    #expect(try await export("/n") == #"{"a":"first","b":"needle","c":"third"}"# + "\n")
  }

  @Test func `a repair claims that all is kept only if canopy.tail proves it`() async throws {
    try await fill()
    let tail = data + "/canopy.tail"
    try FileManager.default.removeItem(atPath: tail)
    let unproven = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(unproven.status == 0, "\(unproven)")
    #expect(unproven.text.contains("without an intact canopy.tail"), "\(unproven)")
    #expect(!unproven.text.contains("all commits are kept"), "\(unproven)")
    try FileManager.default.removeItem(atPath: new)

    try Data().write(to: URL(filePath: data + "/canopy.sqlite"))
    let empty = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(empty.isSentence && empty.errors.contains("the folder has been used"), "\(empty)")
    #expect(!FileManager.default.fileExists(atPath: new))
  }

  @Test func `a database that has lost its tables with its log is a loss of everything`()
    async throws
  {
    // The tables are in the log at first.
    let server = try await ServerProcess(data: data)
    try await server.destroy()
    for name in ["canopy.sqlite-wal", "canopy.tail"] {
      try FileManager.default.removeItem(atPath: "\(data)/\(name)")
    }
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.text.contains("lost: ") && ending.text.contains("has no tables"), "\(ending)")
    #expect(!ending.text.contains("all commits are kept"), "\(ending)")
    try await Command.run(["verify", "--data", new]).expect(status: 0)
    let next = try await ServerProcess(data: data, ["--accept-loss"])
    #expect(try await next.terminate() == 0)
    #expect(next.log.contains("the loss is accepted") && next.log.contains("has no tables"))
  }

  @Test func `a namespace whose database is empty has lost it`() async throws {
    try await fill()
    try await Command.run(["namespace", "create", "shop", "--data", data]).expect(status: 0)
    let shop = data + "/namespaces/shop"
    try FileManager.default.removeItem(atPath: shop + "/canopy.tail")
    try Data().write(to: URL(filePath: shop + "/canopy.sqlite"))
    let verified = try await Command.run(["verify", "--data", data])
    #expect(
      verified.status == 1 && verified.text.contains("the folder has been used"), "\(verified)")
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.text.contains("namespace shop: lost as a whole"), "\(ending)")
  }

  @Test func `a repair writes a canopy.tail of the right size in place of one that is too long`()
    async throws
  {
    try await fill()
    let tail = URL(filePath: data + "/canopy.tail")
    try (Data(contentsOf: tail) + [0]).write(to: tail)
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.status == 0 && !ending.text.contains("a problem remains"), "\(ending)")
    let verified = try await Command.run(["verify", "--data", new])
    #expect(verified.status == 0, "\(verified)")
    #expect(try Data(contentsOf: URL(filePath: new + "/canopy.tail")).count == 72)
  }

  @Test func `rules and secrets that cannot be read open nothing`() async throws {
    try await fill()
    try Data("{".utf8).write(to: URL(filePath: data + "/rules.json"))
    try Data("x".utf8).write(to: URL(filePath: data + "/identity-keys"))
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.status == 0, "\(ending)")
    for word in ["the rules, which cannot be read", "identity-keys, which cannot be read"] {
      #expect(ending.text.contains(word), "\(ending.text)")
    }
    let server = try await ServerProcess(data: new)
    let client = try await server.connect()
    try await client.expect("GET /posts", failsWith: "PERMISSION_DENIED")
    #expect(try await server.terminate() == 0)
  }

  @Test
  func `a damaged canopy.tail is a problem until the next start, and a missing secret is reported`()
    async throws
  {
    try await fill()
    let tail = URL(filePath: data + "/canopy.tail")
    var bytes = try Data(contentsOf: tail)
    bytes[20] ^= 1
    try bytes.write(to: tail)
    let verified = try await Command.run(["verify", "--data", data])
    #expect(verified.status == 1 && verified.text.contains("canopy.tail is damaged"), "\(verified)")
    try FileManager.default.removeItem(atPath: data + "/admin-token")
    for isFirst in [true, false] {
      let server = try await ServerProcess(data: data)
      #expect(try await server.terminate() == 0)
      #expect(server.log.contains("canopy.tail is damaged") == isFirst)
      #expect(server.log.contains("a file of secrets is missing and written again") == isFirst)
    }
    try await Command.run(["verify", "--data", data]).expect(status: 0)
  }

  @Test func `lost and altered rules open nothing`() async throws {
    try await fill()
    let server = try await ServerProcess(data: data)
    let admin = try await server.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    try await admin.value("RULES {\"rules\":{\".read\":false}}")
    #expect(try await server.terminate() == 0)
    let file = data + "/rules.json"
    let text = try String(contentsOfFile: file, encoding: .utf8)
    for (contents, word) in [
      (text.replacing("false", with: "true"), "which cannot be read"),
      (nil, "whose file is missing"),
    ] {
      try? FileManager.default.removeItem(atPath: file)
      try contents.map { try Data($0.utf8).write(to: URL(filePath: file)) }
      let ending = try await Command.run(["repair", "--data", data, "--to", new])
      #expect(ending.status == 0, "\(ending)")
      #expect(
        ending.text.contains("lost: the rules, \(word); the new ones allow nothing"),
        "\(ending.text)")
      try await Command.run(["verify", "--data", new]).expect(status: 0)
      let server = try await ServerProcess(data: new)
      try await server.connect().expect("GET /posts", failsWith: "PERMISSION_DENIED")
      #expect(try await server.terminate() == 0)
      try FileManager.default.removeItem(atPath: new)
    }
  }

  @Test func `a problem that remains in the new folder is reported, with the exit code 1`()
    async throws
  {
    try await fill()
    // A commit of a time that keys cannot contain, which a server with a wrong clock has made.
    let store = try SQLiteStore(folder: data)
    let last = try await store.load(keeping: IndexPlan()).sequence
    let assignment = Assignment(try Location("n/d"), 4)
    try store.append(
      [Commit(sequence: last + 1, time: 1 << 50, assignments: [assignment])], after: last)
    try store.close()
    let ending = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(ending.status == 1, "\(ending)")
    #expect(
      ending.text.contains("a problem remains: ") && ending.text.contains("up to the year 10889"),
      "\(ending)")
    #expect(try await export("/n/d") == "4\n")
  }

  @Test func `keys continue at the present time after a clock that was ahead`() async throws {
    try await fill()
    let store = try SQLiteStore(folder: data)
    let last = try await store.load(keeping: IndexPlan()).sequence
    // The year 2100.
    let time: Int64 = 4_102_444_800_000
    let assignment = Assignment(try Location("n/d"), 4)
    try store.append(
      [Commit(sequence: last + 1, time: time, assignments: [assignment])], after: last)
    try store.close()
    for isAhead in [false, true] {
      let ending = try await Command.run(
        ["repair", "--data", data, "--to", new] + (isAhead ? ["--clock-was-ahead"] : []))
      #expect(ending.status == 0 && ending.text.contains("all commits are kept"), "\(ending)")
      #expect(ending.text.contains("the latest one is of 2100-01-01") == isAhead, "\(ending)")
      try await Command.run(["verify", "--data", new]).expect(status: 0)
      let server = try await ServerProcess(data: new)
      let admin = try await server.connect()
      try await admin.value(try ServerProcess.authentication(data: new))
      let key = try #require(try await admin.value("PUSH /n/list 1")["key"]?.string)
      let keyTime = try #require(PushID.time(of: try Key(key)))
      #expect((keyTime >= time) == !isAhead)
      #expect(try await admin.value("GET /n/d").integer == 4)
      #expect(try await server.terminate() == 0)
      try FileManager.default.removeItem(atPath: new)
    }
  }

  @Test func `a folder in use and a new folder with files are refused`() async throws {
    let server = try await ServerProcess(data: data)
    let used = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(used.isSentence && used.errors.contains("in use"), "\(used)")
    #expect(!FileManager.default.fileExists(atPath: new))
    #expect(try await server.terminate() == 0)
    try FileManager.default.createDirectory(atPath: new, withIntermediateDirectories: true)
    try Data().write(to: URL(filePath: new + "/file"))
    let full = try await Command.run(["repair", "--data", data, "--to", new])
    #expect(full.isSentence && full.errors.contains("not an empty folder"), "\(full)")
  }
}
