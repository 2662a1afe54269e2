import ArgumentParser
import CanopyTree
import Foundation

struct Flip: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Change one byte of a data folder in each trial, and look for wrong data that is served.",
    discussion: """
      Half of the trials change the write-ahead log of a folder whose server was killed. The others change the \
      database file of that folder, or of one whose server was shut down. A server must refuse to start, or serve \
      the data from before the change.
      """)

  @Argument(help: "The number of trials.") var trials = 2_000
  @Option(help: "The number of posts in the folder.") var posts = 1_000
  @Option(help: "The seed of all random numbers; 0 draws one.") var seed: UInt64 = 0

  private struct Counts {
    var refused = 0
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
      case .refused: counts[kind, default: Counts()].refused += 1
      case .harmless: counts[kind, default: Counts()].harmless += 1
      case .wrong(let what):
        counts[kind, default: Counts()].wrong += 1
        print("trial \(trial), \(kind), \(place): \(what)")
      }
      if trial % 100 == 0 { print("\(trial) trials") }
    }
    for (kind, counts) in counts.sorted(by: { $0.key < $1.key }) {
      print(
        "\(kind): refused \(counts.refused), served as before \(counts.harmless), wrong \(counts.wrong)"
      )
    }
    if counts.values.contains(where: { $0.wrong > 0 }) { throw ExitCode(1) }
  }

  /// All data that a client can see.
  private struct Expected {
    var tree: String
    var tokens: [String]
  }

  /// Fills two folders with the same data. The server of one is killed, and that of the other is shut down.
  private func fill(
    _ killed: String, _ stopped: String, _ random: inout SplitMix64
  ) throws -> Expected {
    let arguments = ["--checkpoint-every", "\(max(10, posts / 2))", "--retained-commits", "100"]
    var server = try Server(folder: killed, arguments: arguments)
    var sockets = try (0..<8).map { _ in try LineSocket(port: server.port) }
    let users = try sockets.enumerated().map { try $1.signUp("flip\($0)") }
    for number in 0..<posts {
      if number == posts * 3 / 4 {
        // The last quarter is only in the log, and most other pages are only in the database file.
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
      throw BenchFailure("a killed server serves other data after its restart")
    }
    try server.stop()
    return expected
  }

  /// Copies the regular files of a folder. A killed server leaves its socket, which cannot be copied.
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
    case refused
    case harmless
    case wrong(String)
  }

  /// Starts a server on a folder, and reads all data.
  private func verdict(_ folder: String, _ expected: Expected) throws -> Verdict {
    let trial = try Server.start(folder: folder)
    guard let server = trial.server else {
      return trial.errors.hasPrefix("Error: ") && trial.status == 1
        ? .refused : .wrong("it ended with \(trial.status): \(trial.errors.suffix(300))")
    }
    defer { server.kill() }
    guard try tree(server, folder) == expected.tree else { return .wrong("another tree") }
    let socket = try LineSocket(port: server.port)
    for token in expected.tokens where socket.request("AUTH \(token)")?.hasPrefix("+") != true {
      // An error that names the damage is a correct result.
      return .wrong("a session is gone")
    }
    return .harmless
  }
}
