import ArgumentParser
import CanopyTree
import Foundation
import Synchronization

/// Makes a backup of a server under load, and compares it with the data of its moment.
struct BackupLoad: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Make a backup while the server is used, and measure its duration and effect.",
    discussion: """
      The command finds the peak of a mixed load. Then it sends a part of that rate, whatever the replies take: first \
      alone, then during a backup. At the end it restores the backup. A later backup that is restored to the same commit \
      must have the same tree. The exit code is 1 if they differ, or if a reply was wrong.
      """)

  @Option(help: "The number of posts at the start.") var posts = 1_000_000
  @Option(help: "The number of authors of these posts.") var users = 1_000
  @Option(help: "The number of connections, each with its own user.") var connections = 50
  @Option(help: "The requests in flight on each connection at the peak.") var depth = 1
  @Option(help: "The part of the peak at which the server is used, in percent.") var percent = 70.0
  @Option(help: "The seconds of the peak, and those of the load without a backup.") var seconds =
    20.0
  @Option(help: "The seed of all random numbers.") var seed: UInt64 = 1

  func run() throws {
    let signals = Children.endAllOnSignals()
    defer {
      Children.endAll()
      withExtendedLifetime(signals) {}
    }
    let folder = try Children.makeFolder()
    let accounts = try CanopyFolders(in: folder, users: connections)
    let data = DataSet(posts: posts, users: users, uids: accounts.uids)
    say("loading \(posts) posts")
    try accounts.make(folder + "/data", holding: data)
    // All commits are kept, so that the later backup can go back to the moment of the first one.
    let peer = try CanopyPeer(
      data, folder: folder + "/data", tokens: accounts.tokens,
      arguments: ["--retained-commits", "100000000", "--retained-bytes", "100000000000"])
    try peer.connect(connections)
    let client = try peer.connectedClient()
    var samples: [Sample] = []

    let peak = try peer.run(
      Round(
        mix: .blog, depth: depth, warmUpSeconds: 2, seconds: seconds, posts: posts, seed: seed))
    samples.append(peak)
    say("peak: \(Int(peak.perSecond)) requests in a second, \(connections) connections × \(depth)")
    let rate = peak.perSecond * percent / 100
    func load(_ title: String, _ number: UInt64, while goesOn: () -> Bool) throws {
      let sample = try client.run(
        at: FixedRate(requestsPerSecond: rate, seconds: 3_600, seed: seed &+ number),
        next: { Mix.blog.next(posts: posts, &$0) }, usage: peer.usage.cpuSeconds, while: goesOn)
      samples.append(sample)
      let times = [50.0, 99, 99.9, 100].map {
        String(format: "%.2f", sample.milliseconds(atPercentile: $0))
      }
      say(
        "\(title): \(Int(sample.perSecond)) in a second for \(String(format: "%.1f", sample.seconds)) s, p50 "
          + "\(times[0])  p99 \(times[1])  p99.9 \(times[2])  worst \(times[3]) ms")
    }
    let end = monotonicNanoseconds() + Int64(seconds * 1e9)
    try load("without a backup", 1) { monotonicNanoseconds() < end }
    let backup = try Backup(peer)
    try load("during a backup", 2) { backup.result == nil }
    guard let made = try backup.result?.get() else { throw BenchFailure("the backup did not end") }
    let duration = String(format: "%.1f", made.seconds)
    say("backup: \(duration) s, \(made.bytes / 1_000_000) MB, up to commit \(made.sequence)")
    try peer.stop()

    let file = folder + "/data/backups/\(made.file)"
    let first = try restore(file, to: folder + "/first")
    try canopy("backup", "--data", folder + "/data", folder + "/later.tar")
    let later = try restore(
      folder + "/later.tar", to: folder + "/later", "--up-to-sequence", "\(made.sequence)")
    try canopy("verify", "--data", folder + "/first")
    say("the restored backup: sha256 \(first)")
    say("a later backup, restored to commit \(made.sequence): sha256 \(later)")
    for sample in samples where sample.wrong > 0 {
      throw BenchFailure("\(sample.wrong) wrong replies: \(sample.firstWrong ?? "")")
    }
    guard first == later else { throw BenchFailure("the trees differ") }
  }

  /// Restores a backup, and returns the checksum of its tree as JSON.
  private func restore(_ file: String, to folder: String, _ options: String...) throws -> String {
    let start = monotonicNanoseconds()
    try run(["restore", file, "--data", folder] + options)
    say("restored in \(String(format: "%.1f", Double(monotonicNanoseconds() - start) / 1e9)) s")
    let export = folder + ".json"
    try canopy("export", "--data", folder, "/", export)
    let sum = try Server.run([export], program: URL(fileURLWithPath: "/usr/bin/sha256sum"))
    try FileManager.default.removeItem(atPath: export)
    guard sum.status == 0, let hash = sum.output.split(separator: " ").first else {
      throw BenchFailure("sha256sum: \(sum.output)")
    }
    return String(hash)
  }

  private func canopy(_ arguments: String...) throws { try run(arguments) }

  private func run(_ arguments: [String]) throws {
    let outcome = try Server.run(arguments)
    guard outcome.status == 0 else {
      throw BenchFailure("canopy \(arguments[0]): \(outcome.output)")
    }
  }
}

/// A backup that a thread of its own requests.
private final class Backup: Sendable {
  struct Made {
    var file: String
    var bytes: Int64
    var sequence: Int64
    var seconds: Double
  }

  private let state = Mutex<Result<Made, BenchFailure>?>(nil)

  /// The backup; nil while it is being made.
  var result: Result<Made, BenchFailure>? { state.withLock { $0 } }

  init(_ peer: CanopyPeer) throws {
    let port = peer.server.port
    let token = try peer.administratorToken()
    Thread.detachNewThread { [self] in
      let result = Result { try Self.make(port, token) }.mapError { BenchFailure("\($0)") }
      state.withLock { $0 = result }
    }
  }

  private static func make(_ port: Int, _ token: String) throws -> Made {
    let socket = try LineSocket(port: port)
    _ = try socket.success("AUTH \(token)")
    let start = monotonicNanoseconds()
    let reply = try socket.success("BACKUP")
    let seconds = Double(monotonicNanoseconds() - start) / 1e9
    guard let file = reply["file"]?.string, case .leaf(let bytes)? = reply["bytes"],
      case .leaf(let sequence)? = reply["seq"]
    else { throw BenchFailure("BACKUP has no file") }
    return Made(
      file: file, bytes: bytes.integerValue ?? 0, sequence: sequence.integerValue ?? 0,
      seconds: seconds)
  }
}
