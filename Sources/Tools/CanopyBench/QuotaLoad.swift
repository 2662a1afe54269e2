import ArgumentParser
import CanopyTree
import Foundation

/// Writes with one account as much as the quotas allow, and measures the data folder.
struct QuotaLoad: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "quota",
    abstract: "Write with one account as much as the quotas allow, and measure the data folder.",
    discussion: """
      The account writes posts until it may store no more, and then replaces their bodies, one after the other. After \
      each refusal it waits as long as the server says. The server has its default options, but limits this machine as \
      others. The exit code is 1 if the folder ever has more than --bytes-max bytes, if it still grows in the last third \
      of the time, or if canopy verify finds a problem.
      """)

  @Option(
    help:
      "The minutes of the load: more than the server keeps commits, so that the folder stops growing."
  ) var minutes = 150.0
  @Option(help: "The bytes of the body of a post.") var bodyBytes = 60_000
  @Option(help: "The most bytes that the folder may take on the disk.") var bytesMax =
    2_147_483_648
  @Option(help: "The part by which the folder may grow in the last third of the time, in percent.")
  var growthMax = 10.0
  @Option(help: "The seed of all random numbers.") var seed: UInt64 = 1
  @Argument(help: "Further options of the server.") var options: [String] = []

  func validate() throws {
    guard minutes > 0, minutes <= 10_000, (1...65_536).contains(bodyBytes) else {
      throw ValidationError("--minutes is above 0 and at most 10000, --body-bytes from 1 to 65536")
    }
  }

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let folder = try Children.makeFolder() + "/data"
    let server = try Server(
      folder: folder, arguments: ["--writes-on-this-machine", "limited"] + options)
    let account = try GreedyAccount(port: server.port, bodyBytes: bodyBytes, seed: seed)
    let start = monotonicNanoseconds()
    func elapsedMinutes() -> Double { Double(monotonicNanoseconds() - start) / 60e9 }
    var sizes: [(minute: Double, bytes: Int)] = []
    say("| Minute | Posts | Bodies written | MB sent | Refusals | Folder MB |")
    say("|---:|---:|---:|---:|---:|---:|")
    while elapsedMinutes() < minutes {
      let next = min(minutes, elapsedMinutes() + minutes / 60)
      try account.write { elapsedMinutes() < next }
      let bytes = try Self.allocatedBytes(of: folder)
      sizes.append((elapsedMinutes(), bytes))
      say(
        String(
          format: "| %.1f | %d | %d | %.1f | %d | %.1f |", elapsedMinutes(), account.posts,
          account.written, Double(account.sentBytes) / 1e6, account.refusals, Double(bytes) / 1e6))
    }
    try server.stop()
    let verdict = try Server.run(["verify", "--data", folder])
    print(verdict.output, terminator: "")
    guard verdict.status == 0 else { throw BenchFailure("verify found a problem") }
    try check(sizes)
  }

  private func check(_ sizes: [(minute: Double, bytes: Int)]) throws {
    let early = sizes.filter { $0.minute <= minutes * 2 / 3 }.map(\.bytes).max() ?? 0
    let all = sizes.map(\.bytes).max() ?? 0
    let growth = early == 0 ? .infinity : (Double(all) / Double(early) - 1) * 100
    print(
      String(
        format: "the folder had at most %.1f MB; the last third of the time added %.1f %%",
        Double(all) / 1e6, growth))
    guard all <= bytesMax, growth <= growthMax else {
      throw BenchFailure("the folder grows beyond its bound")
    }
  }

  /// Returns the bytes that the files of a folder take on the disk.
  private static func allocatedBytes(of folder: String) throws -> Int {
    let result = try Server.run(
      ["-s", "--block-size=1", folder], program: URL(fileURLWithPath: "/usr/bin/du"))
    guard let bytes = result.output.split(whereSeparator: \.isWhitespace).first.flatMap({ Int($0) })
    else { throw BenchFailure("du: \(result.output)") }
    return bytes
  }
}

/// An account that writes as much as the server takes from it.
private final class GreedyAccount {
  private let socket: LineSocket
  private let bodyBytes: Int
  private var random: SplitMix64
  private var ids: [String] = []
  private var isFull = false
  private(set) var written = 0
  private(set) var sentBytes = 0
  private(set) var refusals = 0

  var posts: Int { ids.count }

  init(port: Int, bodyBytes: Int, seed: UInt64) throws {
    socket = try LineSocket(port: port)
    self.bodyBytes = bodyBytes
    random = SplitMix64(seed: seed)
    _ = try socket.signUp("greedy")
  }

  /// Writes while a condition holds.
  func write(while goesOn: () -> Bool) throws {
    while goesOn() {
      let line = nextLine()
      guard let reply = socket.request(line) else { throw BenchFailure("the connection ended") }
      if reply.hasPrefix("+") {
        sentBytes += line.utf8.count
        written += 1
        if !isFull { ids.append(try Self.id(in: reply)) }
      } else if reply.hasPrefix("-QUOTA_EXCEEDED"), !isFull, !ids.isEmpty {
        isFull = true
        refusals += 1
      } else if let milliseconds = Self.wait(in: reply) {
        refusals += 1
        usleep(UInt32(clamping: min(milliseconds, 60_000) * 1_000))
      } else {
        throw BenchFailure("\(line.prefix(40)): \(reply)")
      }
    }
  }

  private func nextLine() -> String {
    let body = String(
      decoding: (0..<bodyBytes).map { _ in
        UInt8(ascii: "a") &+ UInt8(truncatingIfNeeded: random.next() % 26)
      }, as: UTF8.self)
    guard isFull else { return "POST title \(body)" }
    return "EDIT \(ids[written % ids.count]) title \(body)"
  }

  private static func id(in reply: String) throws -> String {
    let value = try JSONValue(json: String(reply.dropFirst()), limits: .none)
    guard let id = value["id"]?.string else { throw BenchFailure("POST gave no id: \(reply)") }
    return id
  }

  /// Returns the time to wait that a temporary error names, in milliseconds.
  private static func wait(in reply: String) -> Int? {
    guard reply.hasPrefix("-RATE_LIMITED ["), let end = reply.range(of: " ms]") else { return nil }
    return Int(reply[..<end.lowerBound].drop { !$0.isNumber })
  }
}
