import ArgumentParser
import CanopyTree
import Foundation
import Synchronization

/// Makes a backup of a server under load, and compares it with the live data of its moment.
///
/// The tree is exported from the folder of the server before the backup begins. The load starts when the backup has
/// chosen its commit, so the backup must have this tree, although the server writes all the time.
struct BackupLoad: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Make a backup while the server is used, and measure its duration and effect.",
    discussion: """
      The command finds the peak of a mixed load, and exports the tree. Then it sends a part of that rate, whatever the \
      replies take: first during a backup, then alone. At the end it restores the backup, which must have the exported \
      tree. A later backup that is restored to the same commit must have it too. The exit code is 1 if a tree differs, if \
      a reply was wrong, or if the 99th percentile of the latency during the backup is more than --ratio-max times that \
      without it.
      """)

  @Option(help: "The number of posts at the start.") var posts = 1_000_000
  @Option(help: "The number of authors of these posts.") var users = 1_000
  @Option(help: "The number of connections, each with its own user.") var connections = 50
  @Option(help: "The requests in flight on each connection at the peak.") var depth = 1
  @Option(help: "The part of the peak at which the server is used, in percent.") var percent = 70.0
  @Option(help: "The seconds of the peak, and those of the load without a backup.") var seconds =
    20.0
  @Option(
    help:
      "The most that the 99th percentile of the latency may be during the backup, as a multiple of that without it."
  )
  var ratioMax = 10.0
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
    let options = ["--retained-commits", "100000000", "--retained-bytes", "100000000000"]
    func start() throws -> CanopyPeer {
      let peer = try CanopyPeer(
        data, folder: folder + "/data", tokens: accounts.tokens, arguments: options)
      try peer.connect(connections)
      return peer
    }
    let first = try start()
    let peak = try first.run(
      Round(
        mix: .blog, depth: depth, warmUpSeconds: 2, seconds: seconds, posts: posts, seed: seed))
    say("peak: \(Int(peak.perSecond)) requests in a second, \(connections) connections × \(depth)")
    try first.stop()
    let live = try export(folder + "/data")
    say("the live tree before the backup: sha256 \(live)")

    let peer = try start()
    let load = FixedLoad(
      peer: peer, client: try peer.connectedClient(), perSecond: peak.perSecond * percent / 100,
      posts: posts)
    let backup = try Backup(peer)
    try backup.waitForBeginning(peer)
    let during = try load.run("during a backup", seed: seed &+ 2) { backup.result == nil }
    guard let made = try backup.result?.get() else { throw BenchFailure("the backup did not end") }
    let duration = String(format: "%.1f", made.seconds)
    say("backup: \(duration) s, \(made.bytes / 1_000_000) MB, up to commit \(made.sequence)")
    let end = monotonicNanoseconds() + Int64(seconds * 1e9)
    let alone = try load.run("without a backup", seed: seed &+ 1) { monotonicNanoseconds() < end }
    try peer.stop()

    let restored = try restore(folder + "/data/backups/\(made.file)", to: folder + "/first")
    try canopy("backup", "--data", folder + "/data", folder + "/later.tar")
    let later = try restore(
      folder + "/later.tar", to: folder + "/later", "--up-to-sequence", "\(made.sequence)")
    try canopy("verify", "--data", folder + "/first")
    say("the restored backup: sha256 \(restored)")
    say("a later backup, restored to commit \(made.sequence): sha256 \(later)")
    for sample in [peak, during, alone] where sample.wrong > 0 {
      throw BenchFailure("\(sample.wrong) wrong replies: \(sample.firstWrong ?? "")")
    }
    guard restored == live else {
      throw BenchFailure("the backup has another tree than the server")
    }
    guard later == live else { throw BenchFailure("the restored later backup has another tree") }
    try checkRatio(during, alone)
  }

  /// Compares the latencies. Few requests have no meaningful percentile, as with a small number of posts.
  private func checkRatio(_ during: Sample, _ alone: Sample) throws {
    guard during.operations >= 1_000, alone.operations >= 1_000 else {
      throw BenchFailure(
        "\(during.operations) requests during the backup and \(alone.operations) without it are too few for a comparison: use more --posts"
      )
    }
    let times = [during, alone].map { $0.milliseconds(atPercentile: 99) }
    let ratio = times[0] / max(times[1], 0.001)
    let text = String(
      format: "p99 during the backup: %.2f ms, without: %.2f ms, ratio %.1f (at most %.1f)",
      times[0], times[1], ratio, ratioMax)
    say(text)
    guard ratio <= ratioMax else { throw BenchFailure("the backup slows requests down: \(text)") }
  }

  /// Restores a backup, and returns the checksum of its tree as JSON.
  private func restore(_ file: String, to folder: String, _ options: String...) throws -> String {
    let start = monotonicNanoseconds()
    try run(["restore", file, "--data", folder] + options)
    say("restored in \(String(format: "%.1f", Double(monotonicNanoseconds() - start) / 1e9)) s")
    return try export(folder)
  }

  /// Returns the checksum of the tree of a folder as JSON.
  private func export(_ folder: String) throws -> String {
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

/// Requests at a fixed rate.
private struct FixedLoad {
  let peer: CanopyPeer
  let client: LoadClient<LineDialect>
  let perSecond: Double
  let posts: Int

  /// Sends requests while a condition holds, and prints the latencies.
  func run(_ title: String, seed: UInt64, while goesOn: () -> Bool) throws -> Sample {
    let sample = try client.run(
      at: FixedRate(requestsPerSecond: perSecond, seconds: 3_600, seed: seed),
      next: { Mix.blog.next(posts: posts, &$0) }, usage: peer.usage.cpuSeconds, while: goesOn)
    let times = [50.0, 99, 99.9, 100].map {
      String(format: "%.2f", sample.milliseconds(atPercentile: $0))
    }
    say(
      "\(title): \(Int(sample.perSecond)) in a second for \(String(format: "%.1f", sample.seconds)) s, p50 "
        + "\(times[0])  p99 \(times[1])  p99.9 \(times[2])  worst \(times[3]) ms")
    return sample
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

  /// Waits until the server copies the first pages. From then on the backup has the commits of one moment.
  func waitForBeginning(_ peer: CanopyPeer) throws {
    let socket = try peer.administrator()
    while result == nil {
      if case .object? = try socket.success("BACKUPS")["running"] { return }
      usleep(1_000)
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
