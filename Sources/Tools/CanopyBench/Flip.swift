import ArgumentParser
import CanopyTree
import Foundation

struct Flip: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Flip bytes of a data folder, one in each trial, and look for data served wrong in silence.",
    discussion: """
      Half of the trials are on the write-ahead log of a folder whose server was killed, the other half on the \
      database file of that folder or of one whose server was stopped in good order. A server must refuse to start, \
      or serve what was there before.
      """)

  @Argument(help: "How many trials.") var trials = 2_000
  @Option(help: "How many posts the folder has.") var posts = 1_000
  @Option(help: "0 for a new one.") var seed: UInt64 = 0

  private struct Counts {
    var told = 0
    var harmless = 0
    var wrong = 0
  }

  func run() throws {
    let seed = self.seed == 0 ? UInt64.random(in: 1...UInt64.max) : self.seed
    print("seed \(seed)")
    var random = SplitMix64(seed: seed)
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-flip-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (killed, stopped) = (folder + "/killed", folder + "/stopped")
    let expected = try fill(killed, stopped, &random)
    var counts: [String: Counts] = [:]
    for trial in 1...max(1, trials) {
      let isLog = trial % 2 == 0
      let isKilled = isLog || random.next() % 2 == 0
      let name = isLog ? "canopy.sqlite-wal" : "canopy.sqlite"
      let copy = folder + "/trial"
      try? FileManager.default.removeItem(atPath: copy)
      try copyFiles(of: isKilled ? killed : stopped, to: copy)
      let place = try flip(copy + "/" + name, &random)
      let kind = "\(name), \(isKilled ? "killed" : "stopped")"
      switch try verdict(copy, expected) {
      case .told: counts[kind, default: Counts()].told += 1
      case .harmless: counts[kind, default: Counts()].harmless += 1
      case .wrong(let what):
        counts[kind, default: Counts()].wrong += 1
        print("trial \(trial), \(kind), \(place): \(what)")
      }
      if trial % 100 == 0 { print("\(trial) trials") }
    }
    for (kind, counts) in counts.sorted(by: { $0.key < $1.key }) {
      print(
        "\(kind): refused \(counts.told), served as before \(counts.harmless), wrong \(counts.wrong)"
      )
    }
    if counts.values.contains(where: { $0.wrong > 0 }) { throw ExitCode(1) }
  }

  /// Everything that a client can see.
  private struct Expected {
    var tree: String
    var tokens: [String]
  }

  /// Fills two folders with the same data: one whose server is killed, and one whose server is stopped.
  private func fill(
    _ killed: String, _ stopped: String, _ random: inout SplitMix64
  ) throws -> Expected {
    let arguments = ["--checkpoint-every", "\(max(10, posts / 2))", "--retained-commits", "100"]
    var server = try Server(folder: killed, arguments: arguments)
    var sockets = try (0..<8).map { _ in try LineSocket(port: server.port) }
    let users = try sockets.enumerated().map { try $1.signUp("flip\($0)") }
    for number in 0..<posts {
      if number == posts * 3 / 4 {
        // The last quarter is in the log alone, and most of the other pages are in the database file alone.
        try server.stop()
        server = try Server(folder: killed, arguments: arguments)
        sockets = try users.map { user in
          let socket = try LineSocket(port: server.port)
          _ = try socket.success("AUTH \(user.token)")
          return socket
        }
      }
      let socket = sockets[number % sockets.count]
      let words = (0..<Int(random.next() % 60)).map { _ in "\(random.next() % 10_000)" }
      let reply = try socket.success(
        "POST \"Post \(number)\" \"\(words.joined(separator: " ")).\"")
      guard let id = reply["id"]?.string else { throw BenchFailure("POST gave no id") }
      for _ in 0..<random.next() % 4 {
        let other = sockets[Int(random.next() % UInt64(sockets.count))]
        _ = other.request("STAR \(id)")
        _ = try other.success("COMMENT \(id) \"\(random.next())\"")
      }
    }
    let expected = Expected(tree: try tree(server, killed), tokens: users.map(\.token))
    server.kill()
    try copyFiles(of: killed, to: stopped)
    server = try Server(folder: stopped, arguments: arguments)
    guard try tree(server, stopped) == expected.tree else {
      throw BenchFailure("a server that was killed does not serve what it did before")
    }
    try server.stop()
    return expected
  }

  /// Copies the regular files of a folder. A server that was killed leaves its socket as well, which cannot be copied.
  private func copyFiles(of folder: String, to copy: String) throws {
    let files = FileManager.default
    try files.createDirectory(atPath: copy, withIntermediateDirectories: false)
    for name in try files.contentsOfDirectory(atPath: folder) {
      let path = folder + "/" + name
      guard try files.attributesOfItem(atPath: path)[.type] as? FileAttributeType == .typeRegular
      else { continue }
      try files.copyItem(atPath: path, toPath: copy + "/" + name)
    }
  }

  private func tree(_ server: Server, _ folder: String) throws -> String {
    let socket = try LineSocket(port: server.port)
    let token = try String(contentsOfFile: folder + "/admin-token", encoding: .utf8)
    _ = try socket.success("AUTH \(token.trimmingCharacters(in: .whitespacesAndNewlines))")
    guard let reply = socket.request("GET /"), reply.hasPrefix("+") else {
      throw BenchFailure("GET / failed")
    }
    return reply
  }

  private func flip(_ path: String, _ random: inout SplitMix64) throws -> String {
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
    defer { try? file.close() }
    let offset = random.next() % (try file.seekToEnd())
    try file.seek(toOffset: offset)
    guard let byte = try file.read(upToCount: 1)?.first else { throw BenchFailure("no byte") }
    let mask = UInt8(truncatingIfNeeded: random.next() % 255 + 1)
    try file.seek(toOffset: offset)
    try file.write(contentsOf: [byte ^ mask])
    return "byte \(offset) of \(byte) to \(byte ^ mask)"
  }

  private enum Verdict {
    case told
    case harmless
    case wrong(String)
  }

  /// Starts a server on a folder and asks it for everything.
  private func verdict(_ folder: String, _ expected: Expected) throws -> Verdict {
    let trial = try Server.start(folder: folder)
    guard let server = trial.server else {
      return trial.errors.hasPrefix("Error: ") && trial.status == 1
        ? .told : .wrong("it ended with \(trial.status): \(trial.errors.suffix(300))")
    }
    defer { server.kill() }
    guard try tree(server, folder) == expected.tree else { return .wrong("another tree") }
    let socket = try LineSocket(port: server.port)
    for token in expected.tokens where socket.request("AUTH \(token)")?.hasPrefix("+") != true {
      // An error that names the damage is no silence.
      return .wrong("a session is gone")
    }
    return .harmless
  }
}
