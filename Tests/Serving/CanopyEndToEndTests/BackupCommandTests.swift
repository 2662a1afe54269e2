import CanopyBackup
import CanopySQLite
import CanopyTesting
import CanopyTree
import Foundation
import Synchronization
import Testing

/// `canopy backup`, `restore` and `verify`, and the backups of a running server.
@Suite(.timeLimit(.minutes(20)), .serialized) struct BackupCommandTests {
  private static let fixture = Checkout.root.appending(path: "Seeds/demo.json").path

  private let folder: TemporaryFolder
  private var data: String { folder.file("data") }
  private var file: String { folder.file("backup.tar") }
  private var new: String { folder.file("new") }

  init() throws {
    folder = try TemporaryFolder()
  }

  private func export(_ folder: String, _ path: String = "/") async throws -> String {
    let ending = try await Command.run(["export", "--data", folder, path])
    #expect(ending.status == 0, "\(ending)")
    return ending.text
  }

  private func run(_ arguments: String..., mentions words: String...) async throws {
    let ending = try await Command.run(arguments)
    #expect(ending.status == 0, "\(arguments): \(ending)")
    for word in words { #expect(ending.text.contains(word), "\(arguments): \(ending.text)") }
  }

  private func expectRefusal(_ arguments: String..., mentions word: String) async throws {
    let ending = try await Command.run(arguments)
    #expect(ending.isSentence && ending.errors.contains(word), "\(arguments): \(ending)")
  }

  /// Writes numbers one after the other until the flag is set, and returns the last one.
  private static func write(_ client: LineSocketClient, until isDone: Flag) async throws -> Int {
    var number = 0
    repeat {
      number += 1
      try await client.value("SET /n/k\(number) \(number)")
    } while !isDone.isSet
    return number
  }

  @Test func `a backup of a server under load has every commit up to one, and no later one`()
    async throws
  {
    let server = try await ServerProcess(data: data)
    let admin = try await server.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    try await admin.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    let token = try await admin.text("token", "LOGIN ada@example.org \"engine of 1843\"")
    try await admin.value(try ServerProcess.authentication(data: data))
    try await admin.value(
      #"RULES "{\"rules\":{\"n\":{\".read\":true},\"gone\":{\".read\":true}}}""#)
    try await run("namespace", "create", "shop", "--data", data)
    let shop = try await server.connect()
    try await shop.value(try ServerProcess.authentication(data: data))
    try await shop.value("USE shop")
    try await shop.value("SET /item \"hat\"")
    try await admin.value("ONDISCONNECT SET /gone true")
    // The backup may begin before the writes below, and has at least this one then.
    try await admin.value("SET /n/k1 1")
    let isDone = Flag()
    let (ending, last) = try await withThrowingTaskGroup(of: Int.self) { tasks in
      tasks.addTask { try await Self.write(admin, until: isDone) }
      let ending = try await Command.run(["backup", "--data", data, file])
      isDone.set()
      return (ending, try await tasks.next() ?? 0)
    }
    #expect(ending.status == 0, "\(ending)")
    let status = try #require(try await shop.value("BACKUPS")["backups"]?.elements)
    #expect(status.isEmpty, "the command has moved the backup to its file")
    #expect(try FileManager.default.contentsOfDirectory(atPath: data + "/backups").isEmpty)
    let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
    #expect(mode as? Int == 0o600)
    #expect(try await server.terminate() == 0)

    try await run("verify", file, mentions: "ok: ", "namespace shop: ok: up to commit ")
    try await run(
      "restore", file, "--data", new, mentions: "namespace shop: restored up to commit ")
    let tree = try JSONValue(json: try await export(new, "/n"), limits: .none)
    let count = try #require(tree.names).count
    #expect(1...last ~= count, "\(count) of \(last)")
    // The numbers begin with 1 and have no gap, so the last one is their count.
    #expect(try await export(new, "/n/k\(count)") == "\(count)\n")
    #expect(try await export(new, "/n/k\(count + 1)") == "null\n")
    let next = try await ServerProcess(data: new)
    let client = try await next.connect()
    // The on-disconnect write is made.
    try await client.expect("GET /gone", "+true")
    // The rules are kept.
    try await client.expect("GET /users", failsWith: "PERMISSION_DENIED")
    try await client.value("AUTH \(token)")
    try await client.value("LOGIN ada@example.org \"engine of 1843\"")
    try await client.value(try ServerProcess.authentication(data: new))
    let sequence = try #require(try await client.value("SET /x 1")["seq"]?.integer)
    #expect(sequence > 1_000_000_000_000)
    #expect(try await next.terminate() == 0)
  }

  @Test
  func
    `a backup is restored although a raw write of the administrator left a wrong number of comments`()
    async throws
  {
    try await run("seed", "--data", data, Self.fixture)
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    let posts = try #require(try await client.value("GET /post-comments").names)
    let post = try #require(posts.first)
    try await client.value("REMOVE /post-comments/\(post)")
    #expect(try await server.terminate() == 0)
    try await run("backup", "--data", data, file)
    let verified = try await Command.run(["verify", file])
    #expect(verified.status == 1 && verified.text.contains("commentCount"), "\(verified)")
    let restored = try await Command.run(["restore", file, "--data", new])
    #expect(restored.status == 0, "\(restored)")
    #expect(restored.errors.contains("a problem of the backup remains: "), "\(restored.errors)")
    #expect(try await export(new) == export(data))
  }

  @Test func `a backup is restored although users have written under rules that allow it`()
    async throws
  {
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    try await client.value(try ServerProcess.authentication(data: data))
    try await client.value(
      #"RULES "{\"rules\":{\"users\":{\".read\":true,\".write\":true}}}""#)
    try await client.value("LOGIN ada@example.org \"engine of 1843\"")
    try await client.value(#"SET /users/eve {"name":"Eve","city":"X"}"#)
    #expect(try await server.terminate() == 0)
    try await run("backup", "--data", data, file)
    // Rules of the operator may allow it, so it is reported and is no failure.
    try await run("verify", file, mentions: "/users")
    try await run("restore", file, "--data", new)
    #expect(try await export(new) == export(data))
  }

  @Test(arguments: ["identity-keys", "admin-token", "rules.json"])
  func `a backup with a damaged secret or damaged rules fails, and the scrub reports it`(
    name: String
  ) async throws {
    let server = try await ServerProcess(data: data, ["--scrub-every", "1"])
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    try await client.value(#"RULES "{\"rules\":{}}""#)
    let path = URL(filePath: data + "/" + name)
    let whole = try Data(contentsOf: path)
    // A file of rules that a person wrote has no checksum.
    var damaged = name == "rules.json" ? Data("{}".utf8) : whole
    damaged[damaged.count / 2] = 1
    try damaged.write(to: path)
    try await client.expect("BACKUP", failsWith: "UNAVAILABLE", data + "/" + name)
    let failed = try await client.value("BACKUPS")
    #expect(failed["failures"]?.integer == 1 && failed["backups"]?.elements?.isEmpty == true)
    try await eventually {
      server.log.split(separator: "\n").contains {
        $0.contains("the scrub has found damage") && $0.contains(name)
      }
    }
    try whole.write(to: path)
    #expect(try await client.value("BACKUP")["seq"]?.integer == 0)
    #expect(try await client.value("BACKUPS")["failures"]?.integer == 1)
    #expect(try await server.terminate() == 0)
    try damaged.write(to: path)
    try await expectRefusal("backup", "--data", data, file, mentions: data + "/" + name)
    #expect(try folder.files() == ["data"])
  }

  @Test(arguments: ["identity-keys", "admin-token"])
  func `a backup with a damaged secret is restored without it, and verify reports it`(
    name: String
  ) async throws {
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    try await client.value("SET /a 1")
    #expect(try await server.terminate() == 0)
    try Data("damaged".utf8).write(to: URL(filePath: data + "/" + name))
    // An earlier version made such backups.
    let maker = BackupMaker(
      folder: data, isServed: false, namespaces: { [] }, program: "canopy test",
      now: { 1_800_000_000_000 }, pace: .unlimited)
    _ = try maker.make(in: folder.file(".work")) { _ in file }

    let verified = try await Command.run(["verify", file])
    #expect(verified.status == 1 && verified.text.contains(name), "\(verified)")
    try await run(
      "restore", file, "--data", new,
      mentions: "lost: \(name), which cannot be read; the next start makes a new one",
      "namespace default: restored up to commit 1")
    let secrets: Set = ["identity-keys", "admin-token"]
    let files = Set(try FileManager.default.contentsOfDirectory(atPath: new))
    #expect(files.intersection(secrets) == secrets.subtracting([name]))
    try await run("verify", "--data", new, mentions: "ok: ")
    let next = try await ServerProcess(data: new)
    #expect(next.log.contains("a file of secrets is missing and written again"), "\(next.log)")
    let admin = try await next.connect()
    try await admin.value(try ServerProcess.authentication(data: new))
    try await admin.expect("GET /a", "+1")
    #expect(try await next.terminate() == 0)
    try await run("verify", "--data", new, mentions: "ok: ")
  }

  @Test func `a backup with a login of the future is sound, and a restore corrects it`()
    async throws
  {
    let store = try SQLiteStore(folder: data)
    try await store.insertDeleted([], latestLogin: 10_000_000_000)
    try store.close()
    let found = try await Command.run(["verify", "--data", data])
    #expect(found.status == 1 && found.text.contains("in the future"), "\(found)")
    try await run("backup", "--data", data, file)
    try await run("verify", file, mentions: "note: the latest login of a deleted account", "ok: ")
    try await run("restore", file, "--data", new, mentions: "corrected: the latest login")
    try await run("verify", "--data", new, mentions: "ok: ")
  }

  @Test func `BACKUP and BACKUPS describe the backups in the data folder`() async throws {
    let server = try await ServerProcess(data: data, ["--backups-kept", "2"])
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    try await client.value("SET /a 1")
    let empty = try await client.value("BACKUPS")
    #expect(empty["running"]?.isNull == true && empty["kept"]?.integer == 2)
    let made = try await client.value("BACKUP")
    let name = try #require(made["file"]?.string)
    #expect(name.hasPrefix("requested-") && name.hasSuffix("-1.tar"))
    #expect(made["seq"]?.integer == 1)
    let list = try await client.value("BACKUPS")
    #expect(list["backups"]?.elements?.map { $0["file"]?.string } == [name])
    #expect(list["failures"]?.integer == 0 && list["failure"]?.isNull == true)
    let metrics = try await client.request("METRICS")
    for text in ["canopy_backups_total", "canopy_backup_last_bytes"] {
      #expect(metrics.contains(text))
    }
    #expect(server.log.contains("a backup is complete"))
    try await run("verify", data + "/backups/" + name, mentions: "ok: up to commit 1,")
    #expect(try await server.terminate() == 0)
  }

  @Test func `BACKUPS and METRICS show how far a backup is`() async throws {
    let server = try await ServerProcess(data: data)
    let (client, other) = (try await server.connect(), try await server.connect())
    for client in [client, other] {
      try await client.value(try ServerProcess.authentication(data: data))
    }
    // A piece of the copy has 1 MiB, and a pause follows each.
    let text = String(repeating: "x", count: 1_000_000)
    for number in 1...24 { try await client.value("SET /a/\(number) \"\(text)\"") }
    let zero =
      #""canopy_backup_progress":{"type":"gauge","series":[{"labels":{},"value":0}]}"#
    #expect(try await client.request("METRICS").contains(zero))
    let isMade = Mutex(false)
    async let made = {
      defer { isMade.withLock { $0 = true } }
      return try await other.value("BACKUP")
    }()
    var shares: [Double] = []
    var hasMetric = false
    while !isMade.withLock({ $0 }) {
      if case .object? = try await client.value("BACKUPS")["running"] {
        let running = try await client.value("BACKUPS")["running"]
        guard let bytes = running?["bytes"]?.integer, let all = running?["of"]?.integer else {
          continue
        }
        #expect(running?["namespace"]?.string == "default")
        shares.append(Double(bytes) / Double(max(1, all)))
        hasMetric = try await !client.request("METRICS").contains(zero) || hasMetric
      }
    }
    #expect(try await made["bytes"]?.integer ?? 0 > 24_000_000)
    #expect(hasMetric && shares.count > 3)
    #expect(shares == shares.sorted() && shares.allSatisfy { (0...1).contains($0) }, "\(shares)")
    #expect(try await client.value("BACKUPS")["running"]?.isNull == true)
    #expect(try await client.request("METRICS").contains(zero))
    #expect(try await server.terminate() == 0)
  }

  @Test func `a server whose disk is almost full refuses a backup, and says why`() async throws {
    let server = try await ServerProcess(data: data, ["--free-bytes-min", "\(Int64.max / 4)"])
    try await expectRefusal("backup", "--data", data, file, mentions: "bytes must stay free")
    #expect(server.log.contains("the backup failed"))
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    let metrics = try await client.request("METRICS")
    #expect(metrics.contains("canopy_backup_space_failures_total"))
    #expect(try await server.terminate() == 0)
    #expect(try folder.files() == ["data"])
  }

  @Test func `the schedule makes the first backup at once`() async throws {
    let server = try await ServerProcess(data: data, ["--backup-every", "1000000"])
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    try await eventually {
      try await client.value("BACKUPS")["backups"]?.elements?.count == 1
    }
    #expect(try await server.terminate() == 0)
    let names = try FileManager.default.contentsOfDirectory(atPath: data + "/backups")
    #expect(names.count == 1 && names[0].hasPrefix("scheduled-"))
    try await run("verify", "--data", data, mentions: "ok: ")
  }

  @Test func `an altered or cut backup is refused, and leaves no folder`() async throws {
    try await Command.run(["seed", "--data", data, Self.fixture])
    try await run("backup", "--data", data, file)
    let bytes = try Data(contentsOf: URL(filePath: file))
    for place in [0, 600, bytes.count / 2, bytes.count - 1_600, bytes.count - 1] {
      var altered = bytes
      altered[place] ^= 4
      try altered.write(to: URL(filePath: file))
      let verified = try await Command.run(["verify", file])
      #expect(verified.status == 1 && verified.text.contains("is damaged"), "\(verified)")
      try await expectRefusal("restore", file, "--data", new, mentions: "is damaged")
    }
    try bytes.dropLast().write(to: URL(filePath: file))
    try await expectRefusal("restore", file, "--data", new, mentions: "its end is missing")
    #expect(try folder.files() == ["backup.tar", "data"])
  }

  @Test func `a restore reaches an earlier number and an earlier time, and no folder in use`()
    async throws
  {
    let server = try await ServerProcess(data: data)
    let client = try await server.connect()
    try await client.value("SIGNUP ada@example.org \"engine of 1843\" ada")
    try await client.value("POST first text")
    let admin = try await server.connect()
    try await admin.value(try ServerProcess.authentication(data: data))
    let good = try #require(try await admin.value("SET /kept 1")["seq"]?.integer)
    try await client.value("SIGNUP eve@example.org \"engine of 1843\" eve")
    let time = try #require(try await admin.value("METRICS")["time"]?.integer)
    try await admin.value("SET /posts null")
    #expect(try await server.terminate() == 0)
    try await run("backup", "--data", data, file)

    try await run(
      "restore", file, "--data", new, "--up-to-sequence", "\(good)",
      mentions: "restored up to commit \(good)")
    #expect(try await export(new, "/kept") == "1\n")
    #expect(try await export(new, "/usernames").contains("eve") == false)
    let users = try await Command.run(["user", "list", "--data", new])
    #expect(users.text.contains("ada@example.org") && !users.text.contains("eve@example.org"))
    try await run("verify", "--data", new, mentions: "1 posts")
    try await expectRefusal("restore", file, "--data", new, mentions: "is not an empty folder")

    let other = folder.file("other")
    try await run("restore", file, "--data", other, "--up-to-time", "\(time)")
    #expect(try await export(other, "/usernames").contains("eve"))
    #expect(try await export(other, "/posts") != "null\n")
    for point in [
      ["--up-to-sequence", "1000"], ["--up-to-time", "2999-01-01T00:00:00Z"],
      ["--up-to-sequence", "-1"],
    ] {
      let ending = try await Command.run(["restore", file, "--data", folder.file("no")] + point)
      #expect(ending.isSentence, "\(point): \(ending)")
    }
    for wrong in [["--up-to-time", "yesterday"], ["--older", file], ["--namespace", "shop"]] {
      let ending = try await Command.run(["restore", file, "--data", folder.file("no")] + wrong)
      #expect(ending.status == 64, "\(wrong): \(ending)")
    }
    #expect(!FileManager.default.fileExists(atPath: folder.file("no")))
  }

  @Test(.disabled(if: Sanitizer.isForThreads, "it does not start with this bound on files"))
  func `a backup that finds no room leaves no file`() async throws {
    try await Command.run(["seed", "--data", data, Self.fixture])
    for blocks in ["100", "600"] {
      // The limit of a file's size stands for a full disk.
      let ending = try await Command.run(
        [
          "-c", "trap '' XFSZ; ulimit -f \(blocks); \"$0\" backup --data \"$1\" \"$2\"",
          Command.path, data, file,
        ], program: "/bin/sh")
      #expect(ending.isSentence, "\(blocks): \(ending)")
      #expect(try folder.files() == ["data"])
    }
    try await run("backup", "--data", data, file)
    try await expectRefusal("backup", "--data", data, folder.path, mentions: "not a regular file")
  }
}

/// A flag that one task sets for another.
private final class Flag: Sendable {
  private let value = Mutex(false)

  var isSet: Bool { value.withLock { $0 } }

  func set() { value.withLock { $0 = true } }
}

extension JSONValue {
  fileprivate var isNull: Bool { self == .null }
}
